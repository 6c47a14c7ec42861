#include "codec/tools/tool_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_template_tells_the_format(void **state)
{
    (void)state;
    static const struct {
        const char *chat_template;
        enum mr_tool_format format;
    } cases[] = {
        {"{{ '<|im_start|>' }}", MR_TOOLS_NONE},
        {"within <tool_call></tool_call> XML tags", MR_TOOLS_HERMES},
        {"<tool_call>\n<function=f>\n<parameter=a>\n1", MR_TOOLS_QWEN_CODER},
        {"<tool_call>{name}\n<arg_key>{key}</arg_key>", MR_TOOLS_NONE},
        {"You are Granite{{ x }}<tool_call>granite", MR_TOOLS_GRANITE},
        {"'<|tool_call|>' + tools", MR_TOOLS_GRANITE},
        {"[AVAILABLE_TOOLS]{{ '[TOOL_CALLS]' }}", MR_TOOLS_MISTRAL},
        {"<|start_header_id|>{{ '<|python_tag|>' }}", MR_TOOLS_LLAMA},
        {"<|eot_id|> {\"name\": n, \"parameters\": d}", MR_TOOLS_LLAMA},
        {"[func_name1(params_name1=params_value1)] <|eot_id|>", MR_TOOLS_PYTHONIC},
        {"<|channel|>commentary to=functions.x<|message|>", MR_TOOLS_HARMONY},
        {"<\xef\xbd\x9ctool\xe2\x96\x81sep\xef\xbd\x9c>", MR_TOOLS_DEEPSEEK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_text text = {cases[i].chat_template, strlen(cases[i].chat_template)};
        assert_string_equal(mr_tool_format_name(mr_tool_format_find(text)),
                            mr_tool_format_name(cases[i].format));
    }
}

static void markers_that_are_control_tokens_must_be_kept(void **state)
{
    (void)state;
    assert_true(mr_tool_format_has_control(MR_TOOLS_MISTRAL));
    assert_true(mr_tool_format_has_control(MR_TOOLS_DEEPSEEK));
    assert_false(mr_tool_format_has_control(MR_TOOLS_HERMES));
    assert_false(mr_tool_format_has_control(MR_TOOLS_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_template_tells_the_format),
        cmocka_unit_test(markers_that_are_control_tokens_must_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
