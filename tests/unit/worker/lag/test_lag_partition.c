#include "tests/unit/worker/lag/lag_fixture.h"

static void everything_above_the_commit_waits_until_it_is_read(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    mr_lag_partition_init(&partition, 0, 3, 100);
    update(&partition, 0, 10, 20, "");
    assert_int_equal(mr_lag_partition_unread(&partition), 10);
    assert_true(mr_lag_partition_has_unread(&partition));
    mr_lag_partition_free(&partition);
}

static void finished_requests_above_the_commit_do_not_wait(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    mr_lag_partition_init(&partition, 0, 0, 100);
    update(&partition, 0, 10, 20, "SFF?F");
    assert_int_equal(mr_lag_partition_unread(&partition), 7);
    for (int64_t o = 10; o < 20; o++)
        assert_true(add(&partition, o, 0, 0));
    mr_lag_partition_check(&partition);
    assert_int_equal(partition.count, 7);
    assert_int_equal(mr_lag_partition_unread(&partition), 0);
    assert_true(mr_lag_partition_is_started(&partition, 10));
    assert_false(mr_lag_partition_is_started(&partition, 13));
    /* the long request at 10 is done: the rest of the list is at other places of the next commit */
    update(&partition, 0, 13, 20, "?F");
    assert_int_equal(partition.count, 6);
    assert_int_equal(partition.requests[0].offset, 13);
    mr_lag_partition_free(&partition);
}

static void an_offset_without_a_record_does_not_wait(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    mr_lag_partition_init(&partition, 0, 0, 100);
    /* offset 10 is a request, 11 the marker of its producer's transaction */
    update(&partition, 0, 10, 12, "");
    assert_true(add(&partition, 10, 0, 0));
    mr_lag_partition_advance(&partition, 12);
    assert_int_equal(partition.count, 1);
    assert_int_equal(mr_lag_partition_unread(&partition), 0);
    assert_false(mr_lag_partition_has_unread(&partition));
    /* the request is answered. Its worker has seen no later record, so it commits offset 11. */
    update(&partition, 0, 11, 12, "");
    assert_int_equal(partition.count, 0);
    assert_int_equal(mr_lag_partition_unread(&partition), 0);
    mr_lag_partition_free(&partition);
}

static void without_a_commit_the_first_offset_counts(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    struct mr_offset_ledger *scratch = NULL;
    assert_int_equal(mr_offset_ledger_create(&scratch, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    mr_lag_partition_init(&partition, 0, 0, 100);
    const struct mr_kafka_backlog_partition at = {.begin = 900, .end = 905, .committed = -1};
    mr_lag_partition_update(&partition, &at, scratch);
    assert_int_equal(partition.base, 900);
    assert_int_equal(mr_lag_partition_unread(&partition), 5);
    mr_lag_partition_check(&partition);
    mr_offset_ledger_destroy(scratch);
    mr_lag_partition_free(&partition);
}

static void records_that_retention_deleted_do_not_wait(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    mr_lag_partition_init(&partition, 0, 0, 100);
    update(&partition, 15, 10, 20, "SF???FF");
    assert_int_equal(partition.base, 15);
    assert_int_equal(mr_lag_partition_unread(&partition), 3); /* 15 and 16 are finished */
    mr_lag_partition_free(&partition);
}

static void a_log_that_begins_again_is_read_again(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    mr_lag_partition_init(&partition, 0, 0, 100);
    update(&partition, 0, 10, 20, "");
    for (int64_t o = 10; o < 20; o++)
        assert_true(add(&partition, o, 0, 0));
    update(&partition, 0, 10, 4, ""); /* the commit is still that of the old log */
    assert_int_equal(partition.count, 0);
    assert_int_equal(mr_lag_partition_unread(&partition), 0);
    update(&partition, 0, 2, 4, ""); /* moved back by hand */
    assert_int_equal(mr_lag_partition_unread(&partition), 2);
    mr_lag_partition_free(&partition);
}

static void metadata_of_another_application_lists_nothing(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    struct mr_offset_ledger *scratch = NULL;
    assert_int_equal(mr_offset_ledger_create(&scratch, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    mr_lag_partition_init(&partition, 0, 0, 100);
    const struct mr_kafka_backlog_partition at = {
        .begin = 0, .end = 20, .committed = 10, .metadata = {"owner=x", 7}};
    mr_lag_partition_update(&partition, &at, scratch);
    assert_int_equal(mr_lag_partition_unread(&partition), 10);
    mr_offset_ledger_destroy(scratch);
    mr_lag_partition_free(&partition);
}

static void a_full_partition_counts_the_rest_by_offset(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    mr_lag_partition_init(&partition, 0, 0, 100);
    update(&partition, 0, 0, 1000, "");
    int64_t o = 0;
    while (add(&partition, o, 0, 0))
        o++;
    assert_int_equal(o, 100);
    assert_false(mr_lag_partition_has_unread(&partition));
    assert_int_equal(partition.count + mr_lag_partition_unread(&partition), 1000);
    /* room comes with progress */
    update(&partition, 0, 60, 1000, "");
    assert_true(mr_lag_partition_has_unread(&partition));
    assert_true(add(&partition, 100, 0, 0));
    assert_int_equal(partition.count + mr_lag_partition_unread(&partition), 940);
    mr_lag_partition_check(&partition);
    mr_lag_partition_free(&partition);
}

static void requests_are_added_in_order(void **state)
{
    (void)state;
    struct mr_lag_partition partition;
    mr_lag_partition_init(&partition, 0, 0, 100);
    update(&partition, 0, 0, 10, "");
    assert_true(add(&partition, 5, 0, 0));
    expect_assert_failure(add(&partition, 5, 0, 0));
    mr_lag_partition_free(&partition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_above_the_commit_waits_until_it_is_read),
        cmocka_unit_test(finished_requests_above_the_commit_do_not_wait),
        cmocka_unit_test(an_offset_without_a_record_does_not_wait),
        cmocka_unit_test(without_a_commit_the_first_offset_counts),
        cmocka_unit_test(records_that_retention_deleted_do_not_wait),
        cmocka_unit_test(a_log_that_begins_again_is_read_again),
        cmocka_unit_test(metadata_of_another_application_lists_nothing),
        cmocka_unit_test(a_full_partition_counts_the_rest_by_offset),
        cmocka_unit_test(requests_are_added_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
