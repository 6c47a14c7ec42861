#include "worker/publish/transactions.h"

#include "tests/unit/worker/output_options.h"
#include "tests/unit/worker/producing.h"
#include "worker/kafka/kafka_txn.h"

#include <stdio.h>
#include <stdlib.h>

#define API_PRODUCE      0
#define API_END_TXN      26
#define API_TXN_COMMIT   28
#define INVALID_PRODUCER 47
#define ILLEGAL_MEMBER   25 /* UNKNOWN_MEMBER_ID */

struct rig {
    struct broker broker;
    struct mr_request_topic topic;
    struct mr_kafka_consumer_topic read;
    struct mr_wake wake;
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_kafka_in *in;
    struct mr_transactions *transactions;
    struct mr_ticket *tickets[2];
    struct mr_kafka_commit commit;
    struct mr_transactions_job job;
};

static struct mr_ticket *refused(int64_t offset)
{
    const struct mr_kafka_record record = {.topic = "r", .offset = offset, .value = {"bad", 3}};
    struct mr_ticket *ticket = NULL;
    assert_int_equal(
        mr_ticket_create(&ticket, &record, &(struct mr_ticket_answer){.reply_partition = -1}, NULL),
        MR_OK);
    snprintf(ticket->id, sizeof ticket->id, "req-%d", (int)offset);
    ticket->topic = "r";
    ticket->encoding = MR_ENCODING_JSON;
    struct mr_refusal_mail *mail = mr_refusal_mail_create(ticket, &record, (struct mr_text){0});
    mail->finish = MR_FINISH_REJECTED;
    mail->write_result = true;
    mr_fail(&mail->error, MR_MALFORMED, "no request");
    ticket->publish.terminal = &mail->mail;
    return ticket;
}

