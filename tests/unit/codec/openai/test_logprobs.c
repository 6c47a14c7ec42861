/* Log-probabilities in the forms of OpenAI's API. */
#include "bodies.h"

#define LOGPROBS                                                                                   \
    "\"logprobs\":[{\"token_id\":1,\"text\":\"H\\u00e9\",\"logprob\":-0.5,\"top\":[{\"token_id\":" \
    "1,\"text\":\"H\\u00e9\",\"logprob\":-0.5},{\"token_id\":2,\"text\":\"\\ufffd\","              \
    "\"logprob\":-9999}]}]"

static void log_probabilities_have_the_form_of_the_endpoint(void **state)
{
    (void)state;
    char *body = respond(MR_OPENAI_CHAT, "{}", "{\"text\":\"\",\"stopped_by\":null," LOGPROBS "}");
    assert_non_null(strstr(
        body, "\"logprobs\":{\"content\":[{\"token\":\"H\303\251\",\"logprob\":-0.5,\"bytes\":[72,"
              "195,169],\"top_logprobs\":[{\"token\":\"H\303\251\",\"logprob\":-0.5,\"bytes\":[72,"
              "195,169]},{\"token\":\"\357\277\275\",\"logprob\":-9999,\"bytes\":null}]}],"
              "\"refusal\":null}"));
    free(body);
    body = respond(MR_OPENAI_COMPLETIONS, "{}", "{\"text\":\"\",\"stopped_by\":null," LOGPROBS "}");
    assert_non_null(strstr(body,
                           "\"logprobs\":{\"tokens\":[\"H\303\251\"],\"token_logprobs\":[-0.5]"
                           ",\"top_logprobs\":[{\"H\303\251\":-0.5,\"\357\277\275\":-9999}]"
                           ",\"text_offset\":[0]}"));
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_probabilities_have_the_form_of_the_endpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
