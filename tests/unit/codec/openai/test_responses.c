#include "codec/openai/responses.h"

#include "bodies.h"

#define USAGE                                                                                      \
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,\"cached_tokens\":" \
    "1}"
#define USAGE_OUT                                                                                  \
    "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5,"                   \
    "\"prompt_tokens_details\":{\"cached_tokens\":1}}"

static void a_response_has_output_items_and_repeats_its_request(void **state)
{
    (void)state;
    char *body = respond(MR_OPENAI_RESPONSES,
                         "{\"input\":\"a\",\"temperature\":0.5,\"metadata\":{\"k\":\"v\"}}",
                         "{\"model\":\"m\",\"stopped_by\":null,\"text\":\"x\",\"content\":\"Hi\","
                         "\"reasoning\":\"r\","
                         "\"tool_calls\":[]," USAGE "}");
    assert_non_null(strstr(body, "{\"id\":\"resp_7\",\"object\":\"response\",\"created_at\":"
                                 "1700000000,\"status\":\"completed\""));
    assert_non_null(strstr(body, "\"temperature\":0.5"));
    assert_non_null(strstr(body, "\"metadata\":{\"k\":\"v\"}"));
    assert_non_null(strstr(body,
                           "\"usage\":{\"input_tokens\":3,\"input_tokens_details\":{"
                           "\"cached_tokens\":1,\"cache_write_tokens\":0},\"output_tokens\":2,"
                           "\"output_tokens_details\":{\"reasoning_tokens\":0},"
                           "\"total_tokens\":5}"));
    free(body);
    body = respond(MR_OPENAI_RESPONSES, "{\"input\":\"a\"}",
                   "{\"model\":\"m\",\"stopped_by\":null,\"text\":\"Hi\"}");
    assert_non_null(strstr(body, "\"status\":\"incomplete\""));
    assert_non_null(strstr(body, "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}"));
    assert_non_null(strstr(body, "\"output\":[{\"id\":\"msg_7-0\",\"type\":\"message\",\"role\":"
                                 "\"assistant\",\"status\":\"incomplete\",\"content\":[{\"type\":"
                                 "\"output_text\",\"text\":\"Hi\",\"annotations\":[],\"logprobs\":"
                                 "[]}]}]"));
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_has_output_items_and_repeats_its_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
