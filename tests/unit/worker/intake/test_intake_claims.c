#include "worker/intake/intake_claims.h"

#include "tests/unit/worker/broker.h"
#include "tests/unit/worker/intake_rig.h"

static const struct mr_kafka_claim mine = {.topic = "r"};

/* A rig whose partition is assigned from offset 0, with request a in flight. */
static struct mr_partition *open_with_request(struct intake_rig *rig)
{
    open_intake_rig(rig);
    struct mr_partition *lane = assign_lane(rig, 0, "");
    arrive(rig, 0, "{\"id\":\"a\",\"prompt\":\"x\"}");
    return lane;
}

/* What there is to commit is on the broker. */
static void commit_lane(struct mr_partition *lane)
{
    struct mr_kafka_commit commit;
    assert_true(mr_partition_commit(lane, 1, &commit));
    mr_partition_committed(lane, true);
}

static void a_partition_that_is_lost_drops_its_requests(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *lane = open_with_request(&rig);
    uint64_t epoch = lane->epoch;
    mr_intake_revoked(&rig.intake, &mine, 1, MR_KAFKA_REVOKE_LOST);
    assert_int_equal(lane->state, MR_PARTITION_NONE);
    assert_true(lane->epoch > epoch);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    assert_false(mr_intake_may_take(&rig.intake, 0, 0));
    mr_intake_revoked(&rig.intake, &mine, 1, MR_KAFKA_REVOKE_LOST); /* not ours any more */
    assert_int_equal(lane->state, MR_PARTITION_NONE);
    close_intake_rig(&rig);
}

static void a_partition_that_comes_straight_back_keeps_its_requests(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *lane = open_with_request(&rig);
    commit_lane(lane);
    uint64_t epoch = lane->epoch;
    mr_intake_revoked(&rig.intake, &mine, 1, MR_KAFKA_REVOKE_PAUSE);
    assert_int_equal(lane->state, MR_PARTITION_LIMBO);
    assert_ptr_equal(assign_lane(&rig, 0, lane->acked_metadata), lane);
    assert_int_equal(lane->epoch, epoch);
    assert_false(atomic_load(&ticket_named(&rig, "a")->dropped));
    assert_int_equal(rig.intake.stats.rebalances, 2);
    close_intake_rig(&rig);
}

static void a_partition_that_stays_away_drops_its_requests(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *lane = open_with_request(&rig);
    commit_lane(lane);
    mr_intake_revoked(&rig.intake, &mine, 1, MR_KAFKA_REVOKE_PAUSE);
    mr_intake_assigned(&rig.intake, NULL, 0); /* the rebalance ends without it */
    assert_int_equal(lane->state, MR_PARTITION_NONE);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    close_intake_rig(&rig);
}

static void somebody_elses_commit_drops_what_ran_before(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *lane = open_with_request(&rig);
    commit_lane(lane);
    mr_intake_revoked(&rig.intake, &mine, 1, MR_KAFKA_REVOKE_PAUSE);
    assign_lane(&rig, 7, "");
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    mr_intake_done(&rig.intake, ticket_named(&rig, "a"));
    assert_int_equal(mr_offset_ledger_base(lane->ledger), 7);
    close_intake_rig(&rig);
}

static void another_application_s_commit_ends_the_worker_and_is_left_as_it_is(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_kafka_commit commit;
    open_intake_rig(&rig);
    struct mr_partition *lane = assign_lane(&rig, 4, "somebody else's notes");
    assert_int_equal(rig.failure.status, MR_BAD_CONFIG);
    assert_non_null(strstr(rig.failure.detail, "another application"));
    assert_non_null(strstr(rig.failure.detail, "--foreign-commits ignore"));
    assert_true(rig.intake.failed); /* so nothing is taken */
    assert_false(mr_partition_commit(lane, 1, &commit));
    rig.failure = (struct mr_error){0};
    close_intake_rig(&rig);
}

static void another_application_s_commit_may_be_ignored(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    rig.config.foreign_commits = MR_FOREIGN_COMMITS_IGNORE;
    struct mr_partition *lane = assign_lane(&rig, 4, "somebody else's notes");
    assert_int_equal(lane->state, MR_PARTITION_OWNED);
    arrive(&rig, 4, "{\"id\":\"a\",\"prompt\":\"x\"}");
    assert_non_null(ticket_named(&rig, "a"));
    close_intake_rig(&rig); /* asserts that nothing failed */
}

static void what_runs_is_handed_back_without_a_crash(void **state)
{
    (void)state;
    static char metadata[MR_LEDGER_METADATA_TEXT_MAX];
    struct mr_ledger_history history;
    struct intake_rig rig;
    struct mr_partition *lane = open_with_request(&rig);
    mr_intake_started(&rig.intake, ticket_named(&rig, "a"));
    mr_intake_release_all(&rig.intake);
    mr_ledger_metadata_encode(lane->ledger, 1, metadata);
    mr_intake_forget_lane(&rig.intake, lane);
    lane = assign_lane(&rig, 0, metadata);
    assert_int_equal(mr_offset_ledger_receive(lane->ledger, 0, &history), MR_LEDGER_NEW);
    assert_int_equal(history.attempts, 1);
    assert_int_equal(history.crashes, 0);
    close_intake_rig(&rig);
}

