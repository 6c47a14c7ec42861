#include "worker/publish/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/records/reply.h"

#include <stdlib.h>
#include <string.h>

static const struct mr_output_options source = {.tokens_topic = "p.tokens",
                                                .results_topic = "p.results",
                                                .dlq_topic = "p.dlq",
                                                .worker = "w",
                                                .model = "m",
                                                .group = "g"};

static const struct mr_ticket_part whole = {.kind = MR_PART_DEAD_LETTER},
                                   shrunk = {.kind = MR_PART_DEAD_LETTER, .shrunk = true},
                                   bare = {.kind = MR_PART_RESULT, .bare = true};

static struct mr_ticket ticket_of(enum mr_encoding encoding)
{
    struct mr_ticket ticket = {.id = "id-1",
                               .topic = "p.requests",
                               .partition = 3,
                               .offset = 42,
                               .attempt = 2,
                               .generation = 31,
                               .encoding = encoding};
    ticket.echo[0] = (struct mr_kafka_header){"kafka_correlationId", "\0\1", 2};
    ticket.echo_count = 1;
    return ticket;
}

static void expect_header(const struct mr_output *output, const char *name, const char *value)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(&output->record, name);
    if (!header) fail_msg("no header %s", name);
    assert_int_equal(header->length, strlen(value));
    assert_memory_equal(header->value, value, header->length);
}

static void a_token_record_names_its_attempt_and_index(void **state)
{
    (void)state;
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_MSGPACK);
    uint32_t ids[] = {9, 10};
    struct mr_token_record record = {.id = {"id-1", 4},
                                     .index = 7,
                                     .resumed_at = -1,
                                     .token_ids = ids,
                                     .token_count = 2,
                                     .text = {"ab", 2}};
    ticket.tenant = "red";
    struct mr_tokens_mail *mail = mr_tokens_mail_create(&ticket, &record, 0);
    assert_int_equal(mr_output_tokens(&output, &source, mail, NULL), MR_OK);
    expect_header(&output, "millrace-tenant", "red");
    assert_string_equal(output.record.topic, "p.tokens");
    assert_int_equal(output.record.partition, -1);
    assert_memory_equal(output.record.key.bytes, "id-1", 4);
    expect_header(&output, "content-type", "application/msgpack");
    expect_header(&output, "millrace-id", "id-1");
    expect_header(&output, "millrace-attempt", "2");
    expect_header(&output, "millrace-generation", "31");
    expect_header(&output, "millrace-index", "7");
    expect_header(&output, "millrace-worker", "w");
    assert_memory_equal(mr_kafka_record_header(&output.record, "kafka_correlationId")->value,
                        "\0\1", 2);

    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_token_record read;
    assert_int_equal(
        mr_token_record_decode(&read, output.record.value, MR_ENCODING_MSGPACK, arena, NULL),
        MR_OK);
    assert_int_equal(read.attempt, 2);
    assert_int_equal(read.index, 7);
    assert_int_equal(read.token_ids[1], 10);
    mr_arena_destroy(arena);
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static void read_result(const struct mr_output *output, struct mr_arena *arena,
                        struct mr_result *result)
{
    assert_int_equal(mr_result_decode(result, output->record.value, MR_ENCODING_JSON, arena, NULL),
                     MR_OK);
}

