#include "worker/publish/publish.h"

#include "tests/unit/worker/list_redis.h"
#include "tests/unit/worker/output_options.h"
#include "tests/unit/worker/producing.h"
#include "tests/unit/worker/result_mail.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/offsets/partition.h"

#include <stdio.h>
#include <stdlib.h>

#define API_PRODUCE 0

/* Publish over an embedded broker; the test takes the place of the engine and of intake. */
struct rig {
    struct broker broker;
    struct mr_wake wake;
    struct mr_mailbox *intake;
    struct mr_log *log;
    struct mr_metrics *metrics;
    struct mr_publish *publish;
    struct mr_ticket *ticket;
    atomic_int failures;
    atomic_int_least64_t oldest_ms;
};

static void on_failed(void *context, const struct mr_error *err)
{
    (void)err;
    atomic_fetch_add(&((struct rig *)context)->failures, 1);
}

static struct mr_publish_options options_of(struct rig *rig)
{
    return (struct mr_publish_options){.producer = mr_kafka_out_opener(&rig->broker.kafka),
                                       .output = test_output,
                                       .intake = rig->intake,
                                       .oldest_ms = &rig->oldest_ms,
                                       .log = rig->log,
                                       .metrics = rig->metrics,
                                       .failed = on_failed,
                                       .context = rig};
}

static void open_publish(struct rig *rig, const struct mr_publish_options *options)
{
    struct mr_error err = {0};
    if (mr_publish_create(&rig->publish, options, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_publish_start(rig->publish, NULL), MR_OK);
}

static void open_rig(struct rig *rig)
{
    *rig = (struct rig){.publish = NULL};
    struct mr_log_options log = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    struct mr_mailbox_options mailbox = {16, 1 << 20, &rig->wake};
    const struct mr_kafka_record record = {.topic = "r", .offset = 5};
    open_broker(&rig->broker);
    add_topic(&rig->broker, "tokens", 1);
    add_topic(&rig->broker, "results", 1);
    add_topic(&rig->broker, "dlq", 1);
    add_topic(&rig->broker, "replies", 1);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->intake, &mailbox, NULL), MR_OK);
    assert_int_equal(mr_log_create(&rig->log, &log, NULL), MR_OK);
    assert_int_equal(mr_metrics_create(&rig->metrics, &info, NULL), MR_OK);
    struct mr_publish_options options = options_of(rig);
    open_publish(rig, &options);
    assert_int_equal(mr_ticket_create(&rig->ticket, &record,
                                      &(struct mr_ticket_answer){.reply_partition = -1}, NULL),
                     MR_OK);
    snprintf(rig->ticket->id, sizeof rig->ticket->id, "req");
    rig->ticket->topic = "r";
    rig->ticket->attempt = 1;
    rig->ticket->encoding = MR_ENCODING_JSON;
    rig->ticket->waited_ms = -1;
}

static void close_rig(struct rig *rig)
{
    assert_true(mr_publish_destroy(rig->publish, 10000));
    assert_int_equal(atomic_load(&rig->failures), 0);
    mr_ticket_destroy(rig->ticket);
    mr_metrics_destroy(rig->metrics);
    mr_log_destroy(rig->log);
    mr_mailbox_destroy(rig->intake);
    mr_wake_close(&rig->wake);
    close_broker(&rig->broker);
}

static void post(struct rig *rig, struct mr_mail *mail)
{
    mr_mailbox_post_control(mr_publish_mailbox(rig->publish), mail);
}

static void post_tokens(struct rig *rig, uint32_t index)
{
    static const uint32_t id = 3;
    const struct mr_token_record record = {.id = {"req", 3},
                                           .attempt = 1,
                                           .index = index,
                                           .resumed_at = -1,
                                           .token_ids = &id,
                                           .token_count = 1,
                                           .text = {"x", 1}};
    post(rig, &mr_tokens_mail_create(rig->ticket, &record, 1)->mail);
}

