/* Chunks of a stream, and the frames of its events. */
#include "bodies.h"
#include "codec/openai/chunk.h"

#define TEXT(text) ((struct mr_text){text, sizeof(text) - 1})
#define CHAT_HEAD                                                                                  \
    "data: {\"id\":\"chatcmpl-7\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"    \
    "\"model\":\"m\",\"choices\":["
#define TEXT_HEAD                                                                                  \
    "data: {\"id\":\"cmpl-7\",\"object\":\"text_completion\",\"created\":1700000000,"              \
    "\"model\":\"m\",\"choices\":["
#define NOTHING_YET "\"logprobs\":null,\"finish_reason\":null}]"

static struct mr_openai_chunk chunk_of(enum mr_openai_endpoint endpoint, bool usage)
{
    return (struct mr_openai_chunk){.endpoint = endpoint,
                                    .id = TEXT("7"),
                                    .model = TEXT("m"),
                                    .created_s = 1700000000,
                                    .usage = usage};
}

/* The buffer has exactly this text; it is empty afterwards. */
static void expect(struct mr_buffer *out, const char *expected)
{
    assert_true(mr_buffer_append(out, (struct mr_text){"", 1})); /* its end */
    assert_string_equal(out->bytes, expected);
    mr_buffer_clear(out);
}

static void a_chat_has_a_role_chunk_and_a_text_completion_has_none(void **state)
{
    (void)state;
    struct mr_buffer out;
    const struct mr_openai_chunk chat = chunk_of(MR_OPENAI_CHAT, false),
                                 text = chunk_of(MR_OPENAI_COMPLETIONS, false);
    mr_buffer_init(&out, 4096);
    assert_true(mr_openai_role_chunk(&out, &text, 0));
    assert_int_equal(out.length, 0);
    assert_true(mr_openai_role_chunk(&out, &chat, 3));
    expect(&out, CHAT_HEAD
           "{\"index\":3,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}," NOTHING_YET "}\n\n");
    mr_buffer_drop(&out);
}

static void a_delta_has_only_the_members_that_are_new(void **state)
{
    (void)state;
    struct mr_buffer out;
    const struct mr_openai_chunk chat = chunk_of(MR_OPENAI_CHAT, true),
                                 text = chunk_of(MR_OPENAI_COMPLETIONS, true);
    const struct mr_openai_delta thought = {.reasoning = TEXT("hm")},
                                 said = {.choice = 1, .content = TEXT("a\"b\n")};
    mr_buffer_init(&out, 4096);
    assert_true(mr_openai_delta_chunk(&out, &chat, &thought));
    expect(&out, CHAT_HEAD "{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\","
                           "\"reasoning\":\"hm\"}," NOTHING_YET ",\"usage\":null}\n\n");
    assert_true(mr_openai_delta_chunk(&out, &chat, &said));
    expect(&out, CHAT_HEAD "{\"index\":1,\"delta\":{\"content\":\"a\\\"b\\n\"}," NOTHING_YET
                           ",\"usage\":null}\n\n");
    assert_true(mr_openai_delta_chunk(&out, &text, &said));
    expect(&out,
           TEXT_HEAD "{\"index\":1,\"text\":\"a\\\"b\\n\"," NOTHING_YET ",\"usage\":null}\n\n");
    mr_buffer_drop(&out);
}

static void only_the_first_part_of_a_call_has_id_type_and_name(void **state)
{
    (void)state;
    struct mr_buffer out;
    const struct mr_openai_chunk chat = chunk_of(MR_OPENAI_CHAT, false);
    const struct mr_openai_call_part parts[] = {
        {.index = 0, .arguments = TEXT("}")},
        {.index = 1, .id = TEXT("c"), .name = TEXT("f"), .arguments = TEXT("")}};
    const struct mr_openai_delta delta = {.calls = parts, .call_count = 2};
    mr_buffer_init(&out, 4096);
    assert_true(mr_openai_delta_chunk(&out, &chat, &delta));
    expect(&out, CHAT_HEAD
           "{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
           "\"}\"}},{\"index\":1,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
           "\"arguments\":\"\"}}]}," NOTHING_YET "}\n\n");
    mr_buffer_drop(&out);
}

