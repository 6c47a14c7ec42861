/* Answers of requests: responses, streams, errors before and in a stream. */
#include "codec/wire/document.h"
#include "worker/base/clock.h"
#include "worker/gateway/respond.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS ((uint64_t)1000000000)
#define ENDED     "{\"model\":\"m\",\"stopped_by\":\"eos\",\"text\":\"ab\",\"content\":\"ab\"}"
#define FAILED                                                                                     \
    "{\"text\":\"\",\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"too late\","           \
    "\"retryable\":true}}"
#define BYTES_MAX ((size_t)8 << 20)

struct fixture {
    struct mr_wake wake;
    struct mr_exchanges exchanges;
    struct mr_gateway_counts counts;
    struct mr_link link;
    struct mr_exchange *exchange; /* suspended, as its connection is while it waits */
};

static int start(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    if (!fixture) return -1;
    assert_int_equal(mr_wake_open(&fixture->wake, NULL), MR_OK);
    assert_int_equal(mr_exchanges_open(&fixture->exchanges, &fixture->wake, 8, BYTES_MAX, NULL),
                     MR_OK);
    mr_gateway_counts_open(&fixture->counts);
    fixture->link.exchanges = &fixture->exchanges;
    fixture->link.counts = &fixture->counts;
    mr_buffer_init(&fixture->link.scratch, (size_t)64 << 20);
    *state = fixture;
    return 0;
}

static int stop(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->exchange) mr_exchange_drop(&fixture->exchanges, fixture->exchange);
    mr_buffer_drop(&fixture->link.scratch);
    mr_gateway_counts_close(&fixture->counts);
    mr_exchanges_close(&fixture->exchanges);
    mr_wake_close(&fixture->wake);
    free(fixture);
    return 0;
}

static struct mr_exchange *make(struct fixture *fixture, enum mr_openai_endpoint endpoint,
                                bool is_stream)
{
    struct mr_exchange *exchange = mr_exchange_create(&fixture->exchanges, NULL);
    assert_non_null(exchange);
    snprintf(exchange->id, sizeof exchange->id, "7");
    snprintf(exchange->model, sizeof exchange->model, "m");
    exchange->endpoint = endpoint;
    exchange->is_stream = is_stream;
    exchange->choice_count = 1;
    exchange->suspended = true;
    assert_true(mr_exchange_add_body(&fixture->exchanges, exchange, (struct mr_text){"{}", 2}));
    fixture->exchange = exchange;
    return exchange;
}

static struct mr_document *open_json(const char *text)
{
    struct mr_document *document;
    assert_int_equal(
        mr_document_open(&document, (struct mr_text){text, strlen(text)}, MR_ENCODING_JSON, NULL),
        MR_OK);
    return document;
}

static bool result(struct fixture *fixture, const char *json)
{
    struct mr_document *document = open_json(json);
    const bool goes_on =
        mr_respond_result(&fixture->link, fixture->exchange, mr_document_root(document));
    mr_document_close(document);
    return goes_on;
}

/* A token record with this index and text. */
static bool token(struct fixture *fixture, unsigned index, const char *text, bool *is_cut)
{
    const size_t size = 2 * strlen(text) + 200;
    char *json = malloc(size);
    assert_non_null(json);
    snprintf(json, size,
             "{\"attempt\":1,\"choice\":0,\"index\":%u,\"token_ids\":[1],\"text\":\"%s\","
             "\"content\":\"%s\"}",
             index, text, text);
    struct mr_document *document = open_json(json);
    const bool goes_on =
        mr_respond_tokens(&fixture->link, fixture->exchange, mr_document_root(document), is_cut);
    mr_document_close(document);
    free(json);
    return goes_on;
}

static bool contains(const struct fixture *fixture, const char *part)
{
    const struct mr_buffer *out = &fixture->exchange->out;
    return memmem(out->bytes, out->length, part, strlen(part)) != NULL;
}

/* The client has read all that there is. */
static void read_all(struct fixture *fixture)
{
    fixture->exchange->out_read = fixture->exchange->out.length;
}

/* The exchange has ended with this status, and its connection is to be resumed. */
static void expect_end(struct fixture *fixture, unsigned status)
{
    const struct mr_exchange *exchange = fixture->exchange;
    assert_true(exchange->is_done);
    assert_int_equal(exchange->status, status);
    assert_false(exchange->suspended);
    assert_ptr_equal(fixture->link.resumes.first, exchange);
    assert_int_equal(fixture->exchanges.bytes, exchange->body.length + exchange->out.length);
}