static void without_a_group_there_is_no_generation(void **state)
{
    (void)state;
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_JSON);
    ticket.generation = -1;
    struct mr_token_record record = {.id = {"id-1", 4}, .resumed_at = -1};
    struct mr_tokens_mail *mail = mr_tokens_mail_create(&ticket, &record, 0);
    assert_int_equal(mr_output_tokens(&output, &source, mail, NULL), MR_OK);
    assert_null(mr_kafka_record_header(&output.record, "millrace-generation"));
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static void a_result_says_where_its_request_was(void **state)
{
    (void)state;
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_JSON);
    struct mr_choice choice = {
        .finish = MR_FINISH_LENGTH, .stop_token = MR_TOKEN_NONE, .text = {"text", 4}};
    struct mr_result result = {.choices = &choice, .choice_count = 1, .prompt_tokens = 5};
    struct mr_result_mail *mail = mr_result_mail_create(&ticket, NULL, &result, 0);
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_result read;
    assert_int_equal(mr_output_result(&output, &source, &mail->mail, &whole, NULL), MR_OK);
    assert_string_equal(output.record.topic, "p.results");
    expect_header(&output, "content-type", "application/json");
    expect_header(&output, "millrace-finish-reason", "length");
    expect_header(&output, "millrace-source", "p.requests/3/42");
    expect_header(&output, "millrace-group", source.group);
    read_result(&output, arena, &read);
    assert_memory_equal(read.id.bytes, "id-1", 4);
    assert_memory_equal(read.model.bytes, "m", 1);
    assert_memory_equal(read.source_topic.bytes, "p.requests", 10);
    assert_int_equal(read.source_partition, 3);
    assert_int_equal(read.source_offset, 42);
    assert_int_equal(read.attempt, 2);
    assert_memory_equal(read.choices[0].text.bytes, "text", 4);

    assert_int_equal(mr_output_result(&output, &source, &mail->mail, &shrunk, NULL), MR_OK);
    read_result(&output, arena, &read);
    assert_int_equal(read.choices[0].text.length, 0);
    assert_int_equal(read.error, MR_RECORD_TOO_LARGE);
    assert_int_equal(read.choices[0].finish, MR_FINISH_LENGTH);
    mr_arena_destroy(arena);
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static void log_probabilities_are_left_out_before_the_text(void **state)
{
    (void)state;
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_JSON);
    const struct mr_logprobs logprobs[2] = {{.chosen = {5, -1.0f, {"x", 1}, {NULL, 0}}},
                                            {.chosen = {6, -2.0f, {"y", 1}, {NULL, 0}}}};
    const uint32_t ids[] = {6};
    struct mr_choice choice = {.finish = MR_FINISH_LENGTH,
                               .stop_token = MR_TOKEN_NONE,
                               .text = {"text", 4},
                               .token_ids = ids,
                               .token_count = 1,
                               .logprobs = logprobs};
    struct mr_result result = {.choices = &choice,
                               .choice_count = 1,
                               .prompt_logprobs = logprobs,
                               .prompt_logprob_count = 2};
    struct mr_request *request = mr_request_create(MR_ENCODING_JSON, 1);
    assert_true(mr_request_add_warning(request, (struct mr_text){"first", 5}));
    struct mr_result_mail *mail = mr_result_mail_create(&ticket, request, &result, 0);
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_result read;
    assert_int_equal(mr_output_result(&output, &source, &mail->mail, &whole, NULL), MR_OK);
    read_result(&output, arena, &read);
    assert_non_null(read.prompt_logprobs);
    assert_non_null(read.choices[0].logprobs);
    assert_int_equal(mr_output_result(&output, &source, &mail->mail, &bare, NULL), MR_OK);
    read_result(&output, arena, &read);
    assert_null(read.prompt_logprobs);
    assert_null(read.choices[0].logprobs);
    assert_true(mr_text_is(read.choices[0].text, "text"));
    assert_int_equal(read.error, MR_OK);
    static const char warnings[] = "\"warnings\":[\"logprobs, prompt_logprobs: left out, ";
    struct mr_text value = output.record.value;
    assert_non_null(memmem(value.bytes, value.length, warnings, sizeof warnings - 1));
    assert_non_null(memmem(value.bytes, value.length, ",\"first\"]", 9));
    mr_arena_destroy(arena);
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static struct mr_refusal_mail *refusal(struct mr_ticket *ticket, struct mr_kafka_header *headers,
                                       size_t header_count)
{
    struct mr_kafka_record record = {.key = {"key", 3},
                                     .value = {"{bad", 4},
                                     .timestamp_ms = 258,
                                     .headers = headers,
                                     .header_count = header_count};
    struct mr_refusal_mail *mail = mr_refusal_mail_create(ticket, &record, (struct mr_text){0});
    mail->finish = MR_FINISH_REJECTED;
    mr_fail(&mail->error, MR_MALFORMED, "it is no JSON");
    return mail;
}

