#include "worker/publish/terminal.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/output_options.h"
#include "tests/unit/worker/producing.h"

#include <stdio.h>

static void prepare(struct mr_ticket *ticket, struct mr_refusal_mail **mail, bool write_result)
{
    static const struct mr_kafka_record record = {.topic = "r", .value = {"bad", 3}};
    *ticket = (struct mr_ticket){.topic = "r", .encoding = MR_ENCODING_JSON, .offset = 4};
    snprintf(ticket->id, sizeof ticket->id, "req");
    *mail = mr_refusal_mail_create(ticket, &record, (struct mr_text){0});
    (*mail)->write_result = write_result;
    (*mail)->finish = MR_FINISH_REJECTED;
    mr_fail(&(*mail)->error, MR_MALFORMED, "no request");
    ticket->publish.terminal = &(*mail)->mail;
}

static void a_refusal_has_the_records_that_it_asks_for(void **state)
{
    (void)state;
    struct mr_ticket ticket;
    struct mr_refusal_mail *mail = NULL;
    prepare(&ticket, &mail, false);
    assert_true(mr_terminal_wants(&ticket, MR_PART_DEAD_LETTER));
    assert_false(mr_terminal_wants(&ticket, MR_PART_RESULT));
    ticket.reply_topic = "replies"; /* without a result there is no reply */
    assert_false(mr_terminal_wants(&ticket, MR_PART_REPLY));
    mail->write_result = true;
    mail->dead_letter = false;
    ticket.reply_topic = NULL;
    assert_false(mr_terminal_wants(&ticket, MR_PART_DEAD_LETTER));
    assert_true(mr_terminal_wants(&ticket, MR_PART_RESULT));
    assert_false(mr_terminal_wants(&ticket, MR_PART_REPLY));
    expect_assert_failure(mr_terminal_wants(&ticket, MR_PART_TOKENS));
    mr_mail_free(&mail->mail);
}

static enum mr_status make(struct mr_output *output, struct mr_ticket *ticket, enum mr_part kind,
                           bool shrunk)
{
    const struct mr_ticket_part part = {.ticket = ticket, .kind = kind, .shrunk = shrunk};
    return mr_terminal_make(output, &test_output, &part, NULL);
}

