#include "answers.h"

#include "codec/records/message.h"

struct rig {
    struct mr_request request;
    struct mr_choice choice;
    struct mr_arena *arena;
};

static void split(struct rig *rig, const char *text)
{
    struct mr_error err;
    rig->arena = mr_arena_create(1 << 20);
    rig->choice = answer_choice();
    rig->choice.text = text_of(text);
    struct mr_message_rules rules = mr_message_rules_of(&rig->request);
    assert_int_equal(mr_message_split(&rig->choice, &rules, rig->arena, &err), MR_OK);
}

static void an_answer_without_tools_stays_as_it_is(void **state)
{
    (void)state;
    struct rig rig = {0};
    split(&rig, "<think>a</think><tool_call>");
    assert_false(rig.choice.parsed);
    assert_int_equal(rig.choice.tool_call_count, 0);
    mr_arena_destroy(rig.arena);
}

static void calls_are_taken_out_of_the_content(void **state)
{
    (void)state;
    struct rig rig = {.request.tool_use.format = MR_TOOLS_HERMES};
    split(&rig, "Wait. <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>\n"
                "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>");
    assert_true(rig.choice.parsed);
    assert_int_equal(rig.choice.tool_call_count, 2);
    assert_true(mr_text_is(rig.choice.content, "Wait. "));
    assert_true(mr_text_is(rig.choice.tool_calls[1].name, "g"));
    assert_null(rig.choice.reasoning.bytes);
    mr_arena_destroy(rig.arena);
    rig.request.tool_use.single = true;
    split(&rig, "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"
                "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>");
    assert_int_equal(rig.choice.tool_call_count, 1);
    mr_arena_destroy(rig.arena);
}

static void reasoning_is_split_off_on_request(void **state)
{
    (void)state;
    static const struct {
        enum mr_opened opened;
        const char *text, *reasoning, *content;
    } cases[] = {
        {MR_OPENED_NOTHING, "<think>\nwhy\n</think>\n\nso", "why", "so"},
        {MR_OPENED_TAG, "why</think>so", "why", "so"},
        {MR_OPENED_TAG, "\n<think>why</think>so", "why", "so"},
        {MR_OPENED_TAG, "why</thin", "why</thin", ""},
        {MR_OPENED_TAG, "<thin", "<thin", ""},
        {MR_OPENED_TEXT, " why</think>so", " why", "so"},
        {MR_OPENED_TEXT, "<think>why", "<think>why", ""},
        {MR_OPENED_TEXT, "\nwhy\n</think>\nso", "\nwhy", "so"},
        {MR_OPENED_NOTHING, "why</think>so", "", "why</think>so"},
        {MR_OPENED_NOTHING, "<think>why", "why", ""},
        {MR_OPENED_NOTHING, "<think>", "", ""},
        {MR_OPENED_NOTHING, "<thin", "", "<thin"},
        {MR_OPENED_NOTHING, "so", "", "so"},
        {MR_OPENED_NOTHING, "so <think>", "", "so <think>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig = {
            .request.tool_use = {.separate_reasoning = true, .opened = cases[i].opened}};
        split(&rig, cases[i].text);
        assert_true(mr_text_is(rig.choice.reasoning, cases[i].reasoning));
        assert_true(mr_text_is(rig.choice.content, cases[i].content));
        mr_arena_destroy(rig.arena);
    }
}