static void a_refused_commit_is_due_again_and_a_late_answer_is_nothing(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    assign_lane(&rig, 0, "");
    rig.intake.commit_due_ns = UINT64_MAX;
    mr_intake_committed(&rig.intake, MR_TIMEOUT, "late");
    assert_int_equal(rig.intake.stats.commit_failures, 0);
    rig.intake.committing = true;
    mr_intake_committed(&rig.intake, MR_TIMEOUT, "slow");
    assert_false(rig.intake.committing);
    assert_int_equal(rig.intake.stats.commit_failures, 1);
    assert_true(rig.intake.commit_due_ns < UINT64_MAX);
    close_intake_rig(&rig);
}

static void a_partition_may_go_when_the_engine_has_ended(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with_request(&rig);
    mr_intake_forget_engine(&rig.intake);
    rig_end(&rig.engine);
    mr_intake_revoked(&rig.intake, &mine, 1, MR_KAFKA_REVOKE_LOST);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    close_intake_rig(&rig);
}

static void a_partition_waits_for_what_its_last_owner_answered(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct broker broker;
    open_intake_rig(&rig);
    open_broker(&broker);
    add_topic(&broker, "r", 1);
    add_topic(&broker, "results", 1);
    add_topic(&broker, "dlq", 1);
    struct mr_recovery_options options = {.kafka = &broker.kafka,
                                          .results_topic = "results",
                                          .dlq_topic = "dlq",
                                          .group = "g",
                                          .timeout_ms = 20000,
                                          .wake = &rig.wake,
                                          .log = rig.log};
    assert_int_equal(mr_recovery_create(&rig.intake.recovery, &options, NULL), MR_OK);
    struct mr_partition *lane = assign_lane(&rig, 5, ""); /* set by hand: nothing is looked for */
    assert_true(mr_intake_may_take(&rig.intake, 0, 0));
    mr_intake_forget_lane(&rig.intake, lane);
    assign_lane(&rig, -1, "");
    assert_true(lane->looking);
    assert_false(mr_intake_may_take(&rig.intake, 0, 0));
    while (lane->looking) {
        mr_wake_wait(&rig.wake, UINT64_MAX);
        mr_intake_recovered(&rig.intake);
    }
    assert_true(mr_intake_may_take(&rig.intake, 0, 0));
    assert_int_equal(mr_offset_ledger_base(lane->ledger), 0); /* where the log begins */
    assign_lane(&rig, -1, "");
    mr_intake_forget_lane(&rig.intake, lane); /* the answer comes too late */
    assert_false(lane->looking);
    mr_recovery_destroy(rig.intake.recovery);
    close_intake_rig(&rig);
    close_broker(&broker);
}

static void drain_waits_for_what_runs_and_for_nothing_else(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_mailbox_options options = {256, 1 << 20, &rig.wake};
    assert_int_equal(mr_mailbox_create(&rig.intake.mailbox, &options, NULL), MR_OK);
    rig.config.on_revoke = MR_ON_REVOKE_DRAIN;
    rig.config.revoke_timeout_ns = 3600000000000u; /* an hour: the test does not wait for it */
    struct mr_partition *lane = assign_lane(&rig, 0, "");
    arrive(&rig, 0, "{\"id\":\"a\",\"prompt\":\"x\"}");
    arrive(&rig, 1, "{\"id\":\"b\",\"prompt\":\"x\"}");
    struct mr_ticket *running = ticket_named(&rig, "a");
    mr_intake_started(&rig.intake, running);
    running->done.kind = MR_MAIL_DONE;
    mr_mailbox_post_control(rig.intake.mailbox, &running->done);
    mr_intake_revoke_drain(&rig.intake, &mine, 1);
    assert_null(ticket_named(&rig, "a")); /* it ended */
    assert_int_equal(mr_offset_ledger_base(lane->ledger), 1);
    assert_non_null(ticket_named(&rig, "b")); /* it had not begun */
    assert_false(mr_intake_may_take(&rig.intake, 0, 0));
    struct mr_kafka_claim other = {.topic = "r", .partition = 1, .committed = 0};
    mr_intake_assigned(&rig.intake, &other, 1);
    assert_true(mr_intake_may_take(&rig.intake, 0, 1));
    mr_intake_started(&rig.intake, ticket_named(&rig, "b"));
    rig.config.revoke_timeout_ns = 1;
    mr_intake_revoke_drain(&rig.intake, &mine, 1); /* not for ever */
    assert_non_null(ticket_named(&rig, "b"));
    assert_false(ticket_named(&rig, "b")->intake.awaited);
    mr_mailbox_destroy(rig.intake.mailbox);
    rig.intake.mailbox = NULL;
    close_intake_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_that_is_lost_drops_its_requests),
        cmocka_unit_test(a_partition_that_comes_straight_back_keeps_its_requests),
        cmocka_unit_test(a_partition_that_stays_away_drops_its_requests),
        cmocka_unit_test(somebody_elses_commit_drops_what_ran_before),
        cmocka_unit_test(a_partition_may_go_when_the_engine_has_ended),
        cmocka_unit_test(another_application_s_commit_ends_the_worker_and_is_left_as_it_is),
        cmocka_unit_test(another_application_s_commit_may_be_ignored),
        cmocka_unit_test(what_runs_is_handed_back_without_a_crash),
        cmocka_unit_test(a_partition_waits_for_what_its_last_owner_answered),
        cmocka_unit_test(drain_waits_for_what_runs_and_for_nothing_else),
        cmocka_unit_test(a_refused_commit_is_due_again_and_a_late_answer_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
