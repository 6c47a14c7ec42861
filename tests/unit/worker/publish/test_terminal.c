#include "worker/publish/terminal.h"

#include "tests/unit/worker/producing.h"

#include <stdio.h>

static const struct mr_output_options source = {"tokens", "results", "dlq", "w", "m", "g"};

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

static void a_refusal_has_what_it_asks_for(void **state)
{
    (void)state;
    struct mr_ticket ticket;
    struct mr_refusal_mail *mail = NULL;
    prepare(&ticket, &mail, false);
    assert_true(mr_terminal_wants(&ticket, MR_PART_DEAD_LETTER, NULL, NULL));
    assert_false(mr_terminal_wants(&ticket, MR_PART_RESULT, NULL, NULL));
    ticket.reply_topic = "replies"; /* without a result there is no reply */
    assert_false(mr_terminal_wants(&ticket, MR_PART_REPLY, NULL, NULL));
    mail->write_result = true;
    mail->dead_letter = false;
    ticket.reply_topic = NULL;
    assert_false(mr_terminal_wants(&ticket, MR_PART_DEAD_LETTER, NULL, NULL));
    assert_true(mr_terminal_wants(&ticket, MR_PART_RESULT, NULL, NULL));
    assert_false(mr_terminal_wants(&ticket, MR_PART_REPLY, NULL, NULL));
    expect_assert_failure(mr_terminal_wants(&ticket, MR_PART_TOKENS, NULL, NULL));
    mr_mail_free(&mail->mail);
}

static void a_reply_is_the_result_under_another_address(void **state)
{
    (void)state;
    struct mr_ticket ticket;
    struct mr_output output = {0};
    struct mr_refusal_mail *mail = NULL;
    prepare(&ticket, &mail, true);
    ticket.reply_topic = "replies";
    ticket.reply_partition = 3;
    assert_int_equal(mr_terminal_make(&output, &source, &ticket, MR_PART_REPLY, false, NULL),
                     MR_OK);
    assert_string_equal(output.record.topic, "replies");
    assert_int_equal(output.record.partition, 3);
    assert_int_equal(mr_terminal_make(&output, &source, &ticket, MR_PART_RESULT, false, NULL),
                     MR_OK);
    assert_string_equal(output.record.topic, "results");
    assert_int_equal(output.record.partition, -1);
    assert_int_equal(mr_terminal_make(&output, &source, &ticket, MR_PART_DEAD_LETTER, true, NULL),
                     MR_OK);
    assert_string_equal(output.record.topic, "dlq");
    assert_null(output.record.value.bytes);
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static void each_kind_is_counted_apart(void **state)
{
    (void)state;
    struct mr_terminal_stats stats = {0};
    struct mr_metrics *metrics = NULL;
    struct mr_metrics_info info = {"w", "m", "fp32", "cpu", 16, 64, 1};
    assert_int_equal(mr_metrics_create(&metrics, &info, NULL), MR_OK);
    mr_terminal_count(&stats, metrics, MR_PART_RESULT);
    mr_terminal_count(&stats, metrics, MR_PART_RESULT);
    mr_terminal_count(&stats, metrics, MR_PART_REPLY);
    mr_terminal_count(&stats, metrics, MR_PART_DEAD_LETTER);
    assert_int_equal(stats.results, 2);
    assert_int_equal(stats.replies, 1);
    assert_int_equal(stats.dead_letters, 1);
    mr_metrics_destroy(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_has_what_it_asks_for),
        cmocka_unit_test(a_reply_is_the_result_under_another_address),
        cmocka_unit_test(each_kind_is_counted_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