/* What stands next to tags belongs to them: one line end, and two after </think>. */
static void white_space_of_the_text_is_kept(void **state)
{
    (void)state;
#define CALL "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"
    static const struct {
        enum mr_tool_format format;
        const char *text, *reasoning, *content;
    } cases[] = {
        {MR_TOOLS_NONE, "    if x:\n", "", "    if x:\n"},
        {MR_TOOLS_NONE, "\n \n", "", "\n \n"},
        {MR_TOOLS_NONE, "<think>\n\n</think>\n\n    if x:\n", "", "    if x:\n"},
        {MR_TOOLS_NONE, "<think> a \n\n</think>\n\n\n b ", " a \n", "\n b "},
        {MR_TOOLS_NONE, "<think>a</think>\n\n\n ", "a", ""},
        {MR_TOOLS_NONE, "<think>a\n", "a\n", ""},
        {MR_TOOLS_HERMES, "    if x:\n", "", "    if x:\n"},
        {MR_TOOLS_HERMES, "\n \n", "", "\n \n"},
        {MR_TOOLS_HERMES, " a\n\n" CALL "\n", "", " a\n"},
        {MR_TOOLS_HERMES, "\n\n" CALL " \n" CALL "\n\n  b\n", "", "\n  b\n"},
        {MR_TOOLS_HERMES, "<think>\na\n</think>\n\n  b\n" CALL, "a", "  b"},
        {MR_TOOLS_LLAMA, " a\n", "", " a\n"},
        {MR_TOOLS_PYTHONIC, " [a\n", "", " [a\n"},
        {MR_TOOLS_QWEN_CODER, "  a\n<function=f>\n</function>\n", "", "  a"},
        {MR_TOOLS_HARMONY, " a\n", "", " a\n"},
        {MR_TOOLS_HARMONY,
         "<|channel|>analysis<|message|> a\n<|end|><|start|>assistant<|channel|>final<|message|> "
         "b\n<|return|>",
         " a\n", " b\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig = {
            .request.tool_use = {.separate_reasoning = true, .format = cases[i].format}};
        split(&rig, cases[i].text);
        if (!mr_text_is(rig.choice.content, cases[i].content))
            fail_msg("'%.*s' of '%s'", (int)rig.choice.content.length, rig.choice.content.bytes,
                     cases[i].text);
        if (!mr_text_is(rig.choice.reasoning, cases[i].reasoning))
            fail_msg("'%.*s' of '%s'", (int)rig.choice.reasoning.length, rig.choice.reasoning.bytes,
                     cases[i].text);
        mr_arena_destroy(rig.arena);
    }
}

static void an_answer_goes_on_in_the_channel_that_the_prompt_has_opened(void **state)
{
    (void)state;
    static const struct {
        enum mr_opened opened;
        const char *text, *reasoning, *content;
    } cases[] = {
        {MR_OPENED_HEADER, "analysis<|message|>a<|end|>", "a", ""},
        {MR_OPENED_HEADER, "final<|message|>a<|end|>", "", "a"},
        {MR_OPENED_TAG, "<|message|>a<|end|><|start|>assistant<|message|>b", "a", "b"},
        {MR_OPENED_TEXT, " a<|end|><|start|>assistant<|channel|>final<|message|>b", " a", "b"},
        {MR_OPENED_NOTHING, " a<|return|>", "", " a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig = {.request.tool_use = {.separate_reasoning = true,
                                               .format = MR_TOOLS_HARMONY,
                                               .opened = cases[i].opened}};
        split(&rig, cases[i].text);
        assert_true(mr_text_is(rig.choice.reasoning, cases[i].reasoning));
        assert_true(mr_text_is(rig.choice.content, cases[i].content));
        mr_arena_destroy(rig.arena);
    }
}

static void a_call_in_the_reasoning_is_none(void **state)
{
    (void)state;
    struct rig rig = {.request.tool_use.format = MR_TOOLS_HERMES};
    split(&rig, "<think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call></think>no");
    assert_int_equal(rig.choice.tool_call_count, 0);
    assert_true(mr_text_is(rig.choice.content, "no"));
    mr_arena_destroy(rig.arena);
}

static void the_echoed_prompt_is_not_searched(void **state)
{
    (void)state;
    struct rig rig = {.request.tool_use.format = MR_TOOLS_ARRAY,
                      .request.echoed = text_of("Call: ")};
    split(&rig, "Call: [{\"name\":\"f\",\"parameters\":{}}]");
    assert_int_equal(rig.choice.tool_call_count, 1);
    mr_arena_destroy(rig.arena);
}

/* The choices of a result share an arena. */
static void more_than_a_result_can_have_is_too_large(void **state)
{
    (void)state;
    struct rig rig = {.request.tool_use.format = MR_TOOLS_HERMES};
    struct mr_message_rules rules = mr_message_rules_of(&rig.request);
    struct mr_error err;
    rig.arena = mr_arena_create(2 * MR_RESULT_BYTES_MAX);
    assert_non_null(mr_arena_take(rig.arena, MR_RESULT_BYTES_MAX));
    rig.choice = answer_choice();
    rig.choice.text = text_of("a");
    assert_int_equal(mr_message_split(&rig.choice, &rules, rig.arena, &err), MR_RECORD_TOO_LARGE);
    assert_false(rig.choice.parsed);
    mr_arena_destroy(rig.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_without_tools_stays_as_it_is),
        cmocka_unit_test(calls_are_taken_out_of_the_content),
        cmocka_unit_test(reasoning_is_split_off_on_request),
        cmocka_unit_test(white_space_of_the_text_is_kept),
        cmocka_unit_test(an_answer_goes_on_in_the_channel_that_the_prompt_has_opened),
        cmocka_unit_test(a_call_in_the_reasoning_is_none),
        cmocka_unit_test(the_echoed_prompt_is_not_searched),
        cmocka_unit_test(more_than_a_result_can_have_is_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