static void log_probabilities_have_the_form_of_the_endpoint(void **state)
{
    (void)state;
    struct mr_buffer out;
    struct mr_document *document = open_json("{\"logprobs\":[{\"text\":\"a\",\"logprob\":-0.5}]}");
    struct mr_value logprobs;
    const struct mr_openai_chunk chat = chunk_of(MR_OPENAI_CHAT, false),
                                 text = chunk_of(MR_OPENAI_COMPLETIONS, false);
    const struct mr_openai_delta delta = {.content = TEXT("a"), .logprobs = &logprobs};
    mr_buffer_init(&out, 4096);
    assert_true(mr_value_get(mr_document_root(document), "logprobs", &logprobs));
    assert_true(mr_openai_delta_chunk(&out, &chat, &delta));
    expect(&out, CHAT_HEAD
           "{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":{\"content\":[{\"token\":"
           "\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":[]}],\"refusal\":null},"
           "\"finish_reason\":null}]}\n\n");
    assert_true(mr_openai_delta_chunk(&out, &text, &delta));
    expect(&out, TEXT_HEAD
           "{\"index\":0,\"text\":\"a\",\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-0.5],"
           "\"top_logprobs\":[null],\"text_offset\":[0]},\"finish_reason\":null}]}\n\n");
    mr_document_close(document);
    mr_buffer_drop(&out);
}

static void the_last_chunks_have_the_reason_and_the_usage(void **state)
{
    (void)state;
    struct mr_buffer out;
    struct mr_document *result =
        open_json("{\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}");
    const struct mr_openai_chunk chat = chunk_of(MR_OPENAI_CHAT, false),
                                 text = chunk_of(MR_OPENAI_COMPLETIONS, true);
    mr_buffer_init(&out, 4096);
    assert_true(mr_openai_finish_chunk(&out, &chat, 0, "tool_calls"));
    expect(&out, CHAT_HEAD "{\"index\":0,\"delta\":{},\"logprobs\":null,"
                           "\"finish_reason\":\"tool_calls\"}]}\n\n");
    assert_true(mr_openai_finish_chunk(&out, &text, 2, "length"));
    expect(&out, TEXT_HEAD "{\"index\":2,\"text\":\"\",\"logprobs\":null,"
                           "\"finish_reason\":\"length\"}],\"usage\":null}\n\n");
    assert_true(mr_openai_usage_chunk(&out, &text, mr_document_root(result)));
    expect(&out,
           TEXT_HEAD "],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,"
                     "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\n");
    mr_document_close(result);
    mr_buffer_drop(&out);
}

static void an_event_is_one_line_and_may_have_a_name(void **state)
{
    (void)state;
    struct mr_buffer out;
    struct mr_json_writer writer;
    mr_buffer_init(&out, 4096);
    mr_json_writer_init(&writer, 1000);
    mr_json_put_text(&writer, TEXT("a\r\nb\xe2\x80\xa8\xff"));
    assert_true(mr_openai_append_event(&out, "x.y", &writer));
    expect(&out, "event: x.y\ndata: \"a\\r\\nb\\u2028\xef\xbf\xbd\"\n\n");
    mr_json_writer_init(&writer, 1000);
    mr_json_put_null(&writer);
    assert_true(mr_openai_append_event(&out, NULL, &writer));
    expect(&out, "data: null\n\n");
    mr_buffer_drop(&out);
}

/* Every limit below the length of both chunks leaves the first one alone. */
static void a_full_buffer_keeps_its_events(void **state)
{
    (void)state;
    static const char first[] = CHAT_HEAD "{\"index\":0,\"delta\":{},\"logprobs\":null,"
                                          "\"finish_reason\":\"stop\"}]}\n\n";
    const struct mr_openai_chunk chat = chunk_of(MR_OPENAI_CHAT, false);
    const size_t length = sizeof first - 1;
    for (size_t max = length; max < 2 * length; max++) {
        struct mr_buffer out;
        mr_buffer_init(&out, max);
        assert_true(mr_openai_finish_chunk(&out, &chat, 0, "stop"));
        assert_false(mr_openai_finish_chunk(&out, &chat, 0, "stop"));
        assert_int_equal(out.length, length);
        assert_memory_equal(out.bytes, first, length);
        mr_buffer_drop(&out);
    }
}

static void a_value_that_is_too_long_is_no_event(void **state)
{
    (void)state;
    struct mr_buffer out;
    struct mr_json_writer writer;
    mr_buffer_init(&out, 4096);
    mr_json_writer_init(&writer, 4);
    mr_json_put_string(&writer, "longer than the writer's limit");
    assert_false(mr_openai_append_event(&out, "x", &writer));
    assert_int_equal(out.length, 0);
    mr_buffer_drop(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_has_a_role_chunk_and_a_text_completion_has_none),
        cmocka_unit_test(a_delta_has_only_the_members_that_are_new),
        cmocka_unit_test(only_the_first_part_of_a_call_has_id_type_and_name),
        cmocka_unit_test(log_probabilities_have_the_form_of_the_endpoint),
        cmocka_unit_test(the_last_chunks_have_the_reason_and_the_usage),
        cmocka_unit_test(an_event_is_one_line_and_may_have_a_name),
        cmocka_unit_test(a_full_buffer_keeps_its_events),
        cmocka_unit_test(a_value_that_is_too_long_is_no_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
