#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/remote_cache/tier_jobs.h"

#include "worker/remote_cache/tier_queue.h"

#define ITEMS      4u
#define ITEM_BYTES 64u

static unsigned char large[2 * MR_SLICE_BYTES_MAX]; /* more than one Redis value */

/* Jobs with one load of two items. */
static void open_with_load(struct mr_tier_jobs *jobs)
{
    struct mr_tier_item items[2] = {{.key = {1}, .length = 10}, {.key = {2}, .length = 20}};
    struct mr_tier_request request = {.ticket = 4, .items = items, .count = 2};
    struct mr_tier_job_options options = {
        .work = MR_TIER_LOAD, .request = &request, .now_ns = 1, .deadline_ns = 100};
    assert_int_equal(mr_tier_jobs_create(jobs, 2, 1000, NULL), MR_OK);
    void *memory = mr_tier_memory_take(jobs->memory, mr_tier_job_bytes(&request));
    assert_non_null(memory);
    mr_tier_jobs_add(jobs, mr_tier_job_init(memory, &options), 1);
}

static void a_load_ends_when_its_last_part_does(void **state)
{
    struct mr_tier_jobs jobs;
    struct mr_tier_answer answer;
    (void)state;
    open_with_load(&jobs);
    assert_null(mr_tier_jobs_take(&jobs, 0, 1)); /* thread 0 runs lookups only */
    struct mr_tier_part *part = mr_tier_jobs_take(&jobs, 1, 2);
    assert_int_equal(part->item, 1);
    assert_true(mr_tier_jobs_finish(&jobs, part, true, 3)); /* CLEANUP renews its time to live */
    assert_int_equal(part->step, MR_TIER_STEP_CLEANUP);
    assert_false(mr_tier_jobs_finish(&jobs, part, true, 4));
    assert_true(mr_tier_jobs_poll(&jobs, &answer) && answer.index == 1 && answer.loaded);
    assert_false(mr_tier_jobs_poll(&jobs, &answer));
    mr_tier_jobs_drop_list(&jobs, &jobs.loads, 5);
    assert_true(mr_tier_jobs_poll(&jobs, &answer) && answer.index == 0 && !answer.loaded);
    assert_true(mr_tier_jobs_poll(&jobs, &answer) && answer.final && answer.count == 1);
    assert_int_equal(jobs.job_count, 0);
    assert_int_equal(jobs.stats.waiting_load_bytes, 0);
    assert_int_equal(jobs.stats.counters[MR_TIER_BYTES_LOADED], 20);
    mr_tier_jobs_check(&jobs);
    mr_tier_jobs_destroy(&jobs);
}

static void a_released_part_is_reported_before_its_command_ends(void **state)
{
    struct mr_tier_jobs jobs;
    struct mr_tier_answer answer;
    (void)state;
    open_with_load(&jobs);
    struct mr_tier_part *part = mr_tier_jobs_take(&jobs, 1, 2);
    mr_tier_jobs_release(&jobs, part, 3);
    assert_true(mr_tier_jobs_poll(&jobs, &answer) && answer.index == 1 && !answer.loaded);
    mr_tier_jobs_drop_list(&jobs, &jobs.loads, 4);
    while (mr_tier_jobs_poll(&jobs, &answer))
        assert_false(answer.loaded);
    assert_int_equal(jobs.job_count, 1); /* the thread still has the part */
    assert_false(mr_tier_jobs_finish(&jobs, part, false, 5));
    assert_int_equal(jobs.job_count, 0);
    mr_tier_jobs_check(&jobs);
    mr_tier_jobs_destroy(&jobs);
}

/* A queue that is connected, and a limit of the bytes that a tenant writes in a second. */
static struct mr_tier_queue *open_queue(uint64_t write_budget)
{
    const struct mr_tier_queue_options options = {.thread_count = 2,
                                                  .transfer_timeout_ns = 1000,
                                                  .store_bytes_max = sizeof large,
                                                  .write_budget = write_budget,
                                                  .present_ns = 10000};
    struct mr_tier_queue *queue;
    assert_int_equal(mr_tier_queue_create(&queue, &options, NULL), MR_OK);
    mr_tier_queue_set_ready(queue, 0, true, 0);
    mr_tier_queue_set_ready(queue, 1, true, 0);
    return queue;
}

