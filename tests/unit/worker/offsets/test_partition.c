#include "worker/offsets/partition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_kafka_claim claim_of(int32_t partition, int64_t committed, const char *metadata)
{
    return (struct mr_kafka_claim){.topic = "t",
                                   .partition = partition,
                                   .committed = committed,
                                   .metadata = {metadata, strlen(metadata)},
                                   .start = committed};
}

static struct mr_partitions *partitions_of(void)
{
    struct mr_partitions *partitions = NULL;
    assert_int_equal(mr_partitions_create(&partitions, NULL), MR_OK);
    return partitions;
}

static struct mr_partition *take(struct mr_partitions *partitions, struct mr_kafka_claim *claim,
                                 bool *resumed)
{
    struct mr_partition *partition = NULL;
    assert_int_equal(mr_partitions_take(partitions, claim, &partition, resumed, NULL), MR_OK);
    assert_int_equal(partition->state, MR_PARTITION_OWNED);
    mr_partitions_check(partitions);
    return partition;
}

static void receive(struct mr_partition *partition, int64_t offset)
{
    struct mr_ledger_history history;
    assert_int_equal(mr_offset_ledger_receive(partition->ledger, offset, &history), MR_LEDGER_NEW);
}

static void a_commit_says_only_what_is_new(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(2, 10, "");
    struct mr_kafka_commit commit;
    bool resumed = true;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    assert_false(resumed);
    assert_false(
        mr_partition_fill_commit(partition, 1000, &commit)); /* the broker knows 10 already */
    receive(partition, 10);
    receive(partition, 11);
    mr_offset_ledger_finish(partition->ledger, 10);
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    assert_int_equal(commit.offset, 11);
    assert_int_equal(commit.partition, 2);
    mr_partition_committed(partition, false);
    assert_true(mr_partition_fill_commit(partition, 1000, &commit)); /* refused: due again */
    mr_partition_committed(partition, true);
    assert_int_equal(partition->acked_offset, 11);
    assert_false(mr_partition_fill_commit(partition, 1000, &commit));
    mr_partitions_destroy(partitions);
}

static void work_done_out_of_order_survives_in_the_metadata(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of(), *later = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 0, ""), inherited;
    struct mr_kafka_commit commit;
    struct mr_ledger_history history;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    receive(partition, 0);
    receive(partition, 1);
    mr_offset_ledger_finish(partition->ledger, 1);
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    assert_int_equal(commit.offset, 0);
    inherited = claim_of(0, commit.offset, commit.metadata);
    partition = take(later, &inherited, &resumed);
    assert_int_equal(mr_offset_ledger_receive(partition->ledger, 0, &history), MR_LEDGER_NEW);
    assert_int_equal(mr_offset_ledger_receive(partition->ledger, 1, &history), MR_LEDGER_FINISHED);
    mr_partitions_destroy(partitions);
    mr_partitions_destroy(later);
}

static void a_partition_that_comes_straight_back_is_resumed(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 5, "");
    struct mr_kafka_commit commit;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    uint64_t epoch = partition->epoch;
    receive(partition, 5);
    receive(partition, 6);
    mr_offset_ledger_finish(partition->ledger, 5);
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    mr_partition_committed(partition, true);
    mr_partition_suspend(partition);
    assert_false(mr_partition_fill_commit(partition, 1000, &commit));
    claim = claim_of(0, 6, partition->acked_metadata);
    assert_ptr_equal(take(partitions, &claim, &resumed), partition);
    assert_true(resumed);
    assert_int_equal(partition->epoch, epoch);
    assert_int_equal(claim.start, 7); /* after the records already read */
    mr_partitions_destroy(partitions);
}

/* Suspends the partition in the generation `from` and takes it again in `to`, with the same commit;
 * true: it was resumed. */
static bool resumes(int32_t from, int32_t to)
{
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 5, "");
    bool resumed;
    claim.generation = from;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    uint64_t epoch = partition->epoch;
    mr_partition_suspend(partition);
    claim = claim_of(0, 5, "");
    claim.generation = to;
    assert_ptr_equal(take(partitions, &claim, &resumed), partition);
    assert_int_equal(partition->generation, to);
    assert_true(resumed == (partition->epoch == epoch));
    mr_partitions_destroy(partitions);
    return resumed;
}

