/* Results become the bodies that OpenAI's API returns. */
#include "bodies.h"

#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,\"cached_tokens\":" \
    "1}"
#define USAGE_OUT                                                                                  \
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,"                   \
    "\"prompt_tokens_details\":{\"cached_tokens\":1}}"

static void expect(enum mr_openai_endpoint endpoint, const char *request, const char *result,
                   const char *expected)
{
    char *body = respond(endpoint, request, result);
    assert_string_equal(body, expected);
    free(body);
}

static void a_chat_completion_has_a_message(void **state)
{
    (void)state;
    expect(MR_OPENAI_CHAT, "{}",
           "{\"model\":\"m\",\"finish_reason\":\"eos\",\"stopped_by\":\"eos\",\"text\":\"<think>r"
           "</think>Hi\",\"content\":\"Hi\",\"reasoning\":\"r\"," USAGE "}",
           "{\"id\":\"chatcmpl-7\",\"object\":\"chat.completion\",\"created\":1700000000,"
           "\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
           "\"content\":\"Hi\",\"refusal\":null,\"reasoning_content\":\"r\",\"reasoning\":\"r\"},"
           "\"logprobs\":null,\"finish_reason\":\"stop\"}]," USAGE_OUT "}");
}

static void calls_have_no_index_and_end_with_tool_calls_also_after_text(void **state)
{
    (void)state;
    char *body = respond(
        MR_OPENAI_CHAT, "{}",
        "{\"model\":\"m\",\"finish_reason\":\"eos\",\"stopped_by\":\"eos\",\"text\":\"x\","
        "\"content\":\"So:\",\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}");
    assert_non_null(strstr(body,
                           "\"content\":\"So:\",\"refusal\":null,\"tool_calls\":[{\"id\":\"c\""
                           ",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
                           "\"{}\"}}]"));
    assert_non_null(strstr(body, "\"finish_reason\":\"tool_calls\""));
    free(body);
    body = respond(MR_OPENAI_CHAT, "{}",
                   "{\"stopped_by\":\"eos\",\"text\":\"x\",\"content\":\"\",\"tool_calls\":[]}");
    assert_non_null(strstr(body, "\"content\":null"));
    free(body);
}

static void a_text_that_may_be_cut_off_ends_with_length(void **state)
{
    (void)state;
    static const struct {
        const char *result, *finish;
    } ends[] = {
        {"{\"finish_reason\":\"length\",\"stopped_by\":null,\"text\":\"\"}", "length"},
        {"{\"finish_reason\":\"length\",\"stopped_by\":\"eos\",\"text\":\"\"}", "stop"},
        {"{\"finish_reason\":\"context_full\",\"stopped_by\":null,\"text\":\"\"}", "length"},
        {"{\"finish_reason\":\"stop_string\",\"stopped_by\":\"stop_string\",\"text\":\"\"}",
         "stop"},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct mr_document *result = open_json(ends[i].result);
        assert_string_equal(mr_openai_finish(mr_document_root(result)), ends[i].finish);
        mr_document_close(result);
    }
}

static void several_choices_are_all_there(void **state)
{
    (void)state;
    expect(MR_OPENAI_COMPLETIONS, "{}",
           "{\"model\":\"m\",\"text\":\"a\",\"choices\":[{\"choice\":0,\"stopped_by\":\"eos\","
           "\"text\":\"a\"},{\"choice\":1,\"stopped_by\":null,\"text\":\"b\"}]," USAGE "}",
           "{\"id\":\"cmpl-7\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":"
           "\"m\",\"choices\":[{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":"
           "\"stop\"},{\"index\":1,\"text\":\"b\",\"logprobs\":null,\"finish_reason\":\"length\"}"
           "]," USAGE_OUT "}");
}

static void vectors_are_a_list(void **state)
{
    (void)state;
    expect(MR_OPENAI_EMBEDDINGS, "{}", "{\"model\":\"m\",\"embedding\":[0.5,1]," USAGE "}",
           "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":"
           "[0.5,1]}],\"model\":\"m\",\"usage\":{\"prompt_tokens\":3,\"total_tokens\":3}}");
    expect(MR_OPENAI_EMBEDDINGS, "{}",
           "{\"model\":\"m\",\"data\":[{\"embedding\":\"AA==\"},{\"embedding\":\"AQ==\"}]}",
           "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":"
           "\"AA==\"},{\"object\":\"embedding\",\"index\":1,\"embedding\":\"AQ==\"}],\"model\":"
           "\"m\",\"usage\":{\"prompt_tokens\":0,\"total_tokens\":0}}");
}

static void documents_are_ranked_best_first(void **state)
{
    (void)state;
    char *body =
        respond(MR_OPENAI_RERANK,
                "{\"query\":\"q\",\"documents\":[\"a\",{\"text\":\"b\"},\"c\"],\"top_n\":2}",
                "{\"model\":\"m\",\"data\":[{\"index\":1,\"relevance_score\":0.9},"
                "{\"index\":2,\"relevance_score\":0.5}]}");
    assert_non_null(strstr(body, "\"results\":[{\"index\":1,\"document\":{\"text\":\"b\"},"
                                 "\"relevance_score\":0.9},{\"index\":2,\"document\":{\"text\":"
                                 "\"c\"},\"relevance_score\":0.5}]"));
    free(body);
    body = respond(MR_OPENAI_RERANK,
                   "{\"query\":\"q\",\"documents\":[\"a\",\"b\"],\"return_documents\":false}",
                   "{\"model\":\"m\",\"data\":[{\"index\":1,\"relevance_score\":0.9},"
                   "{\"index\":0,\"error\":{\"code\":\"prompt_too_long\"}}]}");
    assert_non_null(strstr(body, "\"results\":[{\"index\":1,\"relevance_score\":0.9},{\"index\":0,"
                                 "\"error\":{\"code\":\"prompt_too_long\"}}]"));
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_completion_has_a_message),
        cmocka_unit_test(calls_have_no_index_and_end_with_tool_calls_also_after_text),
        cmocka_unit_test(a_text_that_may_be_cut_off_ends_with_length),
        cmocka_unit_test(several_choices_are_all_there),
        cmocka_unit_test(vectors_are_a_list),
        cmocka_unit_test(documents_are_ranked_best_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
