#include "worker/offsets/exactly_once.h"

#include "tests/unit/worker/broker.h"
#include "tests/unit/worker/intake_rig.h"
#include "tests/unit/worker/output_options.h"
#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_txn.h"

#include <stdio.h>

#define API_PRODUCE    0
#define API_END_TXN    26
#define API_TXN_COMMIT 28
#define FENCED         47 /* INVALID_PRODUCER_EPOCH */
#define UNKNOWN_MEMBER 25
#define INVALID_RECORD 87

/* Intake without its thread, with transactions and a consumer over the embedded broker. */
struct rig {
    struct intake_rig base;
    struct broker broker;
    struct mr_exactly_once *exactly_once;
    struct mr_partition *partition;
};

static void step(struct rig *rig)
{
    rig->base.now = mr_clock_now();
    step_intake(&rig->base);
}

/* Steps until the consumer group has assigned the partition. */
static void wait_owned(struct rig *rig)
{
    do {
        step(rig);
        rig->partition = mr_partitions_find(rig->base.intake->partitions, 0, 0);
    } while (!rig->partition || rig->partition->state != MR_PARTITION_OWNED);
}

static void open_rig(struct rig *rig)
{
    struct mr_error err = {0};
    struct mr_transactions *transactions = NULL;
    memset(rig, 0, sizeof *rig);
    create_intake_rig(&rig->base);
    struct mr_intake *intake = rig->base.intake;
    rig->base.config.commit_interval_ns = 3600000000000u; /* the test commits */
    open_broker(&rig->broker);
    rig->broker.kafka.transaction_timeout_ns = 30000000000u;
    add_topic(&rig->broker, "r", 1);
    add_topic(&rig->broker, "results", 1);
    add_topic(&rig->broker, "dlq", 1);
    const struct mr_kafka_txn_source source = {.kafka = &rig->broker.kafka,
                                               .transactional_id = "t",
                                               .topics = rig->base.config.request_topics,
                                               .timeout_ms = 10000};
    struct mr_transactions_options options = {.producer = mr_kafka_txn_opener(&source),
                                              .output = test_output,
                                              .log = rig->base.log,
                                              .metrics = rig->base.metrics};
    if (mr_transactions_create(&transactions, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_transactions_start(transactions, NULL), MR_OK);
    intake->options.kafka = &rig->broker.kafka;
    intake->options.open_consumer = mr_kafka_in_open;
    open_intake_with(&rig->base, NULL, transactions);
    rig->exactly_once = &intake->exactly_once;
    wait_owned(rig);
}

static void close_rig(struct rig *rig)
{
    mr_transactions_destroy(rig->exactly_once->transactions, 10000);
    rig->exactly_once->transactions = NULL;
    mr_exactly_once_drop_all(rig->exactly_once);
    close_intake_rig(&rig->base);
    close_broker(&rig->broker);
}

/* A record arrives and is refused, and publish hands over its terminal records. */
static struct mr_ticket *ready_with(struct rig *rig, int64_t offset, const char *value)
{
    arrive(&rig->base, offset, value);
    struct mr_mail *mail = mr_mailbox_take(rig->base.publish);
    assert_non_null(mail);
    struct mr_ticket *ticket = ((struct mr_refusal_mail *)mail)->ticket;
    ticket->publish.terminal = mail;
    mr_exactly_once_ready(rig->exactly_once, answered(ticket));
    return ticket;
}

/* The same with a result and a dead letter; each has an id of its own. */
static struct mr_ticket *ready(struct rig *rig, int64_t offset)
{
    char value[48];
    snprintf(value, sizeof value, "{\"id\":\"x%d\",\"prompt\":7}", (int)offset);
    return ready_with(rig, offset, value);
}

/* Commits everything that is ready, and waits for the outcome. */
static void commit(struct rig *rig)
{
    struct mr_commit_schedule *schedule = rig->exactly_once->schedule;
    mr_commit_schedule_by(schedule, 0);
    if (rig->exactly_once->ready) rig->exactly_once->due_ns = 0;
    do {
        step(rig);
        if (schedule->pending) mr_wake_wait(mr_intake_wake(rig->base.intake), 1000000000u);
    } while (schedule->pending);
}

static void what_is_ready_is_finished_with_its_transaction(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    ready(&rig, 0);
    ready(&rig, 1);
    assert_true(rig.base.intake->schedule.due_ns < UINT64_MAX);
    assert_int_equal(rig.base.intake->flight.count, 2);
    commit(&rig);
    assert_int_equal(rig.base.intake->flight.count, 0);
    assert_int_equal(rig.partition->acked_offset, 2);
    assert_int_equal(mr_transactions_stats(rig.exactly_once->transactions).terminal.results, 2);
    close_rig(&rig);
}

static void an_abort_commits_nothing_and_the_next_one_all(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    ready(&rig, 0);
    mr_kafka_mock_fail(rig.broker.mock, API_TXN_COMMIT, UNKNOWN_MEMBER, 1);
    commit(&rig);
    assert_int_equal(rig.base.intake->flight.count, 1);
    assert_int_equal(rig.base.intake->schedule.failures, 1);
    assert_int_equal(rig.partition->acked_offset, -1);
    ready(&rig, 1);
    commit(&rig);
    assert_int_equal(rig.base.intake->flight.count, 0);
    assert_int_equal(rig.partition->acked_offset, 2);
    assert_int_equal(mr_transactions_stats(rig.exactly_once->transactions).terminal.results, 2);
    close_rig(&rig);
}

/* The engine requests the start of request "a", whose record is at this offset; waits until it may
 * start. */
static void start(struct rig *rig, int64_t offset)
{
    arrive(&rig->base, offset, "{\"id\":\"a\",\"prompt\":\"x\"}");
    struct mr_ticket *ticket = ticket_named(&rig->base, "a");
    post(&rig->base, &ticket->starting, MR_MAIL_STARTING);
    for (step(rig); !atomic_load(&ticket->may_start); step(rig))
        mr_wake_wait(mr_intake_wake(rig->base.intake), 10000000u);
}

static void a_start_is_committed_without_a_transaction(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    start(&rig, 0);
    assert_int_equal(mr_transactions_stats(rig.exactly_once->transactions).transactions, 0);
    assert_int_equal(rig.partition->acked_offset, 0);
    ready(&rig, 1);
    commit(&rig);
    assert_int_equal(mr_transactions_stats(rig.exactly_once->transactions).transactions, 1);
    assert_int_equal(rig.partition->acked_offset, 0); /* the metadata lists 1 as finished */
    assert_int_equal(rig.base.intake->flight.count, 1);
    close_rig(&rig);
}

/* The ledger lists a request as finished whose transaction was aborted: no commit without it. */
static void after_an_abort_a_start_is_committed_with_the_transaction(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    ready(&rig, 0);
    mr_kafka_mock_fail(rig.broker.mock, API_TXN_COMMIT, UNKNOWN_MEMBER, 1);
    commit(&rig);
    assert_int_equal(rig.exactly_once->sealed, 1);
    start(&rig, 1);
    struct mr_transactions_stats stats = mr_transactions_stats(rig.exactly_once->transactions);
    assert_int_equal(stats.transactions, 2);
    assert_int_equal(stats.aborted, 1);
    assert_int_equal(stats.terminal.results, 1);
    assert_int_equal(rig.exactly_once->sealed, 0);
    assert_int_equal(rig.partition->acked_offset, 1);
    close_rig(&rig);
}

static void a_partition_between_owners_waits_and_one_that_went_is_dropped(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    ready(&rig, 0);
    mr_partition_suspend(rig.partition);
    commit(&rig);
    assert_int_equal(rig.base.intake->flight.count, 1);
    assert_false(rig.base.intake->schedule.pending);
    forget_partition(&rig.base, rig.partition);
    commit(&rig);
    assert_int_equal(rig.base.intake->flight.count, 0);
    assert_int_equal(mr_transactions_stats(rig.exactly_once->transactions).terminal.results, 0);
    close_rig(&rig);
}

static void a_fenced_worker_fails(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    ready(&rig, 0);
    mr_kafka_mock_fail(rig.broker.mock, API_END_TXN, FENCED, 1);
    commit(&rig);
    assert_true(rig.base.intake->fault.raised);
    assert_int_equal(rig.base.failure.status, MR_BACKEND);
    rig.base.failure = (struct mr_error){0};
    commit(&rig); /* tries no more */
    assert_int_equal(rig.base.intake->flight.count, 1);
    close_rig(&rig);
}

static void a_result_that_its_topic_refuses_for_good_fails_the_worker(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    mr_kafka_mock_fail(rig.broker.mock, API_PRODUCE, INVALID_RECORD, 1000);
    /* retried if the coordinator was busy, or if the group's session timed out on a busy machine */
    do {
        wait_owned(&rig);
        /* without a dead letter: if that were refused first, the abort would drop the unsent
         * result */
        if (rig.base.intake->flight.count == 0)
            ready_with(&rig, 0, "{\"id\":\"x\",\"prompt\":\"p\",\"model\":\"another\"}");
        commit(&rig);
    } while (!rig.base.intake->fault.raised);
    assert_int_equal(rig.base.failure.status, MR_MALFORMED);
    rig.base.failure = (struct mr_error){0};
    assert_int_equal(rig.base.intake->flight.count, 1);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ready_is_finished_with_its_transaction),
        cmocka_unit_test(an_abort_commits_nothing_and_the_next_one_all),
        cmocka_unit_test(a_start_is_committed_without_a_transaction),
        cmocka_unit_test(after_an_abort_a_start_is_committed_with_the_transaction),
        cmocka_unit_test(a_partition_between_owners_waits_and_one_that_went_is_dropped),
        cmocka_unit_test(a_fenced_worker_fails),
        cmocka_unit_test(a_result_that_its_topic_refuses_for_good_fails_the_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
