#include "ops/cpu_kernels/parallel.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ITEMS = 1000 };

struct marks {
    atomic_uchar visits[ITEMS];
    atomic_uint parts, threads; /* threads: bit i: thread i ran a part */
};

static void visit(void *context, size_t begin, size_t end)
{
    struct marks *marks = context;
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&marks->visits[i], 1);
    atomic_fetch_add(&marks->parts, 1);
    atomic_fetch_or(&marks->threads, 1u << mr_parallel_thread_index());
}

static void check_visits(const struct marks *marks, size_t count, unsigned times)
{
    for (size_t i = 0; i < ITEMS; i++)
        assert_int_equal(marks->visits[i], i < count ? times : 0);
}

static void each_item_is_visited_once(void **state)
{
    (void)state;
    const size_t counts[] = {0, 1, 2, 3, 7, 64, ITEMS};
    const size_t grains[] = {0, 1, 5, ITEMS};
    for (uint32_t threads = 1; threads <= 5; threads++) {
        assert_int_equal(mr_parallel_set_thread_count(threads, NULL), MR_OK);
        assert_int_equal(mr_parallel_thread_count(), threads);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
                struct marks marks = {0};
                for (unsigned times = 1; times <= 20; times++) {
                    mr_parallel_for(counts[c], grains[g], visit, &marks);
                    check_visits(&marks, counts[c], times);
                }
                assert_true(marks.threads < 1u << threads);
            }
    }
}

static void a_loop_without_items_does_not_call_the_body(void **state)
{
    (void)state;
    struct marks marks = {0};
    mr_parallel_for(0, 1, visit, &marks);
    assert_int_equal(marks.parts, 0);
}

static void work_below_the_grain_stays_on_the_caller(void **state)
{
    (void)state;
    struct marks marks = {0};
    assert_int_equal(mr_parallel_set_thread_count(3, NULL), MR_OK);
    mr_parallel_for(10, 10, visit, &marks);
    assert_int_equal(marks.parts, 1);
    assert_int_equal(marks.threads, 1);
}

/* The first part waits until other threads have done all other parts. */
static void wait_for_the_rest(void *context, size_t begin, size_t end)
{
    atomic_size_t *done = context;
    while (begin == 0 && atomic_load(done) < ITEMS - end) {
    }
    atomic_fetch_add(done, end - begin);
}

static void idle_threads_take_the_remaining_parts(void **state)
{
    (void)state;
    assert_int_equal(mr_parallel_set_thread_count(2, NULL), MR_OK);
    for (int i = 0; i < 50; i++) {
        atomic_size_t done = 0;
        mr_parallel_for(ITEMS, 10, wait_for_the_rest, &done);
        assert_int_equal(done, ITEMS);
    }
}

/* A loop inside a loop runs on its caller alone. */
static void nest(void *context, size_t begin, size_t end)
{
    struct marks *marks = context;
    for (size_t i = begin; i < end; i++) {
        struct marks inner = {0};
        mr_parallel_for(ITEMS, 1, visit, &inner);
        check_visits(&inner, ITEMS, 1);
        assert_int_equal(inner.parts, 1);
        assert_int_equal(inner.threads, 1u << mr_parallel_thread_index());
        atomic_fetch_add(&marks->visits[i], 1);
    }
}

static void loops_may_be_nested(void **state)
{
    (void)state;
    struct marks marks = {0};
    assert_int_equal(mr_parallel_set_thread_count(3, NULL), MR_OK);
    mr_parallel_for(40, 1, nest, &marks);
    check_visits(&marks, 40, 1);
}

static void *loop_often(void *context)
{
    for (int i = 0; i < 2000; i++)
        mr_parallel_for(ITEMS, 7, visit, context);
    return NULL;
}

/* Two threads run loops at the same time while a third changes the number of threads. */
static void any_thread_may_run_loops(void **state)
{
    (void)state;
    static struct marks marks[2];
    pthread_t threads[2];
    memset(marks, 0, sizeof marks);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, loop_often, &marks[i]), 0);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(mr_parallel_set_thread_count(1 + i % 4, NULL), MR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        check_visits(&marks[i], ITEMS, 2000 % 256);
    }
}

static void too_many_threads_are_rejected(void **state)
{
    (void)state;
    struct mr_error err;
    assert_int_equal(mr_parallel_set_thread_count(2, &err), MR_OK);
    assert_int_equal(mr_parallel_set_thread_count(MR_PARALLEL_THREADS_MAX + 1, &err),
                     MR_BAD_CONFIG);
    assert_int_equal(mr_parallel_thread_count(), 2);
    expect_assert_failure((void)mr_parallel_set_thread_count(0, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_is_visited_once),
        cmocka_unit_test(a_loop_without_items_does_not_call_the_body),
        cmocka_unit_test(work_below_the_grain_stays_on_the_caller),
        cmocka_unit_test(idle_threads_take_the_remaining_parts),
        cmocka_unit_test(loops_may_be_nested),
        cmocka_unit_test(any_thread_may_run_loops),
        cmocka_unit_test(too_many_threads_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
