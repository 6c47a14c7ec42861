#include "worker/ticket/messages.h"

#include "worker/ticket/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The originals are in memory that is overwritten before the copies are compared. */
struct source {
    char text[16];
    uint32_t ids[2];
    struct mr_token_logprob top[2];
    struct mr_logprobs logprobs[2];
    struct mr_choice choices[2];
};

static void fill(struct source *source)
{
    *source = (struct source){.text = "some text", .ids = {7, 8}};
    source->top[0] = (struct mr_token_logprob){7, -0.5f, {source->text, 4}, {NULL, 0}};
    source->top[1] = (struct mr_token_logprob){9, -1.5f, {source->text + 5, 4}, {source->text, 2}};
    source->logprobs[0] = (struct mr_logprobs){source->top[0], source->top, 2};
    source->logprobs[1] = (struct mr_logprobs){.chosen = source->top[1]};
    for (size_t i = 0; i < 2; i++)
        source->choices[i] = (struct mr_choice){.text = {source->text, 4 + 5 * i},
                                                .stop_token = MR_TOKEN_NONE,
                                                .token_ids = source->ids,
                                                .token_count = 2,
                                                .logprobs = i == 0 ? source->logprobs : NULL};
}

static void assert_text(struct mr_text text, const char *want)
{
    assert_int_equal(text.length, strlen(want));
    assert_memory_equal(text.bytes, want, text.length);
}

static void a_token_message_is_a_deep_copy(void **state)
{
    (void)state;
    struct source source;
    struct mr_ticket ticket = {.attempt = 2};
    fill(&source);
    const struct mr_token_record record = {.id = {source.text, 4},
                                           .index = 5,
                                           .resumed_at = -1,
                                           .token_ids = source.ids,
                                           .token_count = 2,
                                           .text = {source.text, 9},
                                           .logprobs = source.logprobs};
    struct mr_tokens_mail *mail = mr_tokens_mail_create(&ticket, &record, 123);
    assert_non_null(mail);
    memset(&source, 0xaa, sizeof source);
    assert_int_equal(mail->mail.kind, MR_MAIL_TOKENS);
    assert_true(mail->mail.bytes >= sizeof *mail + 9 + 8);
    assert_ptr_equal(mail->ticket, &ticket);
    assert_int_equal(mail->made_ns, 123);
    assert_int_equal(mail->record.index, 5);
    assert_text(mail->record.id, "some");
    assert_text(mail->record.text, "some text");
    assert_int_equal(mail->record.token_ids[1], 8);
    assert_int_equal(mail->record.logprobs[0].top_count, 2);
    assert_text(mail->record.logprobs[0].top[1].text, "text");
    assert_int_equal(mail->record.logprobs[0].top[1].token_id, 9);
    assert_text(mail->record.logprobs[0].top[1].bytes, "so");
    assert_text(mail->record.logprobs[1].chosen.text, "text");
    assert_text(mail->record.logprobs[1].chosen.bytes, "so");
    assert_null(mail->record.logprobs[0].chosen.bytes.bytes);
    mr_mail_free(&mail->mail);
}

static void a_result_message_is_a_deep_copy_and_owns_the_request(void **state)
{
    (void)state;
    struct source source;
    struct mr_ticket ticket = {.attempt = 1};
    fill(&source);
    struct mr_arena *arena = mr_arena_create(4096);
    struct mr_request *request = mr_arena_take(arena, sizeof *request);
    *request = (struct mr_request){.arena = arena};
    char message[] = "it broke";
    const struct mr_result result = {.id = {source.text, 4},
                                     .choices = source.choices,
                                     .choice_count = 2,
                                     .error = MR_INTERNAL,
                                     .error_message = message};
    struct mr_result_mail *mail = mr_result_mail_create(&ticket, request, &result, 9);
    assert_non_null(mail);
    memset(&source, 0xaa, sizeof source);
    memset(message, '?', sizeof message);
    assert_int_equal(mail->mail.kind, MR_MAIL_RESULT);
    assert_ptr_equal(mail->request, request);
    assert_string_equal(mail->result.error_message, "it broke");
    assert_text(mail->result.choices[0].text, "some");
    assert_text(mail->result.choices[1].text, "some text");
    assert_null(mail->result.choices[1].stop_text.bytes);
    assert_int_equal(mail->result.choices[1].token_ids[0], 7);
    assert_text(mail->result.choices[0].logprobs[0].top[0].text, "some");
    assert_null(mail->result.choices[1].logprobs);
    mr_mail_free(&mail->mail); /* and the request; the leak checker verifies it */
}

static void a_refusal_copies_the_record_it_dead_letters(void **state)
{
    (void)state;
    char name[] = "h", value[] = "v\0w", payload[] = "payload", key[] = "key";
    struct mr_kafka_header headers[] = {{name, value, 3}, {"null", NULL, 0}};
    const struct mr_kafka_record record = {.topic = "t",
                                           .offset = 12,
                                           .key = {key, 3},
                                           .value = {payload, 7},
                                           .headers = headers,
                                           .header_count = 2};
    struct mr_ticket ticket = {.attempt = 1};
    struct mr_refusal_mail *mail =
        mr_refusal_mail_create(&ticket, &record, (struct mr_text){payload, 3});
    assert_non_null(mail);
    memset(name, '?', 1), memset(value, '?', 3), memset(payload, '?', 7), memset(key, '?', 3);
    memset(headers, 0xaa, sizeof headers);
    assert_true(mail->dead_letter);
    assert_text(mail->metadata, "pay");
    assert_text(mail->record.key, "key");
    assert_text(mail->record.value, "payload");
    assert_int_equal(mail->record.offset, 12);
    assert_null(mail->record.topic); /* the ticket has it */
    assert_string_equal(mail->record.headers[0].name, "h");
    assert_memory_equal(mail->record.headers[0].value, "v\0w", 3);
    assert_null(mail->record.headers[1].value);
    mr_mail_free(&mail->mail);
}

static void a_null_value_stays_null_and_a_plain_refusal_has_no_record(void **state)
{
    (void)state;
    struct mr_ticket ticket = {.attempt = 1};
    const struct mr_kafka_record tombstone = {.topic = "t"};
    struct mr_refusal_mail *dead = mr_refusal_mail_create(&ticket, &tombstone, (struct mr_text){0});
    assert_true(dead->dead_letter);
    assert_null(dead->record.value.bytes);
    mr_mail_free(&dead->mail);
    struct mr_refusal_mail *plain = mr_refusal_mail_create(&ticket, NULL, (struct mr_text){0});
    assert_false(plain->dead_letter);
    assert_null(plain->metadata.bytes);
    mr_mail_free(&plain->mail);
    mr_mail_free(NULL);
}

static void only_messages_to_publish_are_freed(void **state)
{
    (void)state;
    struct mr_ticket ticket = {.done = {.kind = MR_MAIL_DONE}};
    expect_assert_failure(mr_mail_free(&ticket.done));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_message_is_a_deep_copy),
        cmocka_unit_test(a_result_message_is_a_deep_copy_and_owns_the_request),
        cmocka_unit_test(a_refusal_copies_the_record_it_dead_letters),
        cmocka_unit_test(a_null_value_stays_null_and_a_plain_refusal_has_no_record),
        cmocka_unit_test(only_messages_to_publish_are_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
