#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/remote_queue_state.h"

#include "kvcache/remote/remote_queue.h"

#define ITEMS      4u
#define ITEM_BYTES 64u

static unsigned char large[2 * MR_SLICE_BYTES_MAX]; /* more than one Redis value */

/* Operations with one load of two values. */
static void open_with_load(struct mr_operations *operations)
{
    struct mr_remote_value values[2] = {{.key = {1}, .length = 10}, {.key = {2}, .length = 20}};
    struct mr_remote_operation posted = {.id = 4, .values = values, .count = 2};
    struct mr_queued_operation_options options = {
        .kind = MR_REMOTE_LOAD, .posted = &posted, .now_ns = 1, .deadline_ns = 100};
    assert_int_equal(mr_operations_create(operations, 2, 1000, NULL), MR_OK);
    void *memory = mr_queue_memory_take(operations->memory, mr_queued_operation_bytes(&posted));
    assert_non_null(memory);
    mr_operations_add(operations, mr_queued_operation_init(memory, &options), 1);
}

static void a_load_ends_when_its_last_slice_does(void **state)
{
    struct mr_operations operations;
    struct mr_remote_answer answer;
    (void)state;
    open_with_load(&operations);
    assert_null(mr_operations_take(&operations, 0, 1)); /* thread 0 runs lookups only */
    struct mr_remote_slice *slice = mr_operations_take(&operations, 1, 2);
    assert_int_equal(slice->value, 1);
    assert_true(
        mr_operations_finish(&operations, slice, true, 3)); /* CLEANUP renews its time to live */
    assert_int_equal(slice->step, MR_REMOTE_STEP_CLEANUP);
    assert_false(mr_operations_finish(&operations, slice, true, 4));
    assert_true(mr_operations_poll(&operations, &answer) && answer.index == 1 && answer.loaded);
    assert_false(mr_operations_poll(&operations, &answer));
    mr_operations_drop_list(&operations, &operations.loads, 5);
    assert_true(mr_operations_poll(&operations, &answer) && answer.index == 0 && !answer.loaded);
    assert_true(mr_operations_poll(&operations, &answer) && answer.final && answer.count == 1);
    assert_int_equal(operations.operation_count, 0);
    assert_int_equal(operations.stats.waiting_load_bytes, 0);
    assert_int_equal(operations.stats.counters[MR_REMOTE_BYTES_LOADED], 20);
    mr_operations_check(&operations);
    mr_operations_destroy(&operations);
}

static void a_released_slice_is_reported_before_its_command_ends(void **state)
{
    struct mr_operations operations;
    struct mr_remote_answer answer;
    (void)state;
    open_with_load(&operations);
    struct mr_remote_slice *slice = mr_operations_take(&operations, 1, 2);
    mr_operations_release(&operations, slice, 3);
    assert_true(mr_operations_poll(&operations, &answer) && answer.index == 1 && !answer.loaded);
    mr_operations_drop_list(&operations, &operations.loads, 4);
    while (mr_operations_poll(&operations, &answer))
        assert_false(answer.loaded);
    assert_int_equal(operations.operation_count, 1); /* the thread still has the slice */
    assert_false(mr_operations_finish(&operations, slice, false, 5));
    assert_int_equal(operations.operation_count, 0);
    mr_operations_check(&operations);
    mr_operations_destroy(&operations);
}

/* A connected queue with a limit on the bytes that each tenant writes per second. */
static struct mr_remote_queue *open_queue(uint64_t write_budget)
{
    const struct mr_remote_queue_options options = {.thread_count = 2,
                                                    .transfer_timeout_ns = 1000,
                                                    .store_bytes_max = sizeof large,
                                                    .write_budget = write_budget,
                                                    .present_ns = 10000};
    struct mr_remote_queue *queue;
    assert_int_equal(mr_remote_queue_create(&queue, &options, NULL), MR_OK);
    mr_remote_queue_set_ready(queue, 0, true, 0);
    mr_remote_queue_set_ready(queue, 1, true, 0);
    return queue;
}