static void post_result(struct rig *rig)
{
    post(rig, result_mail(rig->ticket, 1));
}

static void wait_done(struct rig *rig)
{
    struct mr_mail *mail = NULL;
    while (!(mail = mr_mailbox_take(rig->intake)))
        mr_wake_wait(&rig->wake, UINT64_MAX);
    assert_ptr_equal(mail, &rig->ticket->done);
    assert_int_equal(mail->kind, MR_MAIL_DONE);
    assert_null(mail->next);
}

/* How many records of the topic contain the text. */
static int records_with(struct rig *rig, const char *topic, const char *text)
{
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_record record;
    struct mr_kafka_reader_options options = {.kafka = &rig->broker.kafka,
                                              .topics = &topic,
                                              .topic_count = 1,
                                              .from = MR_KAFKA_FROM_BEGINNING,
                                              .until_end = true,
                                              .timeout_ms = 5000};
    int found = 0;
    assert_int_equal(mr_kafka_reader_create(&reader, &options, NULL), MR_OK);
    while (mr_kafka_reader_is_behind(reader))
        while (mr_kafka_reader_take(reader, 100, &record))
            found += record.value.bytes &&
                     memmem(record.value.bytes, record.value.length, text, strlen(text));
    mr_kafka_reader_destroy(reader);
    return found;
}

static void a_request_is_done_when_all_its_records_are_on_the_broker(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    post_tokens(&rig, 0);
    post_tokens(&rig, 1);
    post_result(&rig);
    wait_done(&rig);
    assert_int_equal(rig.ticket->publish.tokens_pending, 0);
    assert_null(rig.ticket->publish.terminal);
    assert_int_equal(records_with(&rig, "tokens", "req"), 2);
    assert_int_equal(records_with(&rig, "results", "the answer"), 1);
    assert_int_equal(records_with(&rig, "dlq", ""), 0);
    assert_int_equal(atomic_load(&rig.oldest_ms), 0);
    close_rig(&rig);
}

static void a_refused_record_becomes_a_dead_letter_and_a_result(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    const struct mr_kafka_record record = {.topic = "r", .value = {"garbage", 7}};
    struct mr_refusal_mail *mail = mr_refusal_mail_create(rig.ticket, &record, (struct mr_text){0});
    mail->finish = MR_FINISH_REJECTED;
    mail->write_result = true;
    mr_fail(&mail->error, MR_MALFORMED, "it is no request");
    post(&rig, &mail->mail);
    wait_done(&rig);
    assert_int_equal(records_with(&rig, "dlq", "garbage"), 1);
    assert_int_equal(records_with(&rig, "results", "it is no request"), 1);
    close_rig(&rig);
}

static void a_reply_goes_to_an_existing_topic_only(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    rig.ticket->reply_topic = "replies";
    rig.ticket->reply_partition = -1;
    post_result(&rig);
    wait_done(&rig);
    assert_int_equal(records_with(&rig, "replies", "the answer"), 1);
    rig.ticket->reply_partition = 7; /* there is no such partition */
    post_result(&rig);
    wait_done(&rig);
    rig.ticket->reply_topic = "nowhere";
    post_result(&rig);
    wait_done(&rig);
    assert_int_equal(records_with(&rig, "replies", "the answer"), 1);
    assert_int_equal(records_with(&rig, "results", "the answer"), 3);
    close_rig(&rig);
}

static void nothing_is_written_for_a_dropped_request(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    atomic_store(&rig.ticket->dropped, true);
    post_tokens(&rig, 0);
    post_result(&rig);
    wait_done(&rig);
    assert_int_equal(records_with(&rig, "tokens", ""), 0);
    assert_int_equal(records_with(&rig, "results", ""), 0);
    close_rig(&rig);
}

static void a_result_survives_a_broker_that_refuses_it_at_first(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    mr_kafka_mock_fail(rig.broker.mock, API_PRODUCE, 19, 2); /* not enough replicas */
    post_result(&rig);
    wait_done(&rig);
    assert_int_equal(records_with(&rig, "results", "the answer"), 1);
    close_rig(&rig);
}