static void open_transactions(struct rig *rig)
{
    struct mr_error err = {0};
    const struct mr_kafka_txn_source source = {.kafka = &rig->broker.kafka,
                                               .transactional_id = "t",
                                               .topics = &rig->topic,
                                               .timeout_ms = 10000};
    struct mr_transactions_options options = {.producer = mr_kafka_txn_opener(&source),
                                              .output = test_output,
                                              .log = rig->log,
                                              .metrics = rig->metrics};
    if (mr_transactions_create(&rig->transactions, &options, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(mr_transactions_start(rig->transactions, NULL), MR_OK);
    mr_transactions_set_wake(rig->transactions, &rig->wake);
}

static void open_rig_of(struct rig *rig, uint64_t transaction_timeout_ns)
{
    struct mr_log_options log = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    *rig = (struct rig){.topic = {.name = "r"}, .commit = {.offset = 2, .metadata = "text"}};
    open_broker(&rig->broker);
    rig->broker.kafka.transaction_timeout_ns = transaction_timeout_ns;
    add_topic(&rig->broker, "r", 1);
    add_topic(&rig->broker, "results", 1);
    add_topic(&rig->broker, "dlq", 1);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_log_create(&rig->log, &log, NULL), MR_OK);
    assert_int_equal(mr_metrics_create(&rig->metrics, &info, NULL), MR_OK);
    rig->read = (struct mr_kafka_consumer_topic){"r", 1};
    struct mr_kafka_consumer_options in = {
        .kafka = &rig->broker.kafka, .wake = &rig->wake, .topics = &rig->read, .topic_count = 1};
    assert_int_equal(mr_kafka_in_create(&rig->in, &in, NULL), MR_OK);
    struct mr_kafka_event assigned;
    while (!mr_kafka_in_next_event(rig->in, &assigned))
        mr_clock_sleep_ms(10);
    mr_kafka_in_complete_rebalance(rig->in);
    open_transactions(rig);
    rig->tickets[0] = refused(0);
    rig->tickets[1] = refused(1);
    rig->tickets[0]->intake.ready_next = rig->tickets[1];
}

static void open_rig(struct rig *rig)
{
    open_rig_of(rig, 30000000000u);
}

static void close_rig(struct rig *rig)
{
    mr_transactions_destroy(rig->transactions, 10000);
    mr_ticket_destroy(rig->tickets[0]);
    mr_ticket_destroy(rig->tickets[1]);
    assert_true(mr_kafka_in_close(rig->in, 10000));
    mr_metrics_destroy(rig->metrics);
    mr_log_destroy(rig->log);
    mr_wake_close(&rig->wake);
    close_broker(&rig->broker);
}

static enum mr_status run_job(struct rig *rig)
{
    rig->job = (struct mr_transactions_job){.tickets = rig->tickets[0],
                                            .commits = &rig->commit,
                                            .commit_count = 1,
                                            .membership = mr_kafka_in_membership(rig->in)};
    assert_false(mr_transactions_take_outcome(rig->transactions)); /* there is no job */
    mr_transactions_submit(rig->transactions, &rig->job);
    while (!mr_transactions_take_outcome(rig->transactions))
        mr_wake_wait(&rig->wake, 1000000000u);
    assert_null(rig->job.membership);
    return rig->job.outcome.status;
}

static void terminal_records_are_written_with_the_offsets_of_their_requests(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    assert_int_equal(run_job(&rig), MR_OK);
    struct mr_transactions_stats stats = mr_transactions_stats(rig.transactions);
    assert_int_equal(stats.terminal.results, 2);
    assert_int_equal(stats.terminal.dead_letters, 2);
    assert_int_equal(stats.terminal.replies, 0);
    assert_int_equal(stats.transactions, 1);
    assert_int_equal(stats.aborted, 0);
    close_rig(&rig);
}

static void an_aborted_job_is_written_whole_by_the_next(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    mr_kafka_mock_fail(rig.broker.mock, API_TXN_COMMIT, ILLEGAL_MEMBER, 1);
    assert_int_equal(run_job(&rig), MR_AGAIN);
    assert_int_equal(mr_transactions_stats(rig.transactions).terminal.results, 0);
    assert_true(rig.tickets[1]->publish.parts[MR_PART_RESULT].pending);
    assert_int_equal(run_job(&rig), MR_OK);
    struct mr_transactions_stats stats = mr_transactions_stats(rig.transactions);
    assert_int_equal(stats.terminal.results, 2);
    assert_int_equal(stats.transactions, 2);
    assert_int_equal(stats.aborted, 1);
    assert_false(rig.tickets[1]->publish.parts[MR_PART_RESULT].pending);
    close_rig(&rig);
}

static void a_fenced_worker_gets_an_error_that_names_its_id(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    mr_kafka_mock_fail(rig.broker.mock, API_END_TXN, INVALID_PRODUCER, 1);
    assert_int_equal(run_job(&rig), MR_BACKEND);
    assert_non_null(strstr(rig.job.outcome.detail, "--worker-id"));
    assert_int_equal(mr_status_class(rig.job.outcome.status), MR_CLASS_FATAL);
    close_rig(&rig);
}

static void a_transaction_that_the_broker_ended_is_repeated_by_another_producer(void **state)
{
    (void)state;
    struct rig rig;
    open_rig_of(&rig, 3000000000u);
    /* Together longer than the timeout of the transaction. Answers about offsets must be on time:
     * librdkafka 2.0.2 never returns from sending offsets when the timeout passes meanwhile. */
    mr_kafka_mock_delay(rig.broker.mock, 1, API_PRODUCE, 0, 1600);
    mr_kafka_mock_delay(rig.broker.mock, 1, API_END_TXN, INVALID_PRODUCER, 1600);
    assert_int_equal(run_job(&rig), MR_AGAIN);
    assert_int_equal(mr_transactions_stats(rig.transactions).renewed, 1);
    assert_true(rig.tickets[0]->publish.parts[MR_PART_RESULT].pending);
    assert_int_equal(run_job(&rig), MR_OK);
    struct mr_transactions_stats stats = mr_transactions_stats(rig.transactions);
    assert_int_equal(stats.terminal.results, 2);
    assert_int_equal(stats.aborted, 1);
    assert_true(stats.ns_sum > 0);
    assert_int_equal(mr_transactions_call_ns(rig.transactions), 0);
    close_rig(&rig);
}

static void destroying_waits_for_a_running_job(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    rig.job = (struct mr_transactions_job){.tickets = rig.tickets[0],
                                           .commits = &rig.commit,
                                           .commit_count = 1,
                                           .membership = mr_kafka_in_membership(rig.in)};
    mr_transactions_submit(rig.transactions, &rig.job);
    expect_assert_failure(mr_transactions_submit(rig.transactions, &rig.job));
    close_rig(&rig);
    mr_transactions_destroy(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminal_records_are_written_with_the_offsets_of_their_requests),
        cmocka_unit_test(an_aborted_job_is_written_whole_by_the_next),
        cmocka_unit_test(a_fenced_worker_gets_an_error_that_names_its_id),
        cmocka_unit_test(a_transaction_that_the_broker_ended_is_repeated_by_another_producer),
        cmocka_unit_test(destroying_waits_for_a_running_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