/* Posts a store of `count` values. Returns how many are taken. */
static uint32_t post_store(struct mr_remote_queue *queue, uint32_t count, size_t length,
                           uint64_t now_ns)
{
    struct mr_remote_value values[ITEMS] = {{.length = 0}};
    const struct mr_remote_operation posted = {.id = 5, .values = values, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        values[i].key[0] = (unsigned char)(i + 1);
        values[i].bytes = large;
        values[i].length = length;
    }
    return mr_remote_queue_post(queue, MR_REMOTE_STORE, &posted, now_ns);
}

static uint64_t counter(struct mr_remote_queue *queue, enum mr_remote_counter which)
{
    return mr_remote_queue_stats(queue).counters[which];
}

/* The store is charged two seconds of budget. Its deadline passes after some lookups, of which only
 * the first finds its value, and some writes. Redis is then emptied. Returns how many values of a
 * second store are accepted. */
static uint32_t taken_after_late_store(uint32_t lookups, uint32_t writes)
{
    const uint64_t late_ns = 2000;
    const uint32_t has = (lookups > 0) + writes;
    struct mr_remote_queue *queue = open_queue(ITEMS * ITEM_BYTES / 2);
    struct mr_remote_answer answer;
    assert_int_equal(post_store(queue, ITEMS, ITEM_BYTES, 0), ITEMS);
    for (uint32_t i = 0; i < lookups; i++)
        assert_false(mr_remote_queue_finish(queue, mr_remote_queue_take(queue, 0, 0), i == 0, 0));
    for (uint32_t i = 0; i < writes; i++)
        assert_false(mr_remote_queue_finish(queue, mr_remote_queue_take(queue, 1, 0), true, 0));
    mr_remote_queue_expire(queue, late_ns);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final);
    assert_int_equal(answer.count, has);
    assert_int_equal(counter(queue, MR_REMOTE_VALUES_DROPPED), ITEMS - has);
    assert_int_equal(counter(queue, MR_REMOTE_BYTES_DROPPED), (ITEMS - has) * ITEM_BYTES);
    mr_remote_queue_set_ready(queue, 0, false, late_ns);
    mr_remote_queue_set_ready(queue, 0, true, late_ns);
    const uint32_t taken = post_store(queue, ITEMS, ITEM_BYTES, late_ns);
    mr_remote_queue_expire(queue, 2 * late_ns);
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final);
    mr_remote_queue_check(queue);
    mr_remote_queue_destroy(queue);
    return taken;
}

static void a_late_store_costs_what_it_wrote(void **state)
{
    (void)state;
    assert_int_equal(taken_after_late_store(0, 0), ITEMS);
    assert_int_equal(taken_after_late_store(1, 0), ITEMS);
    assert_int_equal(taken_after_late_store(ITEMS, 0), ITEMS);
    assert_int_equal(taken_after_late_store(ITEMS, 1), ITEMS - 1);
    assert_int_equal(taken_after_late_store(ITEMS, 2), ITEMS - 2);
}

/* Redis has the first of several slices of a value and refuses the others. */
static void of_a_dropped_value_only_what_redis_lacks_counts(void **state)
{
    struct mr_remote_queue *queue = open_queue(0);
    struct mr_remote_answer answer;
    struct mr_remote_slice *slice;
    uint64_t lacking_bytes = 0;
    uint32_t lookups = 0;
    (void)state;
    assert_int_equal(post_store(queue, 1, sizeof large, 0), 1);
    for (; (slice = mr_remote_queue_take(queue, 0, 0)) != NULL; lookups++) {
        if (lookups > 0) lacking_bytes += slice->frame.length;
        assert_false(mr_remote_queue_finish(queue, slice, lookups == 0, 0));
    }
    assert_true(lookups > 1);
    while ((slice = mr_remote_queue_take(queue, 1, 0)) != NULL)
        assert_false(mr_remote_queue_finish(queue, slice, false, 0));
    assert_true(mr_remote_queue_poll(queue, &answer) && answer.final && answer.count == 0);
    assert_int_equal(counter(queue, MR_REMOTE_BYTES_DROPPED), lacking_bytes);
    mr_remote_queue_check(queue);
    mr_remote_queue_destroy(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_ends_when_its_last_slice_does),
        cmocka_unit_test(a_released_slice_is_reported_before_its_command_ends),
        cmocka_unit_test(a_late_store_costs_what_it_wrote),
        cmocka_unit_test(of_a_dropped_value_only_what_redis_lacks_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