static void nothing_is_written_while_the_partition_may_be_revoked(void **state)
{
    (void)state;
    struct rig rig;
    struct mr_partitions *lanes = NULL;
    struct mr_partition *lane = NULL;
    struct mr_kafka_claim claim = {.topic = "r", .committed = 0};
    bool resumed;
    open_rig(&rig);
    assert_int_equal(mr_partitions_create(&lanes, NULL), MR_OK);
    assert_int_equal(
        mr_partitions_take(lanes, &claim, &rig.ticket->intake.partition, &resumed, NULL), MR_OK);
    rig.ticket->epoch = rig.ticket->intake.partition->epoch;
    rig.ticket->gate = &rig.ticket->intake.partition->gate;
    mr_partition_hold(rig.ticket->intake.partition);
    post_result(&rig);
    while (atomic_load(&rig.oldest_ms) == 0) /* until publish has it */
        mr_clock_sleep_ms(10);
    mr_clock_sleep_ms(300);
    assert_int_equal(records_with(&rig, "results", ""), 0);
    assert_null(mr_mailbox_take(rig.intake));
    mr_partition_suspend(rig.ticket->intake.partition);
    claim = (struct mr_kafka_claim){.topic = "r", .committed = 0};
    assert_int_equal(mr_partitions_take(lanes, &claim, &lane, &resumed, NULL), MR_OK);
    assert_true(resumed); /* the partition was assigned to this worker again */
    wait_done(&rig);
    assert_int_equal(records_with(&rig, "results", "the answer"), 1);
    mr_partition_hold(rig.ticket->intake.partition);
    post_result(&rig);
    mr_partition_forget(rig.ticket->intake.partition); /* the partition was revoked */
    wait_done(&rig);
    assert_int_equal(records_with(&rig, "results", "the answer"), 1);
    assert_int_equal(rig.ticket->intake.partition->gate.unacknowledged, 0);
    close_rig(&rig);
    mr_partitions_destroy(lanes);
}

static void exactly_once_leaves_the_terminal_records_to_intake(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    assert_true(mr_publish_destroy(rig.publish, 10000));
    struct mr_publish_options options = options_of(&rig);
    options.exactly_once = true;
    open_publish(&rig, &options);
    post_tokens(&rig, 0);
    post_result(&rig);
    struct mr_mail *mail = NULL;
    while (!(mail = mr_mailbox_take(rig.intake)))
        mr_wake_wait(&rig.wake, UINT64_MAX);
    assert_ptr_equal(mail, &rig.ticket->done);
    assert_int_equal(mail->kind, MR_MAIL_READY);
    assert_non_null(rig.ticket->publish.terminal);
    assert_int_equal(rig.ticket->publish.tokens_pending, 0);
    assert_int_equal(records_with(&rig, "tokens", "req"), 1);
    assert_int_equal(records_with(&rig, "results", ""), 0);
    close_rig(&rig);
}

static struct mr_progress_history look(struct rig *rig, struct mr_resume *resume,
                                       const struct mr_progress_origin *origin,
                                       const struct mr_request *request, struct mr_trail **trail)
{
    struct mr_found_mail *found = NULL;
    *trail = mr_resume_lookup(resume, origin, request, NULL, &found);
    assert_ptr_equal(mr_mailbox_take(rig->intake), &found->mail);
    struct mr_progress_history history = found->history;
    found->history.samples = NULL;
    mr_found_mail_free(found);
    return history;
}

