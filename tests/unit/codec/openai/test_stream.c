/* Token records and results become event streams in which every byte is sent once. */
#include "bodies.h"
#include "codec/openai/stream.h"

struct fixture {
    struct mr_openai_stream *stream;
    struct mr_buffer out;
};

static void start(struct fixture *fixture, enum mr_openai_endpoint endpoint, uint32_t choices,
                  bool usage)
{
    const struct mr_openai_stream_options options = {.endpoint = endpoint,
                                                     .id = {"7", 1},
                                                     .model = {"m", 1},
                                                     .created_s = 1700000000,
                                                     .choice_count = choices,
                                                     .usage = usage};
    struct mr_document *request = open_json("{\"stream\":true}");
    mr_buffer_init(&fixture->out, (size_t)1 << 20);
    assert_int_equal(mr_openai_stream_create(&fixture->stream, &options, NULL), MR_OK);
    assert_true(mr_openai_stream_begin(fixture->stream, mr_document_root(request), &fixture->out));
    mr_document_close(request);
}

static void stop(struct fixture *fixture)
{
    mr_openai_stream_destroy(fixture->stream);
    mr_buffer_drop(&fixture->out);
}

static void tokens(struct fixture *fixture, const char *json)
{
    struct mr_document *record = open_json(json);
    assert_true(mr_openai_stream_tokens(fixture->stream, mr_document_root(record), &fixture->out));
    mr_document_close(record);
}

static void result(struct fixture *fixture, const char *json)
{
    struct mr_document *request = open_json("{}"), *document = open_json(json);
    assert_true(mr_openai_stream_result(fixture->stream, mr_document_root(request),
                                        mr_document_root(document), &fixture->out));
    mr_document_close(document);
    mr_document_close(request);
}

/* A token record of choice 0 with one token. */
static void token(struct fixture *fixture, unsigned attempt, unsigned index, const char *text)
{
    char json[200];
    snprintf(json, sizeof json,
             "{\"attempt\":%u,\"choice\":0,\"index\":%u,\"token_ids\":[1],\"text\":\"%s\","
             "\"content\":\"%s\"}",
             attempt, index, text, text);
    tokens(fixture, json);
}

/* The texts of all members "content" of the stream, joined; the caller frees the text. */
static char *joined(const struct fixture *fixture)
{
    static const char name[] = "\"content\":\"";
    char *copy = calloc(1, fixture->out.length + 1);
    if (fixture->out.length > 0) memcpy(copy, fixture->out.bytes, fixture->out.length);
    char *text = calloc(1, fixture->out.length + 1);
    size_t length = 0;
    for (char *at = copy; (at = strstr(at, name));) {
        at += sizeof name - 1;
        const size_t part = strcspn(at, "\"");
        memcpy(text + length, at, part);
        length += part;
    }
    free(copy);
    return text;
}

static void expect_joined(const struct fixture *fixture, const char *expected)
{
    char *text = joined(fixture);
    assert_string_equal(text, expected);
    free(text);
}

static bool contains(const struct fixture *fixture, const char *part)
{
    return memmem(fixture->out.bytes, fixture->out.length, part, strlen(part)) != NULL;
}

#define HEAD                                                                                       \
    "data: {\"id\":\"chatcmpl-7\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"    \
    "\"model\":\"m\",\"choices\":["
#define ENDED "{\"model\":\"m\",\"stopped_by\":\"eos\",\"text\":\"ab\",\"content\":\"ab\"}"

static void a_chat_stream_has_role_text_finish_usage_and_end(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 1, true);
    token(&fixture, 1, 0, "ab");
    result(&fixture,
           "{\"model\":\"m\",\"stopped_by\":\"eos\",\"text\":\"ab\",\"content\":\"ab\",\"usage\":"
           "{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}");
    const char expected[] =
        HEAD "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
             "\"finish_reason\":null}],\"usage\":null}\n\n" HEAD
             "{\"index\":0,\"delta\":{\"content\":\"ab\"},\"logprobs\":null,\"finish_reason\":null}"
             "],\"usage\":null}\n\n" HEAD
             "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
             "\"usage\":null}\n\n" HEAD
             "],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,"
             "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]\n\n";
    assert_int_equal(fixture.out.length, sizeof expected - 1);
    assert_memory_equal(fixture.out.bytes, expected, sizeof expected - 1);
    stop(&fixture);
}

static void a_record_that_comes_twice_is_sent_once(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 1, false);
    token(&fixture, 1, 0, "a");
    token(&fixture, 1, 0, "a");
    token(&fixture, 1, 1, "b");
    result(&fixture, ENDED);
    expect_joined(&fixture, "ab");
    stop(&fixture);
}

static void after_a_gap_the_result_has_the_rest(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 1, false);
    token(&fixture, 1, 0, "a");
    token(&fixture, 1, 2, "c");
    token(&fixture, 1, 3, "d");
    expect_joined(&fixture, "a");
    result(&fixture, "{\"stopped_by\":\"eos\",\"text\":\"abcd\",\"content\":\"abcd\"}");
    expect_joined(&fixture, "abcd");
    stop(&fixture);
}

static void a_higher_attempt_that_repeats_the_text_goes_on_after_it(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 1, false);
    token(&fixture, 1, 0, "a");
    token(&fixture, 2, 0, "a");
    token(&fixture, 1, 1, "x"); /* from the worker that was replaced */
    token(&fixture, 2, 1, "b");
    expect_joined(&fixture, "ab");
    result(&fixture, ENDED);
    expect_joined(&fixture, "ab");
    assert_false(contains(&fixture, "error"));
    stop(&fixture);
}