/* A text of this many letters; the caller frees it. */
static char *make_text(size_t length)
{
    char *text = malloc(length + 1);
    assert_non_null(text);
    memset(text, 'a', length);
    text[length] = '\0';
    return text;
}

static void a_call_without_a_stream_gets_one_response(void **state)
{
    struct fixture *fixture = *state;
    bool is_cut = true;
    make(fixture, MR_OPENAI_CHAT, false);
    assert_true(token(fixture, 0, "ab", &is_cut)); /* not sent */
    assert_false(is_cut || fixture->exchange->is_begun);
    assert_int_equal(fixture->exchange->out.length, 0);
    assert_false(result(fixture, ENDED));
    expect_end(fixture, 200);
    assert_false(fixture->exchange->is_begun);
    assert_true(contains(fixture, "\"id\":\"chatcmpl-7\",\"object\":\"chat.completion\""));
    assert_true(contains(fixture, "\"content\":\"ab\""));
}

static void a_stream_begins_with_the_first_record_and_ends_with_the_result(void **state)
{
    struct fixture *fixture = *state;
    bool is_cut = true;
    make(fixture, MR_OPENAI_CHAT, true);
    const uint64_t before_ns = mr_clock_ns();
    assert_true(token(fixture, 0, "ab", &is_cut));
    assert_false(is_cut || fixture->exchange->is_done || fixture->exchange->suspended);
    assert_true(fixture->exchange->is_begun);
    assert_int_equal(fixture->exchange->status, 200);
    assert_in_range(fixture->exchange->comment_ns, before_ns + 10 * SECOND_NS,
                    mr_clock_ns() + 10 * SECOND_NS);
    assert_true(contains(fixture, "\"role\":\"assistant\""));
    assert_true(contains(fixture, "\"content\":\"ab\""));
    read_all(fixture);
    assert_false(result(fixture, ENDED));
    expect_end(fixture, 200);
    assert_false(contains(fixture, "\"content\":\"ab\"")); /* every byte once */
    assert_true(contains(fixture, "\"finish_reason\":\"stop\""));
    assert_true(contains(fixture, "data: [DONE]\n\n"));
}

static void an_error_before_a_stream_has_a_status_of_its_own(void **state)
{
    struct fixture *fixture = *state;
    make(fixture, MR_OPENAI_CHAT, true);
    assert_false(result(fixture, FAILED));
    expect_end(fixture, 504);
    assert_true(fixture->exchange->no_retry && !fixture->exchange->is_begun);
    assert_true(contains(fixture, "{\"error\":{\"message\":\"too late\""));
    assert_false(contains(fixture, "data:"));
}

static void an_error_in_a_stream_is_an_event(void **state)
{
    struct fixture *fixture = *state;
    bool is_cut;
    make(fixture, MR_OPENAI_CHAT, true);
    assert_true(token(fixture, 0, "a", &is_cut));
    assert_false(result(fixture, FAILED));
    expect_end(fixture, 200);
    assert_true(contains(fixture, "data: {\"error\":{\"message\":\"too late\""));
    assert_true(contains(fixture, "data: [DONE]\n\n"));
}

static void errors_of_the_gateway_are_sent_both_ways(void **state)
{
    struct fixture *fixture = *state;
    bool is_cut;
    make(fixture, MR_OPENAI_CHAT, false);
    assert_false(mr_respond_error(&fixture->link, fixture->exchange, "internal", "gone", 503));
    expect_end(fixture, 503);
    assert_false(fixture->exchange->no_retry);
    assert_true(contains(fixture, "\"code\":\"internal\""));
    mr_exchange_drop(&fixture->exchanges, fixture->exchange);
    fixture->link.resumes.first = NULL;
    make(fixture, MR_OPENAI_RESPONSES, true);
    assert_true(token(fixture, 0, "a", &is_cut));
    assert_false(
        mr_respond_error(&fixture->link, fixture->exchange, "deadline_exceeded", "late", 0));
    expect_end(fixture, 200);
    assert_true(contains(fixture, "event: response.failed\n"));
    assert_true(contains(fixture, "\"message\":\"late\""));
}