static void a_partition_that_another_worker_may_have_had_is_not_resumed(void **state)
{
    (void)state;
    assert_true(resumes(7, 8));
    assert_true(resumes(7, 7));   /* a static member that returns */
    assert_false(resumes(7, 9));  /* the owner of generation 8 may have written results */
    assert_false(resumes(7, 6));  /* the group began again */
    assert_true(resumes(-1, -1)); /* without a group */
    assert_true(resumes(7, -1));
}

static void a_commit_by_somebody_else_ends_the_old_life(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 5, "");
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    uint64_t epoch = partition->epoch;
    receive(partition, 5);
    mr_partition_suspend(partition);
    claim = claim_of(0, 8, "");
    take(partitions, &claim, &resumed);
    assert_false(resumed);
    assert_true(partition->epoch > epoch);
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 8);
    epoch = partition->epoch;
    mr_partition_forget(partition);
    assert_int_equal(partition->state, MR_PARTITION_NONE);
    assert_true(partition->epoch > epoch);
    mr_partitions_destroy(partitions);
}

/* Finishes records up to offset `end` and commits at `since_ms`. */
static void work_until(struct mr_partition *partition, int64_t end, int64_t since_ms,
                       struct mr_kafka_commit *commit)
{
    for (int64_t offset = mr_offset_ledger_base(partition->ledger); offset < end; offset++) {
        receive(partition, offset);
        mr_offset_ledger_finish(partition->ledger, offset);
    }
    assert_true(mr_partition_fill_commit(partition, since_ms, commit));
    assert_int_equal(commit->offset, end);
    mr_partition_committed(partition, true);
}

/* Owns partition 1 up to a commit of offset 10, with record 11 finished, made at 2000 ms. older:
 * the metadata of the commit before, of offset 8, made at 1000 ms. */
static struct mr_partitions *forgotten_at_10(bool released, char *older)
{
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(1, 5, "");
    struct mr_kafka_commit commit;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    work_until(partition, 8, 1000, &commit);
    memcpy(older, commit.metadata, strlen(commit.metadata) + 1);
    for (int64_t offset = 8; offset < 12; offset++) {
        receive(partition, offset);
        if (offset != 10) mr_offset_ledger_finish(partition->ledger, offset);
    }
    assert_true(mr_partition_fill_commit(partition, 2000, &commit));
    assert_int_equal(commit.offset, 10);
    mr_partition_committed(partition, true);
    mr_partition_forget(partition);
    if (released) mr_partitions_release(partitions);
    assert_int_equal(mr_partitions_count(partitions), released ? 0 : 1);
    return partitions;
}

static void a_commit_older_than_the_last_one_is_not_believed(void **state)
{
    (void)state;
    for (int released = 0; released < 2; released++) {
        char older[MR_LEDGER_METADATA_TEXT_MAX];
        struct mr_partitions *partitions = forgotten_at_10(released, older);
        struct mr_kafka_claim claim = claim_of(1, 8, older);
        struct mr_ledger_history history;
        bool resumed;
        struct mr_partition *partition = take(partitions, &claim, &resumed);
        assert_false(resumed);
        assert_int_equal(claim.committed, 10);
        assert_int_equal(claim.start, 10);
        assert_int_equal(partition->acked_offset, 10);
        assert_int_equal(partition->acked_since_ms, 2000);
        receive(partition, 10);
        assert_int_equal(mr_offset_ledger_receive(partition->ledger, 11, &history),
                         MR_LEDGER_FINISHED);
        mr_partitions_destroy(partitions);
    }
}

static void an_offset_set_by_hand_or_of_a_replaced_log_counts(void **state)
{
    (void)state;
    for (int replaced = 0; replaced < 2; replaced++) {
        char older[MR_LEDGER_METADATA_TEXT_MAX];
        struct mr_partitions *partitions = forgotten_at_10(replaced, older),
                             *other = partitions_of();
        struct mr_kafka_claim claim = claim_of(1, 0, "");
        struct mr_kafka_commit commit;
        bool resumed;
        work_until(take(other, &claim, &resumed), 3, 3000, &commit);
        claim = claim_of(1, 3, replaced ? commit.metadata : "");
        assert_int_equal(take(partitions, &claim, &resumed)->acked_offset, 3);
        assert_int_equal(claim.committed, 3);
        assert_int_equal(claim.start, 3);
        mr_partitions_destroy(partitions);
        mr_partitions_destroy(other);
    }
}

