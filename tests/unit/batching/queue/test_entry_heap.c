#include "batching/queue/entry_heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_best_is_first_by_priority_age_and_order(void **state)
{
    (void)state;
    struct mr_entry_heap heap;
    struct mr_queue_entry entries[] = {{.priority = 0, .arrival_ns = 0, .sequence = 1},
                                       {.priority = 2, .arrival_ns = 10, .sequence = 2},
                                       {.priority = 2, .arrival_ns = 30, .sequence = 3},
                                       {.priority = 0, .arrival_ns = 0, .sequence = 4}};
    static const int order[] = {1, 0, 3, 2}; /* 20 units of waiting are worth two priority steps */
    assert_true(mr_entry_heap_open(&heap, MR_HEAP_BY_PRIORITY, 4, 10));
    for (int i = 3; i >= 0; i--)
        mr_entry_heap_push(&heap, &entries[i]);
    for (int i = 0; i < 4; i++) {
        mr_entry_heap_check(&heap);
        assert_ptr_equal(heap.entries[0], &entries[order[i]]);
        mr_entry_heap_remove(&heap, heap.entries[0]);
    }
    mr_entry_heap_close(&heap);
}

static void any_entry_can_be_removed_and_the_earliest_deadline_stays_first(void **state)
{
    (void)state;
    struct mr_entry_heap heap;
    struct mr_queue_entry entries[9] = {{.priority = 0}};
    assert_true(mr_entry_heap_open(&heap, MR_HEAP_BY_DEADLINE, 9, 0));
    for (uint64_t i = 0; i < 9; i++) {
        entries[i].deadline_ns = 1 + (i * 5) % 9;
        mr_entry_heap_push(&heap, &entries[i]);
    }
    mr_entry_heap_remove(&heap, &entries[0]); /* 1, the earliest */
    mr_entry_heap_remove(&heap, &entries[4]); /* 3 */
    mr_entry_heap_check(&heap);
    assert_int_equal(heap.count, 7);
    assert_int_equal(heap.entries[0]->deadline_ns, 2);
    mr_entry_heap_close(&heap);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_entry_heap heap;
    struct mr_queue_entry inside = {.priority = 1}, outside = {.heap_index = 5};
    assert_true(mr_entry_heap_open(&heap, MR_HEAP_BY_PRIORITY, 1, 0));
    mr_entry_heap_push(&heap, &inside);
    expect_assert_failure(mr_entry_heap_push(&heap, &outside));
    expect_assert_failure(mr_entry_heap_remove(&heap, &outside));
    inside.heap_index = 3;
    expect_assert_failure(mr_entry_heap_check(&heap));
    mr_entry_heap_close(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_first_by_priority_age_and_order),
        cmocka_unit_test(any_entry_can_be_removed_and_the_earliest_deadline_stays_first),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
