#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/remote_cache/tier_job.h"

#include <stdlib.h>
#include <string.h>

static void a_job_has_one_part_for_each_slice(void **state)
{
    static unsigned char bytes[2][12 << 20];
    struct mr_tier_item items[] = {
        {.key = {0xab}, .token_count = 256, .bytes = bytes[0], .length = sizeof bytes[0]},
        {.key = {0xcd}, .token_count = 9, .bytes = bytes[1], .length = 1000}};
    struct mr_tier_request request = {.ticket = 3, .items = items, .count = 2};
    struct mr_tier_job_options options = {
        .work = MR_TIER_LOAD, .request = &request, .now_ns = 1, .deadline_ns = 50};
    (void)state;
    struct mr_tier_job *job = mr_tier_job_init(calloc(1, mr_tier_job_bytes(&request)), &options);
    uint32_t slices = mr_slices_of(items[0].length, 0).count;
    assert_true(slices > 1);
    assert_int_equal(job->part_count, slices + 1);
    assert_true(job->open == job->part_count && job->untaken == job->part_count);
    assert_int_equal(job->items[0].open, slices);
    assert_int_equal(job->bytes, items[0].length + 1000);
    const struct mr_tier_part *last = &job->parts[slices];
    assert_true(last->item == 1 && last->step == MR_TIER_STEP_GET && last->deadline_ns == 50);
    assert_true(last->payload == bytes[1] && last->frame.length == 1000);
    assert_memory_equal(job->parts[1].key, "mr1:ab00", 8);
    assert_memory_equal(job->parts[1].key + job->parts[1].key_length - 2, ":1", 2);
    size_t sum = 0;
    for (uint32_t i = 0; i < slices; i++) {
        assert_ptr_equal(job->parts[i].payload, bytes[0] + sum);
        sum += job->parts[i].frame.length;
    }
    assert_int_equal(sum, items[0].length);
    free(job);
}

static void a_lookup_counts_up_to_the_first_gap(void **state)
{
    struct mr_tier_entry items[] = {{.present = true}, {.present = false}, {.present = true}};
    struct mr_tier_job job = {.work = MR_TIER_LOOKUP, .items = items, .item_count = 3};
    (void)state;
    assert_int_equal(mr_tier_job_present(&job), 1);
    job.work = MR_TIER_STORE;
    assert_int_equal(mr_tier_job_present(&job), 2);
}

static void lists_keep_their_order(void **state)
{
    struct mr_tier_job jobs[3] = {0};
    struct mr_tier_job_list list = {0};
    (void)state;
    for (int i = 0; i < 3; i++)
        mr_tier_job_list_push(&list, &jobs[i]);
    mr_tier_job_list_remove(&list, &jobs[1]);
    mr_tier_job_list_remove(&list, &jobs[1]); /* not in the list */
    assert_ptr_equal(list.first, &jobs[0]);
    assert_ptr_equal(list.last, &jobs[2]);
    mr_tier_job_list_remove(&list, &jobs[2]);
    mr_tier_job_list_remove(&list, &jobs[0]);
    assert_true(list.first == NULL && list.last == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_has_one_part_for_each_slice),
        cmocka_unit_test(a_lookup_counts_up_to_the_first_gap),
        cmocka_unit_test(lists_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
