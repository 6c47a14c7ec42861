#include "worker/offsets/commit_schedule.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/intake_rig.h"

static void a_refused_commit_is_due_again_and_a_late_answer_is_nothing(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_partition(&rig, 0, "");
    rig.intake->schedule.due_ns = UINT64_MAX;
    mr_commit_schedule_finished(&rig.intake->schedule, MR_TIMEOUT, "late", rig.now.ns);
    assert_int_equal(rig.intake->schedule.failures, 0);
    rig.intake->schedule.pending = true;
    mr_commit_schedule_finished(&rig.intake->schedule, MR_TIMEOUT, "slow", rig.now.ns);
    assert_false(rig.intake->schedule.pending);
    assert_int_equal(rig.intake->schedule.failures, 1);
    assert_true(rig.intake->schedule.due_ns < UINT64_MAX);
    assert_counter(rig.metrics, "commit_errors", 1);
    assert_counter(rig.metrics, "rebalances", 1);
    close_intake_rig(&rig);
}

static void a_commit_without_an_outcome_is_given_up_and_due_again(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_commit_schedule *schedule = &rig.intake->schedule;
    mr_commit_schedule_sent(schedule, false, rig.now.ns);
    schedule->due_ns = UINT64_MAX;
    mr_commit_schedule_expire(schedule, rig.now.ns + MR_COMMIT_OUTCOME_NS);
    assert_true(schedule->pending);
    assert_false(mr_commit_schedule_is_due(schedule, UINT64_MAX));
    mr_commit_schedule_expire(schedule, rig.now.ns + MR_COMMIT_OUTCOME_NS + 1);
    assert_false(schedule->pending);
    assert_int_equal(schedule->failures, 1);
    assert_true(schedule->due_ns < UINT64_MAX);
    close_intake_rig(&rig);
}

static void the_earliest_time_counts_and_gathering_clears_it(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_commit_schedule *schedule = &rig.intake->schedule;
    struct mr_partition *partition = assign_partition(&rig, 0, "");
    schedule->since_ms = rig.now.unix_ms;
    schedule->due_ns = UINT64_MAX;
    mr_commit_schedule_by(schedule, 70);
    mr_commit_schedule_by(schedule, 90);
    assert_int_equal(schedule->due_ns, 70);
    assert_false(mr_commit_schedule_is_due(schedule, 69));
    assert_true(mr_commit_schedule_is_due(schedule, 70));
    assert_int_equal(mr_commit_schedule_gather(schedule), 0); /* nothing new */
    assert_int_equal(schedule->due_ns, UINT64_MAX);
    arrive(&rig, 0, "{\"id\":\"a\",\"prompt\":\"x\"}");
    mr_offset_ledger_finish(partition->ledger, 0);
    assert_int_equal(mr_commit_schedule_gather(schedule), 1);
    assert_int_equal(schedule->batch[0].offset, 1);
    close_intake_rig(&rig);
}

static void a_partition_that_is_refused_does_not_hold_the_others_back(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_commit_schedule *schedule = &rig.intake->schedule;
    struct mr_kafka_claim claims[3] = {
        {.topic = "r"}, {.topic = "r", .partition = 1}, {.topic = "r", .partition = 2}};
    mr_ownership_assign(&rig.intake->ownership, claims, 3, &rig.now);
    for (int32_t i = 0; i < 3; i++) {
        struct mr_ledger_history history;
        struct mr_partition *partition = mr_partitions_find(rig.intake->partitions, 0, i);
        mr_offset_ledger_receive(partition->ledger, 0, &history);
        mr_offset_ledger_finish(partition->ledger, 0);
    }
    assert_int_equal(mr_commit_schedule_gather(schedule), 3);
    mr_commit_schedule_sent(schedule, false, rig.now.ns);
    struct mr_kafka_event event = {.kind = MR_KAFKA_EVENT_COMMITTED,
                                   .number = schedule->commits,
                                   .status = MR_BAD_CONFIG,
                                   .reason = "no such partition",
                                   .claims = &claims[1],
                                   .claim_count = 1};
    mr_commit_schedule_answered(schedule, &event, rig.now.ns);
    assert_int_equal(schedule->failures, 1);
    assert_false(schedule->pending);
    assert_true(schedule->due_ns < UINT64_MAX);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(mr_partitions_find(rig.intake->partitions, 0, i)->acked_offset,
                         i == 1 ? 0 : 1);
    assert_int_equal(mr_commit_schedule_gather(schedule), 1); /* only this one again */
    assert_int_equal(schedule->batch[0].partition, 1);
    close_intake_rig(&rig);
}

static void a_late_answer_is_not_that_of_the_next_commit(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_commit_schedule *schedule = &rig.intake->schedule;
    memory_kafka_assign(&rig.kafka, 0, 1);
    memory_kafka_produce(&rig.kafka, 0, "{\"id\":\"a\"}", rig.now.unix_ms);
    rig.kafka.hold_commits = true;
    step_intake(&rig);
    struct mr_partition *partition = mr_partitions_find(rig.intake->partitions, 0, 0);
    mr_offset_ledger_finish(partition->ledger, 0);
    schedule->due_ns = rig.now.ns;
    step_intake(&rig);
    assert_int_equal(rig.kafka.commits, 1);
    pass_ms(&rig, 31000); /* the commit is abandoned */
    step_intake(&rig);
    pass_ms(&rig, 1000);
    step_intake(&rig);
    assert_int_equal(rig.kafka.commits, 2);
    memory_kafka_answer(&rig.kafka, MR_OK); /* of the first one */
    step_intake(&rig);
    assert_true(schedule->pending);
    assert_int_equal(partition->acked_offset, -1);
    memory_kafka_answer(&rig.kafka, MR_AGAIN); /* of the second one */
    step_intake(&rig);
    assert_int_equal(partition->acked_offset, -1);
    assert_true(schedule->due_ns < UINT64_MAX);
    struct mr_ticket *ticket = NULL;
    take_refusal(&rig, &ticket, NULL);
    mr_admission_done(&rig.intake->admission, answered(ticket));
    close_intake_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_commit_is_due_again_and_a_late_answer_is_nothing),
        cmocka_unit_test(a_commit_without_an_outcome_is_given_up_and_due_again),
        cmocka_unit_test(the_earliest_time_counts_and_gathering_clears_it),
        cmocka_unit_test(a_partition_that_is_refused_does_not_hold_the_others_back),
        cmocka_unit_test(a_late_answer_is_not_that_of_the_next_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
