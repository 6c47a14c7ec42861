#include "worker/intake/intake.h"

#include "tests/fakes/engine_rig.h"
#include "tests/unit/worker/producing.h"
#include "tests/unit/worker/serving.h"
#include "worker/base/clock.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket.h"

#include <stdio.h>

/* Intake with its thread over an embedded broker. The test acts as publish; an engine that is never
 * stepped keeps submitted requests. */
struct rig {
    struct serving serving;
    struct producing producing;
    struct engine_rig engine;
    struct mr_wake wake;
    struct mr_mailbox *publish;
    struct mr_metrics *metrics;
    struct mr_intake *intake;
    bool joins;
    atomic_int failures;
};

static void on_failed(void *context, const struct mr_error *err)
{
    (void)err;
    atomic_fetch_add(&((struct rig *)context)->failures, 1);
}

static void start(struct rig *rig)
{
    struct mr_error err = {0};
    struct mr_intake_options options = {.config = rig->serving.config,
                                        .kafka = &rig->serving.broker.kafka,
                                        .join_group = rig->joins,
                                        .log = rig->serving.log,
                                        .failed = on_failed,
                                        .context = rig};
    struct mr_intake_targets targets = {
        .engine = rig_port(&rig->engine),
        .prompt = {.tokenizer = rig->engine.tokenizer, .prompt_tokens_max = 64},
        .publish = rig->publish,
        .metrics = rig->metrics};
    assert_int_equal(mr_intake_create(&rig->intake, &options, NULL), MR_OK);
    if (mr_intake_start(rig->intake, &targets, &err) != MR_OK) fail_msg("%s", err.detail);
}

static const char *const plain[] = {"--model-name", "fake", "--commit-interval", "10ms", NULL};

static void open_rig_with(struct rig *rig, const char *const *more, uint32_t tenant_count)
{
    struct mr_metrics_info info = {"w",
                                   "fake",
                                   "fp32",
                                   "cpu",
                                   MR_BLOCK_TOKENS,
                                   2048,
                                   8,
                                   &(struct mr_request_topic){.name = "r", .tenant = "default"},
                                   1,
                                   "2.0.2"};
    *rig = (struct rig){.intake = NULL};
    struct mr_mailbox_options mailbox = {256, 1 << 20, &rig->wake};
    open_serving(&rig->serving, "none.gguf", more);
    add_topic(&rig->serving.broker, "millrace.requests", 1);
    add_topic(&rig->serving.broker, "millrace.cancel", 1);
    open_producing(&rig->producing, &rig->serving.broker);
    rig_init(&rig->engine);
    rig->engine.options.tenant_count = tenant_count;
    rig->engine.options.queue_count_max = 8;
    rig_start(&rig->engine);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->publish, &mailbox, NULL), MR_OK);
    assert_int_equal(mr_metrics_create(&rig->metrics, &info, NULL), MR_OK);
}

static void open_rig(struct rig *rig)
{
    open_rig_with(rig, plain, 1);
}

static void close_rig(struct rig *rig)
{
    assert_int_equal(atomic_load(&rig->failures), 0);
    assert_null(mr_mailbox_take(rig->publish));
    mr_metrics_destroy(rig->metrics);
    mr_mailbox_destroy(rig->publish);
    mr_wake_close(&rig->wake);
    mr_kafka_out_destroy(rig->producing.out);
    close_serving(&rig->serving);
}

/* The order in which a worker ends. */
static void end(struct rig *rig)
{
    mr_intake_drain(rig->intake, UINT64_MAX);
    mr_intake_forget_engine(rig->intake);
    rig_end(&rig->engine);
    assert_true(mr_intake_destroy(rig->intake, 10000));
}

static void request(struct rig *rig, const char *value)
{
    produce(&rig->producing, "millrace.requests", 0, "k", value);
}

static struct mr_refusal_mail *wait_refusal(struct rig *rig)
{
    struct mr_mail *mail = NULL;
    while (!(mail = mr_mailbox_take(rig->publish)))
        mr_wake_wait(&rig->wake, UINT64_MAX);
    assert_null(mail->next);
    assert_int_equal(mail->kind, MR_MAIL_REFUSAL);
    return (struct mr_refusal_mail *)mail;
}

/* As publish does when the answer is on the broker. */
static void acknowledge(struct rig *rig, struct mr_refusal_mail *mail)
{
    struct mr_ticket *ticket = mail->ticket;
    ticket->end = (struct mr_request_end){.finish = mail->finish, .error = mail->error.status};
    mr_mail_free(&mail->mail);
    ticket->done.kind = MR_MAIL_DONE;
    mr_mailbox_post_control(mr_intake_mailbox(rig->intake), &ticket->done);
}

static void what_was_answered_is_committed_and_not_taken_again(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    start(&rig);
    request(&rig, "{\"id\":\"a\",\"prompt\":7}");
    struct mr_refusal_mail *mail = wait_refusal(&rig);
    assert_true(mail->dead_letter);
    assert_string_equal(mail->ticket->id, "a");
    acknowledge(&rig, mail);
    mr_intake_drain(rig.intake, UINT64_MAX);
    assert_true(mr_intake_destroy(rig.intake, 10000));

    request(&rig, "{\"id\":\"b\",\"prompt\":\"\"}");
    start(&rig);
    mail = wait_refusal(&rig);
    assert_string_equal(mail->ticket->id, "b");
    assert_int_equal(mail->ticket->offset, 1);
    assert_int_equal(mail->error.status, MR_EMPTY_PROMPT);
    acknowledge(&rig, mail);
    end(&rig);
    close_rig(&rig);
}

