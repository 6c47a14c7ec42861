#include "codec/records/opened.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void what_is_opened_and_not_closed_is_found(void **state)
{
    (void)state;
#define START "<|start|>assistant"
    static const struct {
        enum mr_tool_format format;
        const char *turn;
        enum mr_opened opened;
    } cases[] = {
        {MR_TOOLS_NONE, "", MR_OPENED_NOTHING},
        {MR_TOOLS_NONE, "assistant\n", MR_OPENED_NOTHING},
        {MR_TOOLS_NONE, "assistant\n<think>", MR_OPENED_TAG},
        {MR_TOOLS_HERMES, "assistant\n<think>\n", MR_OPENED_TAG},
        {MR_TOOLS_HERMES, "assistant\n<think>\nLet me see:", MR_OPENED_TEXT},
        {MR_TOOLS_NONE, "<think>\n\n</think>\n\n", MR_OPENED_NOTHING},
        {MR_TOOLS_NONE, "<think>\n\n</think>\n\n<think>\nLet", MR_OPENED_TEXT},
        {MR_TOOLS_NONE, "</think><think>", MR_OPENED_TAG},
        {MR_TOOLS_NONE, "<think", MR_OPENED_NOTHING},
        {MR_TOOLS_NONE, START "<|channel|>analysis<|message|>", MR_OPENED_NOTHING},
        {MR_TOOLS_HARMONY, START, MR_OPENED_NOTHING},
        {MR_TOOLS_HARMONY, START "<think>", MR_OPENED_NOTHING},
        {MR_TOOLS_HARMONY, START "<|channel|>", MR_OPENED_HEADER},
        {MR_TOOLS_HARMONY, START "<|channel|>analysis", MR_OPENED_TAG},
        {MR_TOOLS_HARMONY, START "<|channel|>analysis<|message|>", MR_OPENED_TEXT},
        {MR_TOOLS_HARMONY, START "<|channel|>analysis<|message|>Let me", MR_OPENED_TEXT},
        {MR_TOOLS_HARMONY, START "<|channel|>final<|message|>It", MR_OPENED_NOTHING},
        {MR_TOOLS_HARMONY, START "<|channel|>analysis<|message|>a<|end|>", MR_OPENED_NOTHING},
        {MR_TOOLS_HARMONY, START "<|channel|>analysis<|message|>a<|end|>" START, MR_OPENED_NOTHING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_text turn = {cases[i].turn, strlen(cases[i].turn)};
        if (mr_opened_find(cases[i].format, turn) != cases[i].opened)
            fail_msg("%d of %s", mr_opened_find(cases[i].format, turn), cases[i].turn);
    }
}

static void tags_inside_a_turn_are_known(void **state)
{
    (void)state;
    assert_true(mr_opened_is_tag(MR_TOOLS_NONE, (struct mr_text){"</think>", 8}));
    assert_false(mr_opened_is_tag(MR_TOOLS_NONE, (struct mr_text){"<|message|>", 11}));
    assert_true(mr_opened_is_tag(MR_TOOLS_HARMONY, (struct mr_text){"<|message|>", 11}));
    assert_false(mr_opened_is_tag(MR_TOOLS_HARMONY, (struct mr_text){"<|start|>", 9}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_opened_and_not_closed_is_found),
        cmocka_unit_test(tags_inside_a_turn_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
