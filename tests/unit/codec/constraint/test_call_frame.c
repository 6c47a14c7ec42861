#include "constraints.h"

#include "codec/constraint/call_frame.h"

#define CALL                                                                                       \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\",\"arguments\"],"   \
    "\"properties\":{\"name\":{\"const\":\"f\"},\"arguments\":{\"type\":\"object\","               \
    "\"additionalProperties\":false,\"properties\":{\"n\":{\"enum\":[1]}},\"required\":[\"n\"]}}}"
#define F "{\"name\":\"f\",\"arguments\":{\"n\":1}}"

static void calls_between_tags_obey_and_the_rest_is_free(void **state)
{
    (void)state;
    assert_language(MR_CONSTRAINT_TAGGED_CALLS, CALL,
                    LIST("", "It is {\"a\":\n\"\xc3\xa9\"}.", "<tool_cal", "a <tool_call",
                         "<tool_call>" F "</tool_call>", "<<tool_call>\n" F "\n</tool_call>",
                         "I look.\n<tool_call>\n" F "\n</tool_call>\n<tool_call>" F
                         "</tool_call> ok",
                         "</tool_call>"),
                    LIST("<tool_call>", "a <tool_call>b", "<tool_call>{}</tool_call>",
                         "<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":2}}</tool_call>",
                         "<tool_call>{\"name\":\"g\",\"arguments\":{\"n\":1}}</tool_call>",
                         "<tool_call>" F, "<tool_call>" F "</tool_call><tool_call>"));
    assert_language(MR_CONSTRAINT_TAGGED_CALL, CALL,
                    LIST("a", "<tool_call>" F "</tool_call>", "a<tool_call>" F "</tool_call>b"),
                    LIST("<tool_call>" F "</tool_call><tool_call>" F "</tool_call>"));
}

static void an_answer_that_begins_as_a_call_is_calls(void **state)
{
    (void)state;
    assert_language(MR_CONSTRAINT_WHOLE_CALLS, CALL,
                    LIST("", " ", "It is {}", "[1]", F, F "; " F, "<|python"),
                    LIST("{", " {}", F " and", F ";", "<|python_tag|>" F, "\n" F));
    assert_language(MR_CONSTRAINT_WHOLE_CALL, CALL, LIST(F, "a"), LIST(F "; " F));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_between_tags_obey_and_the_rest_is_free),
        cmocka_unit_test(an_answer_that_begins_as_a_call_is_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
