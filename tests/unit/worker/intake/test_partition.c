#include "worker/intake/partition.h"

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

static struct mr_partitions *lanes_of(void)
{
    struct mr_partitions *lanes = NULL;
    assert_int_equal(mr_partitions_create(&lanes, NULL), MR_OK);
    return lanes;
}

static struct mr_partition *take(struct mr_partitions *lanes, struct mr_kafka_claim *claim,
                                 bool *resumed)
{
    struct mr_partition *lane = NULL;
    assert_int_equal(mr_partitions_take(lanes, claim, &lane, resumed, NULL), MR_OK);
    assert_int_equal(lane->state, MR_PARTITION_OWNED);
    mr_partitions_check(lanes);
    return lane;
}

static void receive(struct mr_partition *lane, int64_t offset)
{
    struct mr_ledger_history history;
    assert_int_equal(mr_offset_ledger_receive(lane->ledger, offset, &history), MR_LEDGER_NEW);
}

static void a_commit_says_only_what_is_new(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_kafka_claim claim = claim_of(2, 10, "");
    struct mr_kafka_commit commit;
    bool resumed = true;
    struct mr_partition *lane = take(lanes, &claim, &resumed);
    assert_false(resumed);
    assert_false(mr_partition_commit(lane, 1000, &commit)); /* the broker knows 10 already */
    receive(lane, 10);
    receive(lane, 11);
    mr_offset_ledger_finish(lane->ledger, 10);
    assert_true(mr_partition_commit(lane, 1000, &commit));
    assert_int_equal(commit.offset, 11);
    assert_int_equal(commit.partition, 2);
    mr_partition_committed(lane, false);
    assert_true(mr_partition_commit(lane, 1000, &commit)); /* refused: due again */
    mr_partition_committed(lane, true);
    assert_int_equal(lane->acked_offset, 11);
    assert_false(mr_partition_commit(lane, 1000, &commit));
    mr_partitions_destroy(lanes);
}

static void work_done_out_of_order_survives_in_the_metadata(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of(), *later = lanes_of();
    struct mr_kafka_claim claim = claim_of(0, 0, ""), inherited;
    struct mr_kafka_commit commit;
    struct mr_ledger_history history;
    bool resumed;
    struct mr_partition *lane = take(lanes, &claim, &resumed);
    receive(lane, 0);
    receive(lane, 1);
    mr_offset_ledger_finish(lane->ledger, 1);
    assert_true(mr_partition_commit(lane, 1000, &commit));
    assert_int_equal(commit.offset, 0);
    inherited = claim_of(0, commit.offset, commit.metadata);
    lane = take(later, &inherited, &resumed);
    assert_int_equal(mr_offset_ledger_receive(lane->ledger, 0, &history), MR_LEDGER_NEW);
    assert_int_equal(mr_offset_ledger_receive(lane->ledger, 1, &history), MR_LEDGER_FINISHED);
    mr_partitions_destroy(lanes);
    mr_partitions_destroy(later);
}

static void a_partition_that_comes_straight_back_is_resumed(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_kafka_claim claim = claim_of(0, 5, "");
    struct mr_kafka_commit commit;
    bool resumed;
    struct mr_partition *lane = take(lanes, &claim, &resumed);
    uint64_t epoch = lane->epoch;
    receive(lane, 5);
    receive(lane, 6);
    mr_offset_ledger_finish(lane->ledger, 5);
    assert_true(mr_partition_commit(lane, 1000, &commit));
    mr_partition_committed(lane, true);
    mr_partition_suspend(lane);
    assert_false(mr_partition_commit(lane, 1000, &commit));
    claim = claim_of(0, 6, lane->acked_metadata);
    assert_ptr_equal(take(lanes, &claim, &resumed), lane);
    assert_true(resumed);
    assert_int_equal(lane->epoch, epoch);
    assert_int_equal(claim.start, 7); /* behind what was read already */
    mr_partitions_destroy(lanes);
}

static void a_commit_by_somebody_else_ends_the_old_life(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_kafka_claim claim = claim_of(0, 5, "");
    bool resumed;
    struct mr_partition *lane = take(lanes, &claim, &resumed);
    uint64_t epoch = lane->epoch;
    receive(lane, 5);
    mr_partition_suspend(lane);
    claim = claim_of(0, 8, "");
    take(lanes, &claim, &resumed);
    assert_false(resumed);
    assert_true(lane->epoch > epoch);
    assert_int_equal(mr_offset_ledger_base(lane->ledger), 8);
    epoch = lane->epoch;
    mr_partition_forget(lane);
    assert_int_equal(lane->state, MR_PARTITION_NONE);
    assert_true(lane->epoch > epoch);
    mr_partitions_destroy(lanes);
}

static void metadata_of_another_application_is_said_and_the_lane_is_taken(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_kafka_claim claim = claim_of(0, 5, "not ours at all!");
    struct mr_partition *lane = NULL;
    struct mr_error err = {0};
    bool resumed = true;
    assert_int_equal(mr_partitions_take(lanes, &claim, &lane, &resumed, &err), MR_MALFORMED);
    assert_int_equal(lane->state, MR_PARTITION_OWNED);
    assert_false(resumed);
    assert_int_equal(mr_offset_ledger_base(lane->ledger), 5);
    mr_partitions_destroy(lanes);
}