static void post_drawn(struct rig *rig, uint32_t index)
{
    struct mr_sample sample = {.token_id = index};
    struct mr_mail_list list = {0};
    const struct mr_token_record record = {.id = {"req", 3},
                                           .attempt = 1,
                                           .index = index,
                                           .resumed_at = -1,
                                           .token_ids = &index,
                                           .token_count = 1,
                                           .text = {"x", 1}};
    mr_mail_list_add(&list, &mr_drawn_mail_create(rig->ticket, index, &sample)->mail);
    mr_mail_list_add(&list, &mr_tokens_mail_create(rig->ticket, &record, 1)->mail);
    assert_int_equal(mr_mailbox_post_list(mr_publish_mailbox(rig->publish), &list, NULL), MR_OK);
}

static void tokens_are_stored_in_redis_first_and_count_as_readable_when_acknowledged(void **state)
{
    (void)state;
    static struct list_redis redis;
    const struct mr_progress_origin origin = {.group = "g", .tenant = "t", .topic = "r"};
    const struct mr_request request = {.choice_count = 1};
    struct rig rig;
    struct mr_trail *again;
    struct mr_resume *resume = NULL;
    open_rig(&rig);
    assert_true(mr_publish_destroy(rig.publish, 10000));
    struct mr_resume_options keeping = {.call = list_redis_call,
                                        .context = &redis,
                                        .ttl_ns = 60000000000u,
                                        .bytes_max = 1 << 20,
                                        .intake = rig.intake,
                                        .metrics = rig.metrics};
    assert_int_equal(mr_resume_create(&resume, &keeping, NULL), MR_OK);
    struct mr_publish_options options = options_of(&rig);
    options.resume = resume;
    open_publish(&rig, &options);
    look(&rig, resume, &origin, &request, &rig.ticket->trail);
    mr_trail_start(rig.ticket->trail, &(struct mr_trail_start){.attempt = 1}, NULL, mr_clock_ns());
    post_drawn(&rig, 0);
    while (records_with(&rig, "tokens", "req") == 0)
        continue;
    mr_clock_sleep_ms(500); /* publish serves the broker's acknowledgement */
    post_drawn(&rig, 1);
    post_result(&rig);
    wait_done(&rig);
    struct mr_progress_history history = look(&rig, resume, &origin, &request, &again);
    assert_int_equal(history.count, 2);
    assert_int_equal(history.shown, 1);
    mr_progress_clear(&history);
    mr_trail_drop(again);
    mr_trail_drop(rig.ticket->trail);
    close_rig(&rig);
    mr_resume_destroy(resume);
}

static void options_that_librdkafka_does_not_know_are_refused(void **state)
{
    (void)state;
    struct rig rig;
    const struct mr_text_list properties = {{"no.such.property=1"}, 1};
    struct mr_publish *publish = NULL;
    struct mr_error err = {0};
    open_rig(&rig);
    struct mr_kafka_options kafka = rig.broker.kafka;
    struct mr_publish_options options = options_of(&rig);
    kafka.properties = &properties;
    options.producer = mr_kafka_out_opener(&kafka);
    assert_int_equal(mr_publish_create(&publish, &options, &err), MR_BAD_CONFIG);
    assert_null(publish);
    assert_non_null(strstr(err.detail, "no.such.property"));
    assert_true(mr_publish_destroy(NULL, 0));
    options = options_of(&rig);
    assert_int_equal(mr_publish_create(&publish, &options, &err), MR_OK);
    assert_true(mr_publish_destroy(publish, 0)); /* its thread was never started */
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_done_when_all_its_records_are_on_the_broker),
        cmocka_unit_test(a_refused_record_becomes_a_dead_letter_and_a_result),
        cmocka_unit_test(a_reply_goes_to_an_existing_topic_only),
        cmocka_unit_test(nothing_is_written_for_a_dropped_request),
        cmocka_unit_test(a_result_survives_a_broker_that_refuses_it_at_first),
        cmocka_unit_test(nothing_is_written_while_the_partition_may_be_revoked),
        cmocka_unit_test(exactly_once_leaves_the_terminal_records_to_intake),
        cmocka_unit_test(tokens_are_stored_in_redis_first_and_count_as_readable_when_acknowledged),
        cmocka_unit_test(options_that_librdkafka_does_not_know_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