static void a_later_commit_of_another_worker_counts(void **state)
{
    char older[MR_LEDGER_METADATA_TEXT_MAX];
    struct mr_partitions *partitions = forgotten_at_10(true, older), *other = partitions_of();
    struct mr_kafka_claim claim = claim_of(1, 0, "");
    struct mr_kafka_commit commit;
    bool resumed;
    (void)state;
    work_until(take(other, &claim, &resumed), 12, 1500, &commit);
    claim = claim_of(1, 12, commit.metadata);
    assert_int_equal(take(partitions, &claim, &resumed)->acked_offset, 12);
    mr_partitions_destroy(partitions);
    mr_partitions_destroy(other);
}

static void metadata_of_another_application_is_said_and_the_partition_is_taken(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 5, "not ours at all!");
    struct mr_partition *partition = NULL;
    struct mr_error err = {0};
    bool resumed = true;
    assert_int_equal(mr_partitions_take(partitions, &claim, &partition, &resumed, &err),
                     MR_MALFORMED);
    assert_int_equal(partition->state, MR_PARTITION_OWNED);
    assert_false(resumed);
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 5);
    mr_partitions_destroy(partitions);
}

static void a_commit_is_made_again_before_its_time_grows_old(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    struct mr_kafka_commit commit;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    assert_false(mr_partition_fill_commit(partition, 1 << 30,
                                          &commit)); /* an offset set by hand stays as it is */
    receive(partition, 10);
    mr_offset_ledger_finish(partition->ledger, 10);
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    mr_partition_committed(partition, true);
    assert_false(mr_partition_fill_commit(partition, 1000 + MR_PARTITION_REFRESH_MS - 1, &commit));
    assert_true(mr_partition_fill_commit(partition, 1000 + MR_PARTITION_REFRESH_MS, &commit));
    assert_int_equal(commit.offset, 11);
    mr_partition_committed(partition, true);
    assert_false(mr_partition_fill_commit(partition, 1000 + MR_PARTITION_REFRESH_MS, &commit));
    claim = claim_of(0, 11, partition->acked_metadata); /* the next owner knows the time */
    mr_partition_forget(partition);
    take(partitions, &claim, &resumed);
    assert_int_equal(partition->acked_since_ms, 1000 + MR_PARTITION_REFRESH_MS);
    mr_partitions_destroy(partitions);
}

static void nothing_is_committed_while_results_are_looked_for(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    struct mr_kafka_commit commit;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    mr_offset_ledger_found(partition->ledger, 12);
    partition->recovering = true;
    assert_false(mr_partition_fill_commit(partition, 1000, &commit));
    partition->recovering = false;
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    partition->recovering = true;
    mr_partition_forget(partition);
    assert_false(partition->recovering);
    mr_partitions_destroy(partitions);
}

static void the_gate_is_open_while_the_partition_is_ours(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    uint64_t epoch = partition->epoch;
    assert_int_equal(mr_write_gate_admit(&partition->gate, epoch), MR_WRITE_OPEN);
    assert_int_equal(partition->gate.unacknowledged, 1);
    mr_partition_hold(partition);
    assert_int_equal(mr_write_gate_admit(&partition->gate, epoch), MR_WRITE_HELD);
    assert_int_equal(partition->gate.unacknowledged, 1);
    mr_write_gate_acknowledge(&partition->gate);
    assert_int_equal(partition->gate.unacknowledged, 0);
    expect_assert_failure(mr_write_gate_acknowledge(&partition->gate));
    atomic_store(&partition->gate.unacknowledged, 0);
    mr_partition_suspend(partition);
    assert_int_equal(mr_write_gate_look(&partition->gate, epoch), MR_WRITE_HELD);
    claim = claim_of(0, 10, "");
    assert_ptr_equal(take(partitions, &claim, &resumed), partition);
    assert_true(resumed);
    assert_int_equal(mr_write_gate_look(&partition->gate, epoch), MR_WRITE_OPEN);
    mr_partition_forget(partition);
    assert_int_equal(mr_write_gate_look(&partition->gate, epoch), MR_WRITE_CLOSED);
    struct mr_ledger_history history;
    int64_t behind;
    mr_partition_receive(partition, 0, false, &history, &behind); /* its log was replaced */
    assert_int_equal(mr_write_gate_look(&partition->gate, epoch), MR_WRITE_CLOSED);
    assert_int_equal(mr_write_gate_look(&partition->gate, partition->epoch), MR_WRITE_OPEN);
    mr_partitions_destroy(partitions);
}