static void a_reply_is_the_result_sent_to_another_topic(void **state)
{
    (void)state;
    struct mr_ticket ticket;
    struct mr_output output = {0};
    struct mr_refusal_mail *mail = NULL;
    prepare(&ticket, &mail, true);
    ticket.reply_topic = "replies";
    ticket.reply_partition = 3;
    assert_int_equal(make(&output, &ticket, MR_PART_REPLY, false), MR_OK);
    assert_string_equal(output.record.topic, "replies");
    assert_int_equal(output.record.partition, 3);
    assert_int_equal(make(&output, &ticket, MR_PART_RESULT, false), MR_OK);
    assert_string_equal(output.record.topic, "results");
    assert_int_equal(output.record.partition, -1);
    assert_int_equal(make(&output, &ticket, MR_PART_DEAD_LETTER, true), MR_OK);
    assert_string_equal(output.record.topic, "dlq");
    assert_null(output.record.value.bytes);
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

/* The outcome of a topic lookup. */
struct outcome {
    enum mr_status status;
    uint32_t count;
};

static enum mr_status fake_partitions(void *self, const char *topic, uint32_t *count,
                                      struct mr_error *err)
{
    const struct outcome *outcome = self;
    (void)err;
    assert_string_equal(topic, "replies");
    *count = outcome->count;
    return outcome->status;
}

static void a_reply_needs_an_existing_topic_and_partition(void **state)
{
    (void)state;
    struct mr_ticket ticket;
    struct mr_refusal_mail *mail = NULL;
    struct outcome outcome = {.status = MR_AGAIN};
    struct mr_log *log = NULL;
    struct mr_metrics *metrics = NULL;
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    struct mr_log_options logging = {.fd = 2, .format = MR_LOG_TEXT, .worker = "w"};
    assert_int_equal(mr_metrics_create(&metrics, &info, NULL), MR_OK);
    assert_int_equal(mr_log_create(&log, &logging, NULL), MR_OK);
    struct mr_producer_port port = {.self = &outcome, .partitions = fake_partitions};
    prepare(&ticket, &mail, true);
    ticket.reply_topic = "replies";
    struct mr_ticket_part part = {.ticket = &ticket, .kind = MR_PART_REPLY, .pending = true};
    mr_terminal_check_reply_topic(&part, &port, log, metrics, 1);
    assert_true(part.pending && !part.topic_exists); /* the broker has not replied yet */
    outcome = (struct outcome){MR_OK, 3};
    mr_terminal_check_reply_topic(&part, &port, log, metrics, 1);
    assert_true(part.pending && part.topic_exists);
    /* while no broker answers the reply waits, but not for ever */
    outcome = (struct outcome){MR_UNREACHABLE, 0};
    part = (struct mr_ticket_part){.ticket = &ticket, .kind = MR_PART_REPLY, .pending = true};
    const uint64_t times[] = {1, MR_TERMINAL_REPLY_NS, MR_TERMINAL_REPLY_NS + 1};
    for (int i = 0; i < 3; i++) {
        mr_terminal_check_reply_topic(&part, &port, log, metrics, times[i]);
        assert_int_equal(part.pending, i < 2);
        assert_int_equal(part.lost, i == 2);
    }
    const struct outcome without[] = {{MR_OK, 0}, {MR_OK, 3}, {MR_BACKEND, 0}};
    ticket.reply_partition = 3;
    for (int i = 0; i < 3; i++) {
        outcome = without[i];
        part = (struct mr_ticket_part){.ticket = &ticket, .kind = MR_PART_REPLY, .pending = true};
        mr_terminal_check_reply_topic(&part, &port, log, metrics, 1);
        assert_false(part.pending || part.topic_exists);
    }
    assert_counter(metrics, "lost_replies", 4);
    mr_metrics_destroy(metrics);
    mr_log_destroy(log);
    mr_mail_free(&mail->mail);
}

static void what_is_refused_for_good_is_changed_then_lost_but_a_result_fails(void **state)
{
    (void)state;
    struct mr_ticket ticket;
    struct mr_refusal_mail *mail = NULL;
    prepare(&ticket, &mail, true);
    struct mr_ticket_part result = {.ticket = &ticket, .kind = MR_PART_RESULT},
                          reply = {.ticket = &ticket, .kind = MR_PART_REPLY},
                          letter = {.ticket = &ticket, .kind = MR_PART_DEAD_LETTER};
    assert_int_equal(mr_terminal_refused(&letter, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_CHANGED);
    assert_int_equal(mr_terminal_refused(&letter, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_LOST);
    assert_int_equal(mr_terminal_refused(&letter, MR_MALFORMED, 1), MR_TERMINAL_CHANGED);
    assert_true(letter.keyed);
    assert_int_equal(mr_terminal_refused(&letter, MR_MALFORMED, 1), MR_TERMINAL_LOST);
    assert_int_equal(mr_terminal_refused(&letter, MR_BACKEND, 1), MR_TERMINAL_FAILED);
    assert_int_equal(mr_terminal_refused(&reply, MR_BAD_CONFIG, 1), MR_TERMINAL_LOST);
    assert_int_equal(mr_terminal_refused(&result, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_CHANGED);
    assert_int_equal(mr_terminal_refused(&result, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_FAILED);
    assert_int_equal(mr_terminal_refused(&result, MR_MALFORMED, 1), MR_TERMINAL_FAILED);
    mr_mail_free(&mail->mail);
}

static void a_result_that_is_too_large_loses_its_log_probabilities_first(void **state)
{
    (void)state;
    const struct mr_logprobs logprobs = {0};
    struct mr_ticket ticket = {.topic = "r", .encoding = MR_ENCODING_JSON};
    struct mr_choice choice = {.stop_token = MR_TOKEN_NONE};
    struct mr_result_mail mail = {
        .mail.kind = MR_MAIL_RESULT,
        .result = {.choices = &choice, .choice_count = 1, .prompt_logprobs = &logprobs}};
    struct mr_ticket_part result = {.ticket = &ticket, .kind = MR_PART_RESULT};
    ticket.publish.terminal = &mail.mail;
    assert_int_equal(mr_terminal_refused(&result, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_CHANGED);
    assert_true(result.bare && !result.shrunk);
    assert_int_equal(ticket.end.error, MR_OK);
    assert_int_equal(mr_terminal_refused(&result, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_CHANGED);
    assert_true(result.shrunk);
    assert_int_equal(ticket.end.error, MR_RECORD_TOO_LARGE);
    assert_int_equal(mr_terminal_refused(&result, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_FAILED);
    mail.result.prompt_logprobs = NULL;
    result = (struct mr_ticket_part){.ticket = &ticket, .kind = MR_PART_RESULT};
    assert_int_equal(mr_terminal_refused(&result, MR_RECORD_TOO_LARGE, 1), MR_TERMINAL_CHANGED);
    assert_true(result.shrunk);
}

static void passing_errors_are_retried_but_not_for_ever_while_the_broker_answers(void **state)
{
    (void)state;
    struct mr_ticket ticket;
    struct mr_refusal_mail *mail = NULL;
    const uint64_t first_ns = 1000, late_ns = first_ns + MR_TERMINAL_REFUSED_NS;
    const enum mr_status silent[] = {MR_TIMEOUT, MR_UNREACHABLE, MR_CLOSED, MR_FULL};
    prepare(&ticket, &mail, true);
    struct mr_ticket_part result = {.ticket = &ticket, .kind = MR_PART_RESULT};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        assert_int_equal(mr_terminal_refused(&result, silent[i], first_ns), MR_TERMINAL_RETRY);
        assert_int_equal(mr_terminal_refused(&result, silent[i], late_ns), MR_TERMINAL_RETRY);
    }
    assert_int_equal(mr_terminal_refused(&result, MR_AGAIN, first_ns), MR_TERMINAL_RETRY);
    assert_int_equal(mr_terminal_refused(&result, MR_TIMEOUT, late_ns), MR_TERMINAL_RETRY);
    assert_int_equal(mr_terminal_refused(&result, MR_AGAIN, late_ns), MR_TERMINAL_RETRY);
    assert_int_equal(mr_terminal_refused(&result, MR_AGAIN, late_ns + MR_TERMINAL_REFUSED_NS - 1),
                     MR_TERMINAL_RETRY);
    assert_int_equal(mr_terminal_refused(&result, MR_AGAIN, late_ns + MR_TERMINAL_REFUSED_NS),
                     MR_TERMINAL_FAILED);
    mr_mail_free(&mail->mail);
}

static void each_kind_of_record_is_counted_by_itself(void **state)
{
    (void)state;
    struct mr_terminal_stats stats = {0};
    struct mr_metrics *metrics = NULL;
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    assert_int_equal(mr_metrics_create(&metrics, &info, NULL), MR_OK);
    mr_terminal_acknowledged(&stats, metrics, MR_PART_RESULT);
    mr_terminal_acknowledged(&stats, metrics, MR_PART_RESULT);
    mr_terminal_acknowledged(&stats, metrics, MR_PART_REPLY);
    mr_terminal_acknowledged(&stats, metrics, MR_PART_DEAD_LETTER);
    assert_int_equal(stats.results, 2);
    assert_int_equal(stats.replies, 1);
    assert_int_equal(stats.dead_letters, 1);
    assert_counter(metrics, "result_records", 2);
    assert_counter(metrics, "dead_letters", 1);
    struct mr_ticket_part part = {.kind = MR_PART_DEAD_LETTER, .pending = true};
    mr_terminal_drop(&part, metrics);
    assert_counter(metrics, "lost_dead_letters", 1);
    mr_metrics_destroy(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_has_the_records_that_it_asks_for),
        cmocka_unit_test(a_reply_is_the_result_sent_to_another_topic),
        cmocka_unit_test(a_reply_needs_an_existing_topic_and_partition),
        cmocka_unit_test(what_is_refused_for_good_is_changed_then_lost_but_a_result_fails),
        cmocka_unit_test(a_result_that_is_too_large_loses_its_log_probabilities_first),
        cmocka_unit_test(passing_errors_are_retried_but_not_for_ever_while_the_broker_answers),
        cmocka_unit_test(each_kind_of_record_is_counted_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