static void a_resumed_attempt_continues_the_count(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 1, false);
    token(&fixture, 1, 0, "a");
    tokens(&fixture, "{\"attempt\":2,\"resumed_at\":1,\"choice\":0,\"index\":1,\"token_ids\":[1],"
                     "\"text\":\"b\",\"content\":\"b\"}");
    expect_joined(&fixture, "ab");
    result(&fixture, ENDED);
    expect_joined(&fixture, "ab");
    stop(&fixture);
}

static void another_text_ends_the_stream_with_an_error(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 1, false);
    token(&fixture, 1, 0, "a");
    token(&fixture, 2, 0, "x");
    token(&fixture, 2, 1, "y");
    expect_joined(&fixture, "a");
    result(&fixture, "{\"stopped_by\":\"eos\",\"text\":\"xy\",\"content\":\"xy\"}");
    expect_joined(&fixture, "a");
    assert_true(
        contains(&fixture, "data: {\"error\":{\"message\":\"the answer was computed again"));
    stop(&fixture);
}

static void later_parts_of_a_call_have_neither_id_nor_name(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 1, false);
    tokens(&fixture,
           "{\"attempt\":1,\"choice\":0,\"index\":0,\"token_ids\":[1],\"text\":\"\",\"tool_calls\":"
           "[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
           "\"arguments\":\"\"}}]}");
    tokens(&fixture, "{\"attempt\":1,\"choice\":0,\"index\":1,\"token_ids\":[1],\"text\":\"\","
                     "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{}\"}}]}");
    assert_true(contains(&fixture, "\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":"
                                   "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}"
                                   "]"));
    assert_true(
        contains(&fixture, "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{}\"}}]"));
    result(&fixture, "{\"stopped_by\":\"eos\",\"text\":\"\",\"content\":\"\",\"tool_calls\":[{"
                     "\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                     "\"arguments\":\"{}\"}}]}");
    assert_true(contains(&fixture, "\"finish_reason\":\"tool_calls\""));
    stop(&fixture);
}

static void each_choice_has_its_own_role_and_finish(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_CHAT, 2, false);
    token(&fixture, 1, 0, "a");
    tokens(&fixture, "{\"attempt\":1,\"choice\":1,\"index\":0,\"token_ids\":[1],\"text\":\"b\","
                     "\"content\":\"b\"}");
    result(&fixture, "{\"choices\":[{\"stopped_by\":\"eos\",\"text\":\"a\",\"content\":\"a\"},"
                     "{\"stopped_by\":null,\"text\":\"b\",\"content\":\"b\"}]}");
    assert_true(contains(&fixture, "{\"index\":1,\"delta\":{\"role\":\"assistant\""));
    assert_true(contains(&fixture, "{\"index\":0,\"delta\":{},\"logprobs\":null,"
                                   "\"finish_reason\":\"stop\"}"));
    assert_true(contains(&fixture, "{\"index\":1,\"delta\":{},\"logprobs\":null,"
                                   "\"finish_reason\":\"length\"}"));
    stop(&fixture);
}

static void a_response_is_streamed_as_events_in_order(void **state)
{
    (void)state;
    static const char *const order[] = {
        "event: response.created\n",           "event: response.in_progress\n",
        "event: response.output_item.added\n", "event: response.content_part.added\n",
        "event: response.output_text.delta\n", "event: response.output_text.done\n",
        "event: response.content_part.done\n", "event: response.output_item.done\n",
        "event: response.completed\n"};
    struct fixture fixture;
    start(&fixture, MR_OPENAI_RESPONSES, 1, false);
    token(&fixture, 1, 0, "ab");
    result(&fixture, ENDED);
    const char *at = fixture.out.bytes;
    const char *end = fixture.out.bytes + fixture.out.length;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        char number[32];
        at = memmem(at, (size_t)(end - at), order[i], strlen(order[i]));
        assert_non_null(at);
        snprintf(number, sizeof number, "\"sequence_number\":%zu,", i);
        assert_non_null(memmem(at, (size_t)(end - at), number, strlen(number)));
    }
    assert_false(contains(&fixture, "[DONE]"));
    stop(&fixture);
}

static void an_error_of_the_result_ends_the_stream(void **state)
{
    (void)state;
    struct fixture fixture;
    start(&fixture, MR_OPENAI_COMPLETIONS, 1, false);
    tokens(&fixture, "{\"attempt\":1,\"choice\":0,\"index\":0,\"token_ids\":[1],\"text\":\"a\"}");
    assert_true(contains(&fixture, "\"object\":\"text_completion\""));
    assert_true(contains(&fixture, "{\"index\":0,\"text\":\"a\","));
    result(&fixture, "{\"text\":\"a\",\"error\":{\"code\":\"deadline_exceeded\",\"message\":"
                     "\"too late\",\"retryable\":true}}");
    assert_true(contains(&fixture, "data: {\"error\":{\"message\":\"too late\""));
    assert_true(contains(&fixture, "data: [DONE]\n\n"));
    stop(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_stream_has_role_text_finish_usage_and_end),
        cmocka_unit_test(a_record_that_comes_twice_is_sent_once),
        cmocka_unit_test(after_a_gap_the_result_has_the_rest),
        cmocka_unit_test(a_higher_attempt_that_repeats_the_text_goes_on_after_it),
        cmocka_unit_test(a_resumed_attempt_continues_the_count),
        cmocka_unit_test(another_text_ends_the_stream_with_an_error),
        cmocka_unit_test(later_parts_of_a_call_have_neither_id_nor_name),
        cmocka_unit_test(each_choice_has_its_own_role_and_finish),
        cmocka_unit_test(a_response_is_streamed_as_events_in_order),
        cmocka_unit_test(an_error_of_the_result_ends_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