/* Posts a store of `count` items. Returns how many are taken. */
static uint32_t post_store(struct mr_tier_queue *queue, uint32_t count, size_t length,
                           uint64_t now_ns)
{
    struct mr_tier_item items[ITEMS] = {{.length = 0}};
    const struct mr_tier_request request = {.ticket = 5, .items = items, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        items[i].key[0] = (unsigned char)(i + 1);
        items[i].bytes = large;
        items[i].length = length;
    }
    return mr_tier_queue_post(queue, MR_TIER_STORE, &request, now_ns);
}

static uint64_t counter(struct mr_tier_queue *queue, enum mr_tier_counter which)
{
    return mr_tier_queue_stats(queue).counters[which];
}

/* The store takes two seconds of budget and is too late after some lookups, of which only the first
 * finds its item, and some writes. Returns how many items of a second store are taken then, when
 * Redis is empty again. */
static uint32_t taken_after_late_store(uint32_t lookups, uint32_t writes)
{
    const uint64_t late_ns = 2000;
    const uint32_t has = (lookups > 0) + writes;
    struct mr_tier_queue *queue = open_queue(ITEMS * ITEM_BYTES / 2);
    struct mr_tier_answer answer;
    assert_int_equal(post_store(queue, ITEMS, ITEM_BYTES, 0), ITEMS);
    for (uint32_t i = 0; i < lookups; i++)
        assert_false(mr_tier_queue_finish(queue, mr_tier_queue_take(queue, 0, 0), i == 0, 0));
    for (uint32_t i = 0; i < writes; i++)
        assert_false(mr_tier_queue_finish(queue, mr_tier_queue_take(queue, 1, 0), true, 0));
    mr_tier_queue_expire(queue, late_ns);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final);
    assert_int_equal(answer.count, has);
    assert_int_equal(counter(queue, MR_TIER_ITEMS_DROPPED), ITEMS - has);
    assert_int_equal(counter(queue, MR_TIER_BYTES_DROPPED), (ITEMS - has) * ITEM_BYTES);
    mr_tier_queue_set_ready(queue, 0, false, late_ns);
    mr_tier_queue_set_ready(queue, 0, true, late_ns);
    const uint32_t taken = post_store(queue, ITEMS, ITEM_BYTES, late_ns);
    mr_tier_queue_expire(queue, 2 * late_ns);
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final);
    mr_tier_queue_check(queue);
    mr_tier_queue_destroy(queue);
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

/* Redis has the first of several values of an item and refuses the others. */
static void of_a_dropped_item_only_what_redis_lacks_counts(void **state)
{
    struct mr_tier_queue *queue = open_queue(0);
    struct mr_tier_answer answer;
    struct mr_tier_part *part;
    uint64_t lacking_bytes = 0;
    uint32_t lookups = 0;
    (void)state;
    assert_int_equal(post_store(queue, 1, sizeof large, 0), 1);
    for (; (part = mr_tier_queue_take(queue, 0, 0)) != NULL; lookups++) {
        if (lookups > 0) lacking_bytes += part->frame.length;
        assert_false(mr_tier_queue_finish(queue, part, lookups == 0, 0));
    }
    assert_true(lookups > 1);
    while ((part = mr_tier_queue_take(queue, 1, 0)) != NULL)
        assert_false(mr_tier_queue_finish(queue, part, false, 0));
    assert_true(mr_tier_queue_poll(queue, &answer) && answer.final && answer.count == 0);
    assert_int_equal(counter(queue, MR_TIER_BYTES_DROPPED), lacking_bytes);
    mr_tier_queue_check(queue);
    mr_tier_queue_destroy(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_ends_when_its_last_part_does),
        cmocka_unit_test(a_released_part_is_reported_before_its_command_ends),
        cmocka_unit_test(a_late_store_costs_what_it_wrote),
        cmocka_unit_test(of_a_dropped_item_only_what_redis_lacks_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