static void partitions_are_found_by_topic_and_number(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_partition *partition = NULL;
    bool resumed;
    for (int32_t i = 3000; i-- > 0;) {
        struct mr_kafka_claim claim = claim_of(i, -1, "");
        assert_int_equal(mr_partitions_take(partitions, &claim, &partition, &resumed, NULL), MR_OK);
    }
    mr_partitions_check(partitions);
    assert_int_equal(mr_partitions_count(partitions), 3000);
    assert_int_equal(mr_partitions_find(partitions, 0, 7)->number, 7);
    assert_null(mr_partitions_find(partitions, 1, 7));
    assert_null(mr_partitions_find(partitions, 0, 3000));
    assert_null(mr_partitions_find(partitions, 0, -1));
    assert_null(mr_partitions_find(partitions, SIZE_MAX, 0));
    expect_assert_failure(mr_partitions_at(partitions, 3000));
    expect_assert_failure(mr_partition_suspend(
        (mr_partition_forget(mr_partitions_at(partitions, 0)), mr_partitions_at(partitions, 0))));
    mr_partitions_destroy(partitions);
    mr_partitions_destroy(NULL);
}

static void a_partition_is_released_when_nothing_refers_to_it(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_partition *taken[4];
    bool resumed;
    for (int32_t i = 0; i < 4; i++) {
        struct mr_kafka_claim claim = claim_of(i, -1, "");
        assert_int_equal(mr_partitions_take(partitions, &claim, &taken[i], &resumed, NULL), MR_OK);
    }
    uint64_t epoch = taken[0]->epoch;
    mr_partition_forget(taken[0]);
    mr_partition_forget(taken[1]);
    taken[1]->tickets = 1;
    mr_partition_suspend(taken[2]);
    mr_partitions_release(partitions);
    mr_partitions_check(partitions);
    assert_int_equal(mr_partitions_count(partitions), 3);
    assert_null(mr_partitions_find(partitions, 0, 0));
    assert_ptr_equal(mr_partitions_find(partitions, 0, 1), taken[1]);
    taken[1]->tickets = 0;
    taken[1]->sent = true;
    mr_partitions_release(partitions);
    assert_ptr_equal(mr_partitions_find(partitions, 0, 1), taken[1]);
    mr_partition_committed(taken[1], false);
    mr_partitions_release(partitions);
    assert_int_equal(mr_partitions_count(partitions), 2);
    struct mr_kafka_claim again = claim_of(0, -1, "");
    assert_int_equal(mr_partitions_take(partitions, &again, &taken[0], &resumed, NULL), MR_OK);
    assert_true(taken[0]->epoch > epoch + 1); /* a late answer to the old ownership is ignored */
    mr_partitions_check(partitions);
    mr_partitions_destroy(partitions);
}

static void a_replaced_log_is_run_or_skipped_up_to_what_is_committed(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_partition *partition = NULL;
    struct mr_ledger_history history;
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    int64_t behind;
    bool resumed;
    assert_int_equal(mr_partitions_take(partitions, &claim, &partition, &resumed, NULL), MR_OK);
    uint64_t epoch = partition->epoch;
    assert_int_equal(mr_partition_receive(partition, 7, true, &history, &behind),
                     MR_LEDGER_FINISHED);
    assert_int_equal(behind, 3);
    assert_int_equal(mr_partition_receive(partition, 9, true, &history, &behind),
                     MR_LEDGER_FINISHED);
    assert_int_equal(behind, 0); /* it was already notified */
    assert_int_equal(mr_partition_receive(partition, 10, true, &history, &behind), MR_LEDGER_NEW);
    assert_int_equal(mr_partition_receive(partition, 2, true, &history, &behind),
                     MR_LEDGER_FINISHED);
    assert_int_equal(behind, 8); /* another time */
    assert_int_equal(partition->epoch, epoch);
    assert_int_equal(mr_partition_receive(partition, 4, false, &history, &behind), MR_LEDGER_NEW);
    assert_int_equal(behind, 6);
    assert_true(partition->epoch > epoch);
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 4);
    assert_int_equal(mr_partition_receive(partition, 5, false, &history, &behind), MR_LEDGER_NEW);
    mr_partitions_check(partitions);
    mr_partitions_destroy(partitions);
}

