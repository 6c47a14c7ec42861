#include "worker/publish/deltas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/publish/output.h"
#include "worker/ticket/ticket.h"

static const struct mr_message_rules hermes = {.is_split = true,
                                               .format = MR_TOOLS_HERMES,
                                               .calls_max = MR_TOOL_CALLS_MAX,
                                               .has_reasoning = true};

static struct mr_ticket *make_ticket(void)
{
    static const struct mr_ticket_answer answer;
    struct mr_kafka_record record = {.topic = "p.requests"};
    struct mr_ticket *ticket;
    assert_int_equal(mr_ticket_create(&ticket, &record, &answer, NULL), MR_OK);
    return ticket;
}

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

static struct mr_tokens_mail *make_mail(struct mr_ticket *ticket, const char *before,
                                        const char *text, bool ended)
{
    struct mr_token_record record = {
        .id = text_of("id"), .resumed_at = before ? 3 : -1, .text = text_of(text), .ended = ended};
    if (before) record.before = text_of(before);
    struct mr_tokens_mail *mail = mr_tokens_mail_create(ticket, &record, 0);
    assert_non_null(mail);
    mail->rules = hermes;
    return mail;
}

static void a_record_has_what_its_text_decides(void **state)
{
    (void)state;
    struct mr_ticket *ticket = make_ticket();
    static const struct {
        const char *text;
        bool ended;
        const char *content, *reasoning;
        size_t calls;
    } parts[] = {
        {"<think>why", false, "", "why", 0},
        {"</think>So ", false, "So ", "", 0},
        {"<tool_call>{\"name\": \"f\", ", false, "", "", 0},
        {"\"arguments\": {}}</tool_call>", false, "", "", 1},
        {" <tool", false, "", "", 0},
        {"", true, " <tool", "", 0},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct mr_error err;
        struct mr_tokens_mail *mail = make_mail(ticket, NULL, parts[i].text, parts[i].ended);
        for (int again = 0; again < 2; again++) { /* the producer's queue may be full */
            assert_int_equal(mr_deltas_fill(mail, &err), MR_OK);
            assert_true(mr_text_is(mail->record.message.content, parts[i].content));
            assert_true(mr_text_is(mail->record.message.reasoning, parts[i].reasoning));
            assert_int_equal(mail->record.message.call_count, parts[i].calls);
        }
        assert_false(mr_deltas_is_void(&mail->record));
        mr_mail_free(&mail->mail);
    }
    mr_ticket_destroy(ticket);
}

static void values_have_the_types_of_the_ticket(void **state)
{
    (void)state;
    static const char text[] = "<function=f><parameter=n>1</parameter></function>";
    struct mr_error err;
    struct mr_ticket *ticket = make_ticket();
    const struct mr_tool_parameter n = {text_of("f"), text_of("n"), MR_TOOL_INTEGER};
    assert_int_equal(mr_tool_types_create(&ticket->tool_types, &n, 1, &err), MR_OK);
    struct mr_tokens_mail *mail = make_mail(ticket, NULL, text, false);
    mail->rules.format = MR_TOOLS_QWEN_CODER;
    assert_int_equal(mr_deltas_fill(mail, &err), MR_OK);
    assert_int_equal(mail->record.message.call_count, 1);
    assert_true(mr_text_is(mail->record.message.calls[0].arguments, "{\"n\":1}"));
    mr_mail_free(&mail->mail);
    mr_ticket_destroy(ticket);
}

static void a_resumed_answer_repeats_nothing(void **state)
{
    (void)state;
    struct mr_error err;
    struct mr_ticket *ticket = make_ticket();
    struct mr_tokens_mail *mail = make_mail(
        ticket, "Hm.<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>Then <tool_c",
        "all>{\"name\": \"g\", \"arguments\": {}}</tool_call>", false);
    assert_int_equal(mr_deltas_fill(mail, &err), MR_OK);
    assert_int_equal(mail->record.message.content.length, 0);
    assert_int_equal(mail->record.message.call_count, 1);
    assert_int_equal(mail->record.message.calls[0].index, 1);
    assert_true(mr_text_is(mail->record.message.calls[0].name, "g"));
    mr_mail_free(&mail->mail);
    mr_ticket_destroy(ticket);
}

static void a_record_without_anything_is_void(void **state)
{
    (void)state;
    struct mr_error err;
    struct mr_ticket *ticket = make_ticket();
    struct mr_tokens_mail *mail = make_mail(ticket, NULL, "", true);
    assert_int_equal(mr_deltas_fill(mail, &err), MR_OK);
    assert_true(mr_deltas_is_void(&mail->record));
    mr_mail_free(&mail->mail);
    mail = make_mail(ticket, "", "", true); /* tells where the attempt resumed */
    assert_int_equal(mr_deltas_fill(mail, &err), MR_OK);
    assert_false(mr_deltas_is_void(&mail->record));
    mr_mail_free(&mail->mail);
    mr_ticket_destroy(ticket);
}

static void a_call_in_a_record_has_the_form_of_openai(void **state)
{
    (void)state;
    static const struct mr_output_options options = {.tokens_topic = "t", .worker = "w"};
    struct mr_error err;
    struct mr_output output = {0};
    struct mr_ticket *ticket = make_ticket();
    ticket->encoding = MR_ENCODING_JSON;
    struct mr_tokens_mail *mail = make_mail(
        ticket, NULL, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>", false);
    assert_int_equal(mr_deltas_fill(mail, &err), MR_OK);
    assert_int_equal(mr_output_tokens(&output, &options, mail, &err), MR_OK);
    char json[1024] = "";
    assert_true(output.record.value.length < sizeof json);
    memcpy(json, output.record.value.bytes, output.record.value.length);
    assert_non_null(strstr(json, "\"tool_calls\":[{\"index\":0,\"id\":\""));
    assert_non_null(strstr(json, "\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                                 "\"arguments\":\"{\\\"a\\\": 1}\"}}]"));
    assert_null(strstr(json, "\"content\""));
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
    mr_ticket_destroy(ticket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_what_its_text_decides),
        cmocka_unit_test(values_have_the_types_of_the_ticket),
        cmocka_unit_test(a_resumed_answer_repeats_nothing),
        cmocka_unit_test(a_record_without_anything_is_void),
        cmocka_unit_test(a_call_in_a_record_has_the_form_of_openai),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
