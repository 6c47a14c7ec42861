#include "worker/offsets/ownership.h"

#include "tests/unit/worker/broker.h"
#include "tests/unit/worker/intake_rig.h"
#include "worker/kafka/header_names.h"
#include "worker/kafka/kafka_reader.h"

static const struct mr_kafka_claim mine = {.topic = "r"};

static void revoke(struct intake_rig *rig, enum mr_kafka_revoke how)
{
    struct mr_ownership *ownership = &rig->intake->ownership;
    mr_ownership_revoke(ownership, &mine, 1, how, &rig->now);
    if (how != MR_KAFKA_REVOKE_LOST) {
        mr_ownership_hold(ownership, &rig->now);
        mr_ownership_release(ownership, &rig->now);
        mr_ownership_committed(ownership);
    }
    mr_ownership_complete(ownership);
    assert_int_equal(mr_ownership_due_ns(ownership), UINT64_MAX);
}

/* A rig whose partition is assigned from offset 0, with request a in flight. */
static struct mr_partition *open_with_request(struct intake_rig *rig)
{
    open_intake_rig(rig);
    struct mr_partition *partition = assign_partition(rig, 0, "");
    arrive(rig, 0, "{\"id\":\"a\",\"prompt\":\"x\"}");
    return partition;
}

/* Acknowledges the commit of all finished records. */
static void commit_partition(struct mr_partition *partition)
{
    struct mr_kafka_commit commit;
    assert_true(mr_partition_fill_commit(partition, 1, &commit));
    mr_partition_committed(partition, true);
}

static void a_partition_that_is_lost_drops_its_requests(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *partition = open_with_request(&rig);
    uint64_t epoch = partition->epoch;
    revoke(&rig, MR_KAFKA_REVOKE_LOST);
    assert_int_equal(partition->state, MR_PARTITION_NONE);
    assert_true(partition->epoch > epoch);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    assert_false(mr_admission_may_take(&rig.intake->admission, 0, 0));
    revoke(&rig, MR_KAFKA_REVOKE_LOST); /* no longer assigned to this worker */
    assert_int_equal(partition->state, MR_PARTITION_NONE);
    close_intake_rig(&rig);
}

static void a_partition_that_comes_straight_back_keeps_its_requests(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *partition = open_with_request(&rig);
    commit_partition(partition);
    uint64_t epoch = partition->epoch;
    revoke(&rig, MR_KAFKA_REVOKE_PAUSE);
    assert_int_equal(partition->state, MR_PARTITION_SUSPENDED);
    assert_ptr_equal(assign_partition(&rig, 0, partition->acked_metadata), partition);
    assert_int_equal(partition->epoch, epoch);
    assert_false(atomic_load(&ticket_named(&rig, "a")->dropped));
    assert_int_equal(rig.intake->ownership.rebalances, 2);
    close_intake_rig(&rig);
}

static void a_partition_that_stays_away_drops_its_requests(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *partition = open_with_request(&rig);
    commit_partition(partition);
    revoke(&rig, MR_KAFKA_REVOKE_PAUSE);
    mr_ownership_assign(&rig.intake->ownership, NULL, 0,
                        &rig.now); /* the rebalance ends without it */
    assert_int_equal(partition->state, MR_PARTITION_NONE);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    close_intake_rig(&rig);
}

static void somebody_elses_commit_drops_what_ran_before(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *partition = open_with_request(&rig);
    commit_partition(partition);
    revoke(&rig, MR_KAFKA_REVOKE_PAUSE);
    assign_partition(&rig, 7, "");
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    mr_admission_done(&rig.intake->admission, answered(ticket_named(&rig, "a")));
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 7);
    close_intake_rig(&rig);
}

static void another_application_s_commit_ends_the_worker_and_is_left_as_it_is(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_kafka_commit commit;
    open_intake_rig(&rig);
    struct mr_partition *partition = assign_partition(&rig, 4, "somebody else's notes");
    assert_int_equal(rig.failure.status, MR_BAD_CONFIG);
    assert_non_null(strstr(rig.failure.detail, "another application"));
    assert_non_null(strstr(rig.failure.detail, "--foreign-commits ignore"));
    assert_true(rig.intake->fault.raised); /* so nothing is taken */
    assert_false(mr_partition_fill_commit(partition, 1, &commit));
    rig.failure = (struct mr_error){0};
    close_intake_rig(&rig);
}