static void what_was_not_answered_is_taken_again(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    for (int life = 0; life < 2; life++) {
        if (life > 0) {
            rig_init(&rig.engine);
            rig_start(&rig.engine);
        }
        start(&rig);
        if (life == 0) request(&rig, "{\"id\":\"a\",\"prompt\":\"hello\"}");
        while (mr_intake_stats(rig.intake).in_flight == 0)
            mr_wake_wait(&rig.wake, 10000000u);
        mr_intake_drain(rig.intake, UINT64_MAX);
        struct mr_intake_stats stats = mr_intake_stats(rig.intake);
        assert_int_equal(stats.records, 1);
        assert_int_equal(stats.refused, 0);
        assert_int_equal(stats.partitions, 1);
        assert_true(stats.assigned);
        end(&rig);
    }
    close_rig(&rig);
}

static void a_cancel_record_reaches_the_request(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    start(&rig);
    request(&rig, "{\"id\":\"a\",\"prompt\":\"hello\"}");
    while (mr_intake_stats(rig.intake).in_flight == 0)
        mr_wake_wait(&rig.wake, 10000000u);
    produce(&rig.producing, "millrace.cancel", 0, "a", "{}");
    while (mr_intake_stats(rig.intake).cancelled == 0)
        mr_wake_wait(&rig.wake, 10000000u);
    end(&rig);
    close_rig(&rig);
}

static void a_cancel_of_before_the_worker_s_start_counts(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    request(&rig, "{\"id\":\"a\",\"prompt\":\"hello\"}");
    produce(&rig.producing, "millrace.cancel", 0, "a", "{}");
    start(&rig);
    struct mr_refusal_mail *mail = wait_refusal(&rig);
    assert_int_equal(mail->error.status, MR_CANCELLED);
    acknowledge(&rig, mail);
    end(&rig);
    close_rig(&rig);
}

/* The engine removes nothing from the queue: 8 places, 4 for each tenant. */
static void a_backlog_stays_with_the_broker_and_the_membership_is_kept(void **state)
{
    (void)state;
    static const char *const more[] = {"--model-name",
                                       "fake",
                                       "--requests-topic",
                                       "millrace.requests,tenant=a",
                                       "--requests-topic",
                                       "other.requests,tenant=b",
                                       NULL};
    struct rig rig;
    open_rig_with(&rig, more, 2);
    rig.joins = true;
    rig.serving.broker.kafka.poll_interval_max_ns = 4000000000u;
    add_topic(&rig.serving.broker, "other.requests", 1);
    for (int i = 0; i < 300; i++) {
        char value[64];
        snprintf(value, sizeof value, "{\"id\":\"flood-%d\",\"prompt\":\"hello\"}", i);
        request(&rig, value);
    }
    start(&rig);
    while (mr_intake_stats(rig.intake).in_flight < 4)
        mr_wake_wait(&rig.wake, 10000000u);
    produce(&rig.producing, "other.requests", 0, "k", "{\"id\":\"b\",\"prompt\":\"hello\"}");
    while (mr_intake_stats(rig.intake).in_flight < 5)
        mr_wake_wait(&rig.wake, 10000000u);
    mr_clock_sleep_ms(5500); /* longer than a consumer may go without polling */
    struct mr_intake_stats stats = mr_intake_stats(rig.intake);
    assert_int_equal(stats.records, 5);
    assert_int_equal(stats.in_flight, 5);
    assert_int_equal(stats.backlog, 296);
    assert_int_equal(stats.rebalances, 1);
    assert_int_equal(stats.partitions, 2);
    end(&rig);
    close_rig(&rig);
}

static void a_template_that_does_not_compile_stops_the_start(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    struct mr_intake_options options = {.config = rig.serving.config,
                                        .kafka = &rig.serving.broker.kafka,
                                        .log = rig.serving.log,
                                        .failed = on_failed,
                                        .context = &rig};
    struct mr_intake_targets targets = {.engine = rig_port(&rig.engine),
                                        .prompt = {.tokenizer = rig.engine.tokenizer,
                                                   .chat_template = {"{% if %}", 8},
                                                   .prompt_tokens_max = 64},
                                        .publish = rig.publish,
                                        .metrics = rig.metrics};
    assert_int_equal(mr_intake_create(&rig.intake, &options, NULL), MR_OK);
    assert_int_equal(mr_intake_start(rig.intake, &targets, NULL), MR_BAD_FILE);
    mr_intake_drain(rig.intake, UINT64_MAX); /* returns: there is no thread to wait for */
    assert_true(mr_intake_destroy(rig.intake, 0));
    assert_true(mr_intake_destroy(NULL, 0));
    rig_end(&rig.engine);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_answered_is_committed_and_not_taken_again),
        cmocka_unit_test(what_was_not_answered_is_taken_again),
        cmocka_unit_test(a_cancel_record_reaches_the_request),
        cmocka_unit_test(a_cancel_of_before_the_worker_s_start_counts),
        cmocka_unit_test(a_backlog_stays_with_the_broker_and_the_membership_is_kept),
        cmocka_unit_test(a_template_that_does_not_compile_stops_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