static void a_comment_begins_the_stream(void **state)
{
    struct fixture *fixture = *state;
    bool is_cut = true;
    make(fixture, MR_OPENAI_RESPONSES, true);
    assert_true(mr_respond_comment(&fixture->link, fixture->exchange, &is_cut));
    assert_false(is_cut || fixture->exchange->suspended);
    assert_true(fixture->exchange->is_begun);
    assert_true(contains(fixture, "event: response.in_progress\n"));
    assert_true(contains(fixture, "\n\n: waiting\n\n"));
    read_all(fixture);
    assert_true(mr_respond_comment(&fixture->link, fixture->exchange, &is_cut));
    assert_int_equal(fixture->exchange->out.length, strlen(": waiting\n\n"));
    assert_false(result(fixture, FAILED));
    assert_true(contains(fixture, "event: response.failed\n"));
}

static void a_reader_that_is_too_slow_loses_its_stream(void **state)
{
    struct fixture *fixture = *state;
    bool is_cut = false;
    unsigned index = 0;
    char *text = make_text((size_t)300 << 10);
    make(fixture, MR_OPENAI_CHAT, true);
    while (index < 10 && token(fixture, index, text, &is_cut))
        index++;
    assert_true(is_cut);
    assert_int_equal(index, 4); /* the first four are more than 1 MiB */
    expect_end(fixture, 200);
    assert_true(contains(fixture, "\"code\":\"overloaded\""));
    assert_true(contains(fixture, "data: [DONE]\n\n"));
    assert_int_equal(atomic_load(&fixture->counts.counters[MR_GATEWAY_SLOW]), 1);
    free(text);
}

/* The last event of a Response has the whole answer. */
static void a_long_end_is_not_taken_for_a_slow_reader(void **state)
{
    struct fixture *fixture = *state;
    char *text = make_text((size_t)1 << 20);
    const size_t size = 2 * strlen(text) + 200;
    char *json = malloc(size);
    assert_non_null(json);
    snprintf(json, size,
             "{\"model\":\"m\",\"stopped_by\":\"eos\",\"text\":\"%s\",\"content\":\"%s\"}", text,
             text);
    make(fixture, MR_OPENAI_RESPONSES, true);
    assert_false(result(fixture, json));
    expect_end(fixture, 200);
    assert_true(contains(fixture, "event: response.completed\n"));
    assert_int_equal(atomic_load(&fixture->counts.counters[MR_GATEWAY_SLOW]), 0);
    free(json);
    free(text);
}

static void a_stream_beyond_the_gateways_memory_is_cut(void **state)
{
    struct fixture *fixture = *state;
    bool is_cut = false;
    make(fixture, MR_OPENAI_CHAT, true);
    fixture->exchanges.bytes_max = 100;
    assert_false(token(fixture, 0, "a", &is_cut));
    assert_true(is_cut);
    expect_end(fixture, 200);
    assert_true(contains(fixture, "\"code\":\"overloaded\""));
}

static void a_text_of_an_error_is_openais_object(void **state)
{
    (void)state;
    const struct mr_openai_error error = {.http_status = 400,
                                          .type = "invalid_request_error",
                                          .code = {"c", 1},
                                          .message = {"a\"b", 3},
                                          .param = {"p", 1}};
    size_t length;
    char *text = mr_respond_error_text(&error, &length);
    assert_string_equal(text,
                        "{\"error\":{\"message\":\"a\\\"b\",\"type\":\"invalid_request_error\","
                        "\"param\":\"p\",\"code\":\"c\"}}");
    assert_int_equal(length, strlen(text));
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_without_a_stream_gets_one_response),
        TEST(a_stream_begins_with_the_first_record_and_ends_with_the_result),
        TEST(an_error_before_a_stream_has_a_status_of_its_own),
        TEST(an_error_in_a_stream_is_an_event),
        TEST(errors_of_the_gateway_are_sent_both_ways),
        TEST(a_comment_begins_the_stream),
        TEST(a_reader_that_is_too_slow_loses_its_stream),
        TEST(a_long_end_is_not_taken_for_a_slow_reader),
        TEST(a_stream_beyond_the_gateways_memory_is_cut),
        cmocka_unit_test(a_text_of_an_error_is_openais_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