static void another_application_s_commit_may_be_ignored(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    rig.config.foreign_commits = MR_FOREIGN_COMMITS_IGNORE;
    struct mr_partition *partition = assign_partition(&rig, 4, "somebody else's notes");
    assert_int_equal(partition->state, MR_PARTITION_OWNED);
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
    struct mr_partition *partition = open_with_request(&rig);
    begin(&rig, ticket_named(&rig, "a"));
    mr_partition_requests_change(&rig.intake->requests, NULL, mr_starts_release);
    mr_ledger_metadata_encode(partition->ledger, (struct mr_ledger_head){1, 0}, metadata);
    forget_partition(&rig, partition);
    partition = assign_partition(&rig, 0, metadata);
    assert_int_equal(mr_offset_ledger_receive(partition->ledger, 0, &history), MR_LEDGER_NEW);
    assert_int_equal(history.attempts, 1);
    assert_int_equal(history.crashes, 0);
    close_intake_rig(&rig);
}

static void a_partition_may_go_when_the_engine_has_ended(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with_request(&rig);
    mr_intake_forget_engine(rig.intake);
    rig_end(&rig.engine);
    revoke(&rig, MR_KAFKA_REVOKE_LOST);
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
                                          .open_reader = mr_kafka_reader_open_port,
                                          .results_topic = "results",
                                          .dlq_topic = "dlq",
                                          .group = "g",
                                          .timeout_ms = 20000,
                                          .wake = &rig.wake,
                                          .log = rig.log};
    struct mr_recovery *recovery = NULL;
    assert_int_equal(mr_recovery_create(&recovery, &options, NULL), MR_OK);
    assert_int_equal(mr_recovery_start(recovery, NULL), MR_OK);
    rig.intake->ownership.recovery = recovery;
    struct mr_partition *partition =
        assign_partition(&rig, 5, ""); /* set by hand: no search for results */
    assert_true(mr_admission_may_take(&rig.intake->admission, 0, 0));
    forget_partition(&rig, partition);
    assign_partition(&rig, -1, "");
    assert_true(partition->recovering);
    assert_false(mr_admission_may_take(&rig.intake->admission, 0, 0));
    while (partition->recovering) {
        mr_wake_wait(&rig.wake, UINT64_MAX);
        mr_ownership_recover(&rig.intake->ownership, rig.now.ns);
    }
    assert_true(mr_admission_may_take(&rig.intake->admission, 0, 0));
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 0); /* where the log begins */
    assign_partition(&rig, -1, "");
    forget_partition(&rig, partition); /* the answer comes too late */
    assert_false(partition->recovering);
    mr_recovery_destroy(recovery);
    close_intake_rig(&rig);
    close_broker(&broker);
}

/* ---- a commit that the broker has lost ---- */

/* A reader of results that are one second apart, the last at RIG_START_MS. */
struct far {
    const char *const *sources;
    unsigned left;
};

static bool take_far(void *self, struct mr_kafka_record *record)
{
    static struct mr_kafka_header headers[] = {{.name = MR_HEADER_SOURCE},
                                               {MR_HEADER_GROUP, "g", 1}};
    struct far *far = self;
    if (far->left == 0) return false;
    headers[0].value = *far->sources;
    headers[0].length = strlen(*far->sources++);
    *record = (struct mr_kafka_record){
        .headers = headers, .header_count = 2, .timestamp_ms = RIG_START_MS - 1000 * --far->left};
    return true;
}

static bool is_behind_far(void *self)
{
    const struct far *far = self;
    return far->left > 0;
}

static enum mr_status ends_far(void *self, const char *topic, int32_t partition,
                               uint32_t timeout_ms, struct mr_kafka_ends *ends,
                               struct mr_error *err)
{
    (void)self, (void)topic, (void)partition, (void)timeout_ms, (void)err;
    *ends = (struct mr_kafka_ends){0, 30000};
    return MR_OK;
}

static void close_far(void *self)
{
    (void)self;
}

static enum mr_status open_far(void *context, const struct mr_kafka_reader_options *options,
                               struct mr_kafka_reader_port *out, struct mr_error *err)
{
    (void)options, (void)err;
    *out = (struct mr_kafka_reader_port){context, take_far, is_behind_far, ends_far, close_far};
    return MR_OK;
}

