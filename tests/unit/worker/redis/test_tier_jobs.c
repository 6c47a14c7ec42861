#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/redis/tier_jobs.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_ends_when_its_last_part_does),
        cmocka_unit_test(a_released_part_is_reported_before_its_command_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
