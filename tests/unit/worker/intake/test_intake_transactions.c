#include "worker/intake/intake_transactions.h"

#include "tests/unit/worker/broker.h"
#include "tests/unit/worker/intake_rig.h"
#include "tests/unit/worker/output_options.h"
#include "worker/kafka/kafka_txn.h"

#define API_END_TXN    26
#define API_TXN_COMMIT 28
#define FENCED         47 /* INVALID_PRODUCER_EPOCH */
#define UNKNOWN_MEMBER 25

/* Intake without its thread, with a settle and a consumer over the mock. */
struct rig {
    struct intake_rig base;
    struct broker broker;
    struct mr_kafka_in_topic topic;
};

static void open_rig(struct rig *rig)
{
    struct mr_error err = {0};
    struct mr_intake *intake = &rig->base.intake;
    memset(rig, 0, sizeof *rig);
    open_intake_rig(&rig->base);
    rig->base.config.commit_interval_ns = 1000000u;
    open_broker(&rig->broker);
    rig->broker.kafka.transaction_timeout_ns = 30000000000u;
    intake->options.kafka = &rig->broker.kafka;
    add_topic(&rig->broker, "r", 1);
    add_topic(&rig->broker, "results", 1);
    add_topic(&rig->broker, "dlq", 1);
    rig->topic = (struct mr_kafka_in_topic){"r", 1};
    struct mr_kafka_in_options in = {
        .kafka = &rig->broker.kafka,
        .wake = &rig->base.wake,
        .topics = &rig->topic,
        .topic_count = 1,
        .events = {intake, mr_intake_assigned, mr_intake_revoked, mr_intake_committed}};
    assert_int_equal(mr_kafka_in_create(&intake->in, &in, NULL), MR_OK);
    const struct mr_kafka_txn_source source = {.kafka = &rig->broker.kafka,
                                               .transactional_id = "t",
                                               .topics = rig->base.config.request_topics,
                                               .timeout_ms = 10000};
    struct mr_transactions_options transactions = {.producer = mr_kafka_txn_opener(&source),
                                                   .output = test_output,
                                                   .log = rig->base.log,
                                                   .metrics = intake->targets.metrics};
    if (mr_transactions_create(&intake->targets.settle, &transactions, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(mr_transactions_start(intake->targets.settle, NULL), MR_OK);
}

static void close_rig(struct rig *rig)
{
    struct mr_intake *intake = &rig->base.intake;
    mr_kafka_in_close(intake->in, 10000);
    mr_transactions_destroy(intake->targets.settle);
    mr_intake_drop_ready(intake);
    close_intake_rig(&rig->base);
    close_broker(&rig->broker);
}

/* A record that is refused comes, and publish hands its ending over. */
static struct mr_ticket *ready(struct rig *rig, int64_t offset)
{
    arrive(&rig->base, offset, "{\"id\":\"x\",\"prompt\":7}");
    struct mr_mail *mail = mr_mailbox_take(rig->base.publish);
    assert_non_null(mail);
    struct mr_ticket *ticket = ((struct mr_refusal_mail *)mail)->ticket;
    ticket->publish.terminal = mail;
    mr_intake_ready(&rig->base.intake, ticket);
    return ticket;
}

static void what_is_ready_is_finished_with_its_transaction(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    struct mr_partition *lane = mr_partitions_find(rig.base.intake.lanes, 0, 0);
    ready(&rig, 0);
    ready(&rig, 1);
    assert_true(rig.base.intake.commit_due_ns < UINT64_MAX);
    assert_int_equal(rig.base.intake.in_flight, 2);
    mr_intake_commit(&rig.base.intake, 20000);
    assert_int_equal(rig.base.intake.in_flight, 0);
    assert_int_equal(lane->acked_offset, 2);
    assert_int_equal(mr_transactions_stats(rig.base.intake.targets.settle).terminal.results, 2);
    close_rig(&rig);
}

static void an_abort_commits_nothing_and_the_next_one_all(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    struct mr_partition *lane = mr_partitions_find(rig.base.intake.lanes, 0, 0);
    ready(&rig, 0);
    mr_kafka_mock_fail(rig.broker.mock, API_TXN_COMMIT, UNKNOWN_MEMBER, 1);
    mr_intake_commit(&rig.base.intake, 20000);
    assert_int_equal(rig.base.intake.in_flight, 1);
    assert_int_equal(rig.base.intake.stats.commit_failures, 1);
    assert_int_equal(lane->acked_offset, -1);
    ready(&rig, 1);
    mr_intake_commit(&rig.base.intake, 20000);
    assert_int_equal(rig.base.intake.in_flight, 0);
    assert_int_equal(lane->acked_offset, 2);
    assert_int_equal(mr_transactions_stats(rig.base.intake.targets.settle).terminal.results, 2);
    close_rig(&rig);
}

static void a_partition_between_owners_waits_and_one_that_went_is_dropped(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    struct mr_partition *lane = mr_partitions_find(rig.base.intake.lanes, 0, 0);
    ready(&rig, 0);
    mr_partition_suspend(lane);
    mr_intake_commit(&rig.base.intake, 20000);
    assert_int_equal(rig.base.intake.in_flight, 1);
    assert_false(rig.base.intake.committing);
    mr_intake_forget_lane(&rig.base.intake, lane);
    mr_intake_commit(&rig.base.intake, 20000);
    assert_int_equal(rig.base.intake.in_flight, 0);
    assert_int_equal(mr_transactions_stats(rig.base.intake.targets.settle).terminal.results, 0);
    close_rig(&rig);
}

static void a_fenced_worker_fails(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    ready(&rig, 0);
    mr_kafka_mock_fail(rig.broker.mock, API_END_TXN, FENCED, 1);
    mr_intake_commit(&rig.base.intake, 20000);
    assert_true(rig.base.intake.failed);
    assert_int_equal(rig.base.failure.status, MR_BACKEND);
    rig.base.failure = (struct mr_error){0};
    mr_intake_commit(&rig.base.intake, 20000); /* tries no more */
    assert_int_equal(rig.base.intake.in_flight, 1);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ready_is_finished_with_its_transaction),
        cmocka_unit_test(an_abort_commits_nothing_and_the_next_one_all),
        cmocka_unit_test(a_partition_between_owners_waits_and_one_that_went_is_dropped),
        cmocka_unit_test(a_fenced_worker_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