/* The metadata of a commit of offset 5, made a second before the rig starts. */
static void make_metadata(char text[MR_LEDGER_METADATA_TEXT_MAX])
{
    struct mr_offset_ledger *ledger = NULL;
    assert_int_equal(mr_offset_ledger_create(&ledger, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    mr_offset_ledger_reset(ledger, 5);
    mr_ledger_metadata_encode(ledger, (struct mr_ledger_head){RIG_START_MS - 1000, 1}, text);
    mr_offset_ledger_destroy(ledger);
}

/* Opens the rig, and assigns the partition after recovery has read these results. */
static struct mr_partition *recover(struct intake_rig *rig, const char *const *sources,
                                    unsigned count, int64_t committed, const char *metadata)
{
    struct far far = {sources, count};
    open_intake_rig(rig);
    struct mr_recovery_options options = {.open_reader = open_far,
                                          .open_context = &far,
                                          .results_topic = "results",
                                          .dlq_topic = "dlq",
                                          .group = "g",
                                          .timeout_ms = 1000,
                                          .log = rig->log};
    struct mr_recovery *recovery = NULL;
    assert_int_equal(mr_recovery_create(&recovery, &options, NULL), MR_OK);
    rig->intake->ownership.recovery = recovery;
    struct mr_partition *partition = assign_partition(rig, committed, metadata);
    for (uint32_t step = 0; partition->recovering; step++) {
        assert_true(step < 10);
        (void)mr_recovery_step(recovery, rig->now);
        mr_ownership_recover(&rig->intake->ownership, rig->now.ns);
    }
    rig->intake->ownership.recovery = NULL;
    mr_recovery_destroy(recovery);
    return partition;
}

static void requests_that_results_prove_finished_do_not_run_again(void **state)
{
    (void)state;
    static const char *const sources[] = {"r/0/20000"};
    struct intake_rig rig;
    char metadata[MR_LEDGER_METADATA_TEXT_MAX];
    make_metadata(metadata);
    struct mr_partition *partition = recover(&rig, sources, 1, 5, metadata);
    const int64_t base = 20000 - (int64_t)MR_LEDGER_SPAN_MAX + 1;
    assert_int_equal(mr_offset_ledger_base(partition->ledger), base);
    arrive(&rig, 5, "{\"id\":\"a\",\"prompt\":\"x\"}");
    arrive(&rig, base - 1, "{\"id\":\"b\",\"prompt\":\"x\"}");
    arrive(&rig, base, "{\"id\":\"c\",\"prompt\":\"x\"}");
    assert_int_equal(rig.intake->admission.stats.finished_before, 2);
    assert_int_equal(rig.intake->admission.stats.records, 1);
    assert_non_null(ticket_named(&rig, "c"));
    close_intake_rig(&rig);
}

/* A record at this offset and time, relative to RIG_START_MS. */
static void arrive_at(struct intake_rig *rig, int64_t offset, int64_t after_ms)
{
    static const char value[] = "{\"id\":\"a\",\"prompt\":\"x\"}";
    struct mr_kafka_record record = {.topic = "r",
                                     .offset = offset,
                                     .value = {value, sizeof value - 1},
                                     .timestamp_ms = RIG_START_MS + after_ms};
    assert_true(mr_admission_accept(&rig->intake->admission, &record, 0, &rig->now));
    mr_partitions_check(rig->intake->partitions);
}

/* The results of offsets 1, 2 and 4 are 2 s, 1 s and 0 s older than RIG_START_MS. */
static const char *const early[] = {"r/0/1", "r/0/2", "r/0/4"};

static void a_record_later_than_its_result_is_of_a_new_log(void **state)
{
    (void)state;
    struct intake_rig rig;
    for (int64_t first = 1; first < 3; first++) { /* 2: the newest result decides */
        recover(&rig, early, 3, -1, "");
        arrive_at(&rig, 0, 6000); /* has no result */
        assert_int_equal(rig.intake->admission.stats.records, 1);
        if (first == 2) arrive_at(&rig, 1, 3000);
        assert_int_equal(rig.intake->admission.stats.finished_before, first - 1);
        arrive_at(&rig, first, first == 1 ? 3001 : 5001);
        for (int64_t offset = first + 1; offset < 6; offset++)
            arrive_at(&rig, offset, 5002);
        assert_int_equal(rig.intake->admission.stats.records, 7 - first);
        close_intake_rig(&rig);
    }
}

static void records_older_than_their_results_are_finished(void **state)
{
    (void)state;
    struct intake_rig rig;
    recover(&rig, early, 3, -1, "");
    for (int64_t offset = 0; offset < 6; offset++)
        arrive_at(&rig, offset, offset == 5 ? 60000 : offset < 2 ? 3000 : 5000);
    assert_int_equal(rig.intake->admission.stats.finished_before, 3);
    assert_int_equal(rig.intake->admission.stats.records, 3);
    close_intake_rig(&rig);
}

static void drain_waits_for_what_runs_and_for_nothing_else(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_intake_rig(&rig);
    struct mr_ownership *ownership = &rig.intake->ownership;
    rig.config.on_revoke = MR_ON_REVOKE_DRAIN;
    rig.config.revoke_timeout_ns = 3600000000000u;
    struct mr_partition *partition = assign_partition(&rig, 0, "");
    arrive(&rig, 0, "{\"id\":\"a\",\"prompt\":\"x\"}");
    arrive(&rig, 1, "{\"id\":\"b\",\"prompt\":\"x\"}");
    begin(&rig, ticket_named(&rig, "a"));
    mr_ownership_revoke(ownership, &mine, 1, MR_KAFKA_REVOKE_GONE, &rig.now);
    mr_ownership_hold(ownership, &rig.now);
    assert_int_equal(ownership->revocation, MR_REVOCATION_DRAINING);
    assert_false(mr_admission_may_take(&rig.intake->admission, 0, 0));
    struct mr_kafka_claim other = {.topic = "r", .partition = 1, .committed = 0};
    mr_ownership_assign(ownership, &other, 1, &rig.now);
    assert_true(mr_admission_may_take(&rig.intake->admission, 0, 1)); /* one that stays */
    mr_admission_done(&rig.intake->admission, answered(ticket_named(&rig, "a")));
    mr_ownership_hold(ownership, &rig.now);
    assert_int_equal(ownership->revocation, MR_REVOCATION_RELEASING);
    assert_null(ticket_named(&rig, "a")); /* it ended */
    assert_int_equal(mr_offset_ledger_base(partition->ledger), 1);
    assert_non_null(ticket_named(&rig, "b")); /* it had not begun */
    close_intake_rig(&rig);
}

static void drain_does_not_wait_for_ever(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *partition = open_with_request(&rig);
    struct mr_ownership *ownership = &rig.intake->ownership;
    rig.config.on_revoke = MR_ON_REVOKE_DRAIN;
    rig.config.revoke_timeout_ns = 10000000000u;
    begin(&rig, ticket_named(&rig, "a"));
    mr_ownership_revoke(ownership, &mine, 1, MR_KAFKA_REVOKE_GONE, &rig.now);
    pass_ms(&rig, 9999);
    mr_ownership_hold(ownership, &rig.now);
    assert_int_equal(ownership->revocation, MR_REVOCATION_DRAINING);
    pass_ms(&rig, 1);
    assert_true(mr_ownership_due_ns(ownership) <= rig.now.ns);
    mr_ownership_hold(ownership, &rig.now);
    assert_int_equal(ownership->revocation, MR_REVOCATION_RELEASING);
    assert_int_equal(mr_write_gate_look(&partition->gate, partition->epoch), MR_WRITE_HELD);
    mr_ownership_release(ownership, &rig.now);
    mr_ownership_committed(ownership);
    assert_non_null(ticket_named(&rig, "a"));
    close_intake_rig(&rig);
}

static void a_revocation_waits_for_begun_results_and_then_lets_no_more_be_written(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_partition *partition = open_with_request(&rig);
    struct mr_ownership *ownership = &rig.intake->ownership;
    const uint64_t hold_ms = MR_REVOKE_HOLD_NS / 1000000;
    assert_int_equal(mr_write_gate_admit(&partition->gate, partition->epoch), MR_WRITE_OPEN);
    mr_ownership_revoke(ownership, &mine, 1, MR_KAFKA_REVOKE_GONE, &rig.now);
    pass_ms(&rig, hold_ms - 1);
    mr_ownership_hold(ownership, &rig.now);
    assert_int_equal(ownership->revocation, MR_REVOCATION_HOLDING);
    assert_int_equal(mr_write_gate_continue(&partition->gate, partition->epoch), MR_WRITE_OPEN);
    pass_ms(&rig, 1);
    mr_ownership_hold(ownership, &rig.now);
    assert_int_equal(ownership->revocation, MR_REVOCATION_RELEASING);
    assert_int_equal(mr_write_gate_continue(&partition->gate, partition->epoch), MR_WRITE_HELD);
    mr_write_gate_acknowledge(&partition->gate);
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
        cmocka_unit_test(requests_that_results_prove_finished_do_not_run_again),
        cmocka_unit_test(a_record_later_than_its_result_is_of_a_new_log),
        cmocka_unit_test(records_older_than_their_results_are_finished),
        cmocka_unit_test(drain_waits_for_what_runs_and_for_nothing_else),
        cmocka_unit_test(drain_does_not_wait_for_ever),
        cmocka_unit_test(a_revocation_waits_for_begun_results_and_then_lets_no_more_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