static void a_refusal_is_answered_with_its_code(void **state)
{
    (void)state;
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_JSON);
    struct mr_refusal_mail *mail = refusal(&ticket, NULL, 0);
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_result read;
    assert_int_equal(mr_output_result(&output, &source, &mail->mail, &whole, NULL), MR_OK);
    expect_header(&output, "millrace-finish-reason", "rejected");
    read_result(&output, arena, &read);
    assert_int_equal(read.error, MR_MALFORMED);
    assert_string_equal(read.error_message, "it is no JSON");
    assert_false(read.error_retryable);
    mail->error.status = MR_DEADLINE_EXCEEDED; /* with a new deadline it may be answered */
    assert_int_equal(mr_output_result(&output, &source, &mail->mail, &whole, NULL), MR_OK);
    read_result(&output, arena, &read);
    assert_true(read.error_retryable);
    mr_arena_destroy(arena);
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static void a_dead_letter_is_the_record_with_both_families_of_headers(void **state)
{
    (void)state;
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_JSON);
    struct mr_kafka_header own = {"their-own", "x", 1};
    struct mr_refusal_mail *mail = refusal(&ticket, &own, 1);
    mr_output_dead_letter(&output, &source, mail, &whole);
    assert_string_equal(output.record.topic, "p.dlq");
    assert_memory_equal(output.record.key.bytes, "key", 3);
    assert_int_equal(output.record.value.length, 4);
    expect_header(&output, "their-own", "x");
    expect_header(&output, "__connect.errors.topic", "p.requests");
    expect_header(&output, "__connect.errors.partition", "3");
    expect_header(&output, "__connect.errors.offset", "42");
    expect_header(&output, "__connect.errors.exception.class.name", "malformed");
    expect_header(&output, "__connect.errors.exception.message", "it is no JSON");
    expect_header(&output, "__connect.errors.exception.stacktrace",
                  "malformed: it is no JSON at p.requests/3 offset 42");
    expect_header(&output, "kafka_dlt-exception-stacktrace",
                  "malformed: it is no JSON at p.requests/3 offset 42");
    expect_header(&output, "__connect.errors.stage", "VALUE_CONVERTER");
    expect_header(&output, "__connect.errors.connector.name", "millrace");
    expect_header(&output, "kafka_dlt-exception-fqcn", "malformed");
    expect_header(&output, "kafka_dlt-exception-message", "it is no JSON");
    expect_header(&output, "kafka_dlt-original-timestamp-type", "CreateTime");
    const struct mr_kafka_header *partition =
        mr_kafka_record_header(&output.record, "kafka_dlt-original-partition");
    assert_int_equal(partition->length, 4);
    assert_memory_equal(partition->value, "\0\0\0\3", 4);
    expect_header(&output, "kafka_dlt-original-topic", "p.requests");
    expect_header(&output, "kafka_dlt-original-consumer-group", "g");
    const struct mr_kafka_header *offset =
        mr_kafka_record_header(&output.record, "kafka_dlt-original-offset");
    assert_int_equal(offset->length, 8);
    assert_memory_equal(offset->value, "\0\0\0\0\0\0\0\x2a", 8);
    const struct mr_kafka_header *time =
        mr_kafka_record_header(&output.record, "kafka_dlt-original-timestamp");
    assert_memory_equal(time->value, "\0\0\0\0\0\0\1\2", 8);

    mail->record.append_time = true;
    mr_output_dead_letter(&output, &source, mail, &shrunk);
    expect_header(&output, "kafka_dlt-original-timestamp-type", "LogAppendTime");
    assert_null(output.record.value.bytes);
    expect_header(&output, "millrace-value-bytes", "4");
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static void only_a_dead_letter_without_a_result_ends_its_request(void **state)
{
    (void)state;
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_JSON);
    struct mr_kafka_header forged = {"millrace-source", "p.requests/3/41", 15};
    struct mr_refusal_mail *mail = refusal(&ticket, &forged, 1);
    mail->write_result = true;
    mr_output_dead_letter(&output, &source, mail, &whole);
    assert_null(mr_kafka_record_header(&output.record, "millrace-source"));
    mail->write_result = false;
    mr_output_dead_letter(&output, &source, mail, &whole);
    expect_header(&output, "millrace-source", "p.requests/3/42");
    expect_header(&output, "millrace-group", "g");
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

static void a_dead_letter_keeps_room_for_its_reason(void **state)
{
    (void)state;
    static struct mr_kafka_header many[MR_KAFKA_HEADERS_MAX];
    struct mr_output output = {0};
    struct mr_ticket ticket = ticket_of(MR_ENCODING_JSON);
    for (size_t i = 0; i < MR_KAFKA_HEADERS_MAX; i++)
        many[i] = (struct mr_kafka_header){"many", "x", 1};
    struct mr_refusal_mail *mail = refusal(&ticket, many, MR_KAFKA_HEADERS_MAX);
    mr_output_dead_letter(&output, &source, mail, &shrunk);
    assert_true(output.record.header_count <= MR_KAFKA_HEADERS_MAX);
    expect_header(&output, "__connect.errors.exception.class.name", "malformed");
    expect_header(&output, "millrace-value-bytes", "4");
    mr_output_clear(&output);
    mr_mail_free(&mail->mail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_record_names_its_attempt_and_index),
        cmocka_unit_test(without_a_group_there_is_no_generation),
        cmocka_unit_test(a_result_says_where_its_request_was),
        cmocka_unit_test(log_probabilities_are_left_out_before_the_text),
        cmocka_unit_test(a_refusal_is_answered_with_its_code),
        cmocka_unit_test(a_dead_letter_is_the_record_with_both_families_of_headers),
        cmocka_unit_test(only_a_dead_letter_without_a_result_ends_its_request),
        cmocka_unit_test(a_dead_letter_keeps_room_for_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