static void a_commit_is_made_again_before_its_time_grows_old(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    struct mr_kafka_commit commit;
    bool resumed;
    struct mr_partition *lane = take(lanes, &claim, &resumed);
    assert_false(
        mr_partition_commit(lane, 1 << 30, &commit)); /* an offset set by hand stays as it is */
    receive(lane, 10);
    mr_offset_ledger_finish(lane->ledger, 10);
    assert_true(mr_partition_commit(lane, 1000, &commit));
    mr_partition_committed(lane, true);
    assert_false(mr_partition_commit(lane, 1000 + MR_PARTITION_REFRESH_MS - 1, &commit));
    assert_true(mr_partition_commit(lane, 1000 + MR_PARTITION_REFRESH_MS, &commit));
    assert_int_equal(commit.offset, 11);
    mr_partition_committed(lane, true);
    assert_false(mr_partition_commit(lane, 1000 + MR_PARTITION_REFRESH_MS, &commit));
    claim = claim_of(0, 11, lane->acked_metadata); /* the next owner knows the time */
    mr_partition_forget(lane);
    take(lanes, &claim, &resumed);
    assert_int_equal(lane->acked_since_ms, 1000 + MR_PARTITION_REFRESH_MS);
    mr_partitions_destroy(lanes);
}

static void nothing_is_committed_while_results_are_looked_for(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    struct mr_kafka_commit commit;
    bool resumed;
    struct mr_partition *lane = take(lanes, &claim, &resumed);
    mr_offset_ledger_found(lane->ledger, 12);
    lane->looking = true;
    assert_false(mr_partition_commit(lane, 1000, &commit));
    lane->looking = false;
    assert_true(mr_partition_commit(lane, 1000, &commit));
    lane->looking = true;
    mr_partition_forget(lane);
    assert_false(lane->looking);
    mr_partitions_destroy(lanes);
}

static void the_gate_is_open_while_the_partition_is_ours(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_kafka_claim claim = claim_of(0, 10, "");
    bool resumed;
    struct mr_partition *lane = take(lanes, &claim, &resumed);
    uint64_t epoch = lane->epoch;
    assert_int_equal(mr_write_gate_admit(&lane->gate, epoch), MR_WRITE_OPEN);
    assert_int_equal(lane->gate.unacknowledged, 1);
    mr_partition_hold(lane);
    assert_int_equal(mr_write_gate_admit(&lane->gate, epoch), MR_WRITE_HELD);
    assert_int_equal(lane->gate.unacknowledged, 1);
    mr_write_gate_acknowledge(&lane->gate);
    assert_int_equal(lane->gate.unacknowledged, 0);
    expect_assert_failure(mr_write_gate_acknowledge(&lane->gate));
    atomic_store(&lane->gate.unacknowledged, 0);
    mr_partition_suspend(lane);
    assert_int_equal(mr_write_gate_look(&lane->gate, epoch), MR_WRITE_HELD);
    claim = claim_of(0, 10, "");
    assert_ptr_equal(take(lanes, &claim, &resumed), lane);
    assert_true(resumed);
    assert_int_equal(mr_write_gate_look(&lane->gate, epoch), MR_WRITE_OPEN);
    mr_partition_forget(lane);
    assert_int_equal(mr_write_gate_look(&lane->gate, epoch), MR_WRITE_CLOSED);
    mr_partition_restart(lane, 0);
    assert_int_equal(mr_write_gate_look(&lane->gate, epoch), MR_WRITE_CLOSED);
    assert_int_equal(mr_write_gate_look(&lane->gate, lane->epoch), MR_WRITE_OPEN);
    mr_partitions_destroy(lanes);
}

static void there_are_at_most_so_many_lanes(void **state)
{
    (void)state;
    struct mr_partitions *lanes = lanes_of();
    struct mr_partition *lane = NULL;
    struct mr_error err = {0};
    bool resumed;
    for (int32_t i = 0; i < (int32_t)MR_PARTITIONS_MAX; i++) {
        struct mr_kafka_claim claim = claim_of(i, -1, "");
        assert_int_equal(mr_partitions_take(lanes, &claim, &lane, &resumed, NULL), MR_OK);
    }
    struct mr_kafka_claim claim = claim_of(MR_PARTITIONS_MAX, -1, "");
    assert_int_equal(mr_partitions_take(lanes, &claim, &lane, &resumed, &err), MR_FULL);
    assert_null(lane);
    assert_int_equal(mr_partitions_count(lanes), MR_PARTITIONS_MAX);
    assert_ptr_equal(mr_partitions_find(lanes, 0, 7), mr_partitions_at(lanes, 7));
    assert_null(mr_partitions_find(lanes, 1, 7));
    expect_assert_failure(mr_partitions_at(lanes, MR_PARTITIONS_MAX));
    expect_assert_failure(mr_partition_suspend(
        (mr_partition_forget(mr_partitions_at(lanes, 0)), mr_partitions_at(lanes, 0))));
    mr_partitions_destroy(lanes);
    mr_partitions_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_says_only_what_is_new),
        cmocka_unit_test(work_done_out_of_order_survives_in_the_metadata),
        cmocka_unit_test(a_partition_that_comes_straight_back_is_resumed),
        cmocka_unit_test(a_commit_by_somebody_else_ends_the_old_life),
        cmocka_unit_test(metadata_of_another_application_is_said_and_the_lane_is_taken),
        cmocka_unit_test(a_commit_is_made_again_before_its_time_grows_old),
        cmocka_unit_test(nothing_is_committed_while_results_are_looked_for),
        cmocka_unit_test(the_gate_is_open_while_the_partition_is_ours),
        cmocka_unit_test(there_are_at_most_so_many_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