static void what_recovery_has_found_finished_is_passed_over(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_ledger_history history;
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    struct mr_kafka_commit commit;
    int64_t behind;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    mr_partition_pass(partition, 20000);
    for (int64_t offset = 10; offset < 20000; offset += 19989 / 3)
        assert_int_equal(mr_partition_receive(partition, offset, false, &history, &behind),
                         MR_LEDGER_FINISHED);
    assert_int_equal(behind, 0);
    assert_true(mr_partition_fill_commit(partition, 1, &commit));
    assert_int_equal(commit.offset, 20000);
    assert_int_equal(mr_partition_receive(partition, 20000, false, &history, &behind),
                     MR_LEDGER_NEW);
    uint64_t epoch = partition->epoch;
    assert_int_equal(mr_partition_receive(partition, 19999, false, &history, &behind),
                     MR_LEDGER_NEW); /* the log begins again */
    assert_int_equal(behind, 1);
    assert_true(partition->epoch > epoch);
    mr_partitions_check(partitions);
    mr_partitions_destroy(partitions);
}

/* Their results may be older than the results that recovery reads. */
static void what_the_commit_lists_above_the_passed_records_is_kept(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of(), *later = partitions_of();
    struct mr_ledger_history history;
    struct mr_kafka_claim claim = claim_of(0, 100, "");
    struct mr_kafka_commit commit;
    int64_t behind;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    for (int64_t offset = 100; offset < 120; offset++)
        receive(partition, offset);
    for (int64_t offset = 101; offset < 118; offset++)
        mr_offset_ledger_finish(partition->ledger, offset);
    mr_offset_ledger_start(partition->ledger, 118, 0);
    assert_true(mr_partition_fill_commit(partition, 1000, &commit));
    for (int64_t passed = 101; passed < 125; passed += 8) {
        struct mr_kafka_claim inherited = claim_of((int32_t)passed, 100, commit.metadata);
        partition = take(later, &inherited, &resumed);
        mr_partition_pass(partition, passed);
        assert_int_equal(mr_offset_ledger_base(partition->ledger), passed);
        mr_offset_ledger_found(partition->ledger, 126);
        for (int64_t offset = 100; offset < 127; offset++) {
            bool unfinished = offset >= passed && offset >= 118 && offset != 126;
            assert_int_equal(mr_partition_receive(partition, offset, false, &history, &behind),
                             unfinished ? MR_LEDGER_NEW : MR_LEDGER_FINISHED);
            assert_int_equal(history.crashes, unfinished && offset == 118);
        }
        mr_partitions_check(later);
    }
    mr_partitions_destroy(partitions);
    mr_partitions_destroy(later);
}

/* Records below the committed offset come first: the log was replaced, and no record of it is known
 * to be finished. */
static void a_replaced_log_is_not_passed_over(void **state)
{
    (void)state;
    struct mr_partitions *partitions = partitions_of();
    struct mr_ledger_history history;
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    int64_t behind;
    bool resumed;
    struct mr_partition *partition = take(partitions, &claim, &resumed);
    mr_partition_pass(partition, 20000);
    assert_int_equal(mr_partition_receive(partition, 9, false, &history, &behind), MR_LEDGER_NEW);
    assert_int_equal(behind, 19991);
    assert_int_equal(mr_partition_receive(partition, 10, false, &history, &behind), MR_LEDGER_NEW);
    mr_partitions_destroy(partitions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_says_only_what_is_new),
        cmocka_unit_test(work_done_out_of_order_survives_in_the_metadata),
        cmocka_unit_test(a_partition_that_comes_straight_back_is_resumed),
        cmocka_unit_test(a_partition_that_another_worker_may_have_had_is_not_resumed),
        cmocka_unit_test(a_commit_by_somebody_else_ends_the_old_life),
        cmocka_unit_test(a_commit_older_than_the_last_one_is_not_believed),
        cmocka_unit_test(an_offset_set_by_hand_or_of_a_replaced_log_counts),
        cmocka_unit_test(a_later_commit_of_another_worker_counts),
        cmocka_unit_test(metadata_of_another_application_is_said_and_the_partition_is_taken),
        cmocka_unit_test(a_commit_is_made_again_before_its_time_grows_old),
        cmocka_unit_test(nothing_is_committed_while_results_are_looked_for),
        cmocka_unit_test(the_gate_is_open_while_the_partition_is_ours),
        cmocka_unit_test(partitions_are_found_by_topic_and_number),
        cmocka_unit_test(a_partition_is_released_when_nothing_refers_to_it),
        cmocka_unit_test(a_replaced_log_is_run_or_skipped_up_to_what_is_committed),
        cmocka_unit_test(what_recovery_has_found_finished_is_passed_over),
        cmocka_unit_test(what_the_commit_lists_above_the_passed_records_is_kept),
        cmocka_unit_test(a_replaced_log_is_not_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
