#include "worker/intake/prompt.h"

#include "tests/fakes/fake_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The fake tokenizer: a byte b is id b + 1, <|end|> is id 0. */
#define ID(byte) ((uint32_t)(byte) + 1u)
#define TEMPLATE "{% for m in messages %}{{ m.role }}:{{ m.content }}<|end|>{% endfor %}A"

static struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, strlen(text)};
}

struct rig {
    struct mr_tokenizer *tokenizer;
    struct mr_prompt *prompt;
    struct mr_request *request;
};

static void open_rig(struct rig *rig, const char *chat_template, uint32_t prompt_tokens_max)
{
    struct mr_error err = {0};
    rig->tokenizer = mr_fake_tokenizer();
    struct mr_prompt_options options = {.tokenizer = rig->tokenizer,
                                        .chat_template = text_of(chat_template),
                                        .prompt_tokens_max = prompt_tokens_max};
    if (mr_prompt_create(&rig->prompt, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    rig->request = mr_fake_request("id", NULL, 0);
    rig->request->has_token_ids = false;
}

static void close_rig(struct rig *rig)
{
    mr_request_destroy(rig->request);
    mr_prompt_destroy(rig->prompt);
    mr_tokenizer_destroy(rig->tokenizer);
}

static struct mr_data text_data(const char *text)
{
    return (struct mr_data){.kind = MR_DATA_TEXT, .text = text_of(text)};
}

/* Adds a message to the request of the rig; at most two. */
static void add_message(struct rig *rig, const char *role, const char *content)
{
    struct mr_chat *chat = &rig->request->chat;
    struct mr_data_member *members = mr_arena_take_array(rig->request->arena, 2, sizeof *members);
    struct mr_data *messages = (struct mr_data *)(uintptr_t)chat->messages;
    if (!messages) messages = mr_arena_take_array(rig->request->arena, 2, sizeof *messages);
    members[0] = (struct mr_data_member){text_of("role"), text_data(role)};
    members[1] = (struct mr_data_member){text_of("content"), text_data(content)};
    messages[chat->message_count++] = (struct mr_data){.kind = MR_DATA_MAP, .map = {members, 2}};
    chat->messages = messages;
}

/* One character an id: the byte, or '$' for <|end|>. */
static void assert_tokens(struct rig *rig, const char *want)
{
    struct mr_error err = {0};
    if (mr_prompt_encode(rig->prompt, rig->request, 0, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(rig->request->token_count, strlen(want));
    for (size_t i = 0; want[i]; i++)
        assert_int_equal(rig->request->token_ids[i], want[i] == '$' ? 0 : ID(want[i]));
}

static void assert_refused(struct rig *rig, enum mr_status want, const char *why)
{
    struct mr_error err = {0};
    assert_int_equal(mr_prompt_encode(rig->prompt, rig->request, 0, &err), want);
    if (!strstr(err.detail, why)) fail_msg("%s, not: %s", err.detail, why);
}

static void a_text_prompt_may_name_special_tokens(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "", 64);
    rig.request->prompt = text_of("hi<|end|>!");
    assert_tokens(&rig, "hi$!");
    close_rig(&rig);
}

static void messages_go_through_the_template(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, TEMPLATE, 64);
    add_message(&rig, "s", "be");
    add_message(&rig, "u", "hi");
    assert_tokens(&rig, "s:be$u:hi$A");
    close_rig(&rig);
}

static void a_special_token_in_a_message_stays_text(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, TEMPLATE, 64);
    add_message(&rig, "u", "x<|end|>");
    assert_tokens(&rig, "u:x<|end|>$A");
    close_rig(&rig);
}

static void a_prompt_may_be_as_long_as_the_limit_and_no_longer(void **state)
{
    (void)state;
    struct rig rig;
    const uint32_t ids[10] = {1};
    open_rig(&rig, TEMPLATE, 9);
    rig.request->prompt = text_of("123456789");
    assert_tokens(&rig, "123456789");
    rig.request->prompt = text_of("1234567890");
    assert_refused(&rig, MR_PROMPT_TOO_LONG, "at least 10 tokens, the limit is 9");
    add_message(&rig, "u", "12345");
    assert_tokens(&rig, "u:12345$A");
    close_rig(&rig);
    open_rig(&rig, TEMPLATE, 8);
    add_message(&rig, "u", "12345");
    assert_refused(&rig, MR_PROMPT_TOO_LONG, "at least 9 tokens, the limit is 8");
    rig.request->has_token_ids = true;
    rig.request->token_ids = ids;
    rig.request->token_count = 8;
    assert_int_equal(mr_prompt_encode(rig.prompt, rig.request, 0, NULL), MR_OK);
    assert_ptr_equal(rig.request->token_ids, ids);
    rig.request->token_count = 9;
    assert_refused(&rig, MR_PROMPT_TOO_LONG, "9 tokens, the limit is 8");
    close_rig(&rig);
}

static void a_prompt_is_truncated_on_request(void **state)
{
    (void)state;
    struct rig rig;
    const uint32_t ids[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    open_rig(&rig, TEMPLATE, 9);
    rig.request->prompt = text_of("1234567890");
    rig.request->prompt_rules.tokens_max = 20;
    assert_tokens(&rig, "234567890");
    rig.request->prompt_rules.tokens_max = 3;
    assert_tokens(&rig, "890");
    rig.request->prompt_rules.keep_start = true;
    assert_tokens(&rig, "123");
    rig.request->prompt_rules.tokens_max = UINT32_MAX;
    rig.request->max_tokens = 4;
    assert_tokens(&rig, "123456");
    rig.request->max_tokens = 40;
    assert_tokens(&rig, "1");
    rig.request->prompt_rules = (struct mr_prompt_rules){.tokens_max = 4};
    add_message(&rig, "u", "12345");
    assert_tokens(&rig, "45$A");
    rig.request->has_token_ids = true;
    rig.request->token_ids = ids;
    rig.request->token_count = 10;
    assert_int_equal(mr_prompt_encode(rig.prompt, rig.request, 0, NULL), MR_OK);
    assert_ptr_equal(rig.request->token_ids, ids + 6);
    assert_int_equal(rig.request->token_count, 4);
    close_rig(&rig);
}

static void assert_echoed(struct rig *rig, const char *want)
{
    struct mr_error err = {0};
    rig->request->echo = true;
    if (mr_prompt_encode(rig->prompt, rig->request, 0, &err) != MR_OK) fail_msg("%s", err.detail);
    if (!mr_text_is(rig->request->echoed, want))
        fail_msg("echoed %s, not %s", rig->request->echoed.bytes, want);
}

static void echo_keeps_the_text_that_the_answer_continues(void **state)
{
    (void)state;
    struct rig rig;
    const uint32_t ids[4] = {ID('h'), ID('i'), 0, ID('!')};
    open_rig(&rig, TEMPLATE, 64);
    rig.request->prompt = text_of("hi<|end|>!");
    assert_echoed(&rig, "hi<|end|>!");
    rig.request->prompt = (struct mr_text){0};
    add_message(&rig, "u", "hi");
    add_message(&rig, "a", "so");
    assert_echoed(&rig, "so");
    rig.request->chat.message_count = 0;
    rig.request->has_token_ids = true;
    rig.request->token_ids = ids;
    rig.request->token_count = 4;
    assert_echoed(&rig, "hi!");
    rig.request->keep_special = true;
    assert_echoed(&rig, "hi<|end|>!");
    close_rig(&rig);
}

static void echo_has_the_parts_of_a_message_as_the_prompt_has_them(void **state)
{
    (void)state;
    static const char *const templates[] = {
        TEMPLATE, "{% for m in messages %}{% for p in m.content %}{{ p }}{% endfor %}{% endfor %}"};
    static const char *const tokens[] = {"u:a\nb$A", "ab"}, *const echoed[] = {"a\nb", "ab"};
    const struct mr_data parts[] = {text_data("a"), text_data("b")};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        open_rig(&rig, templates[i], 64);
        add_message(&rig, "u", "");
        struct mr_data *content =
            (struct mr_data *)(uintptr_t)mr_data_get(&rig.request->chat.messages[0], "content");
        *content = (struct mr_data){.kind = MR_DATA_LIST, .list = {parts, 2}};
        assert_tokens(&rig, tokens[i]);
        assert_echoed(&rig, echoed[i]);
        close_rig(&rig);
    }
}

static struct mr_data map_data(struct rig *rig, const char *name, struct mr_data value)
{
    struct mr_data_member *member = mr_arena_take(rig->request->arena, sizeof *member);
    *member = (struct mr_data_member){text_of(name), value};
    return (struct mr_data){.kind = MR_DATA_MAP, .map = {member, 1}};
}

/* Adds the strict tool f to the request. */
static void add_strict_tool(struct rig *rig)
{
    struct mr_data_member *function = mr_arena_take_array(rig->request->arena, 2, sizeof *function);
    struct mr_data *tool = mr_arena_take(rig->request->arena, sizeof *tool);
    function[0] = (struct mr_data_member){text_of("name"), text_data("f")};
    function[1] = (struct mr_data_member){text_of("strict"), {.kind = MR_DATA_BOOL, .integer = 1}};
    struct mr_data map = {.kind = MR_DATA_MAP, .map = {function, 2}};
    *tool = map_data(rig, "function", map);
    rig->request->chat.tools = (struct mr_data){.kind = MR_DATA_LIST, .list = {tool, 1}};
    rig->request->tool_use = (struct mr_tool_use){.choice = MR_TOOL_CHOICE_AUTO, .strict = true};
}

static void strict_calls_get_a_grammar_where_the_format_allows_it(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, TEMPLATE "{# <tool_call> #}", 100);
    add_message(&rig, "user", "hi");
    add_strict_tool(&rig);
    assert_tokens(&rig, "user:hi$A");
    assert_int_equal(rig.request->tool_use.format, MR_TOOLS_HERMES);
    assert_int_equal(rig.request->constraint.kind, MR_CONSTRAINT_TAGGED_CALLS);
    assert_non_null(rig.request->grammar);
    assert_int_equal(rig.request->warning_count, 0);
    close_rig(&rig);
    open_rig(&rig, TEMPLATE "{# [TOOL_CALLS] #}", 100);
    add_message(&rig, "user", "hi");
    add_strict_tool(&rig);
    assert_refused(&rig, MR_UNSUPPORTED, "function.strict in tools");
    close_rig(&rig);
}

static void a_prompt_that_opens_the_reasoning_is_noticed(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        bool asked;
        enum mr_opened opened;
    } cases[] = {
        {"why <think>\n", true, MR_OPENED_TAG},
        {"why <think>\n", false, MR_OPENED_NOTHING},
        {"<think>", true, MR_OPENED_TAG},
        {"think>", true, MR_OPENED_NOTHING},
        {"<think> or not", true, MR_OPENED_TEXT},
        {"<think>a</think>\n<think>b", true, MR_OPENED_TEXT},
        {"<think>a</think>\n", true, MR_OPENED_NOTHING},
        {"what is <think>?<|end|>A", true, MR_OPENED_NOTHING},
        {"what is <think>?<|end|>A<think>\nLet me see:", true, MR_OPENED_TEXT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig;
        struct mr_error err = {0};
        open_rig(&rig, "", 100);
        rig.request->prompt = text_of(cases[i].prompt);
        rig.request->tool_use.choice = MR_TOOL_CHOICE_NONE;
        rig.request->tool_use.separate_reasoning = cases[i].asked;
        assert_int_equal(mr_prompt_encode(rig.prompt, rig.request, 0, &err), MR_OK);
        assert_int_equal(rig.request->tool_use.opened, cases[i].opened);
        close_rig(&rig);
    }
}

/* The text that an answer continues may open reasoning; a question about tags does not. */
static void a_continued_message_may_open_the_reasoning(void **state)
{
    (void)state;
    static const struct {
        const char *question, *start;
        enum mr_opened opened;
    } cases[] = {
        {"hi", "<think>\nLet me see:", MR_OPENED_TEXT},
        {"hi", "<think>", MR_OPENED_TAG},
        {"hi", "<think>\nSo.</think>\n\nIt is", MR_OPENED_NOTHING},
        {"what is <think>?", "A tag", MR_OPENED_NOTHING},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig;
        struct mr_error err = {0};
        open_rig(&rig, TEMPLATE, 200);
        add_message(&rig, "user", cases[i].question);
        add_message(&rig, "assistant", cases[i].start);
        rig.request->chat.continue_final_message = true;
        rig.request->tool_use.choice = MR_TOOL_CHOICE_NONE;
        rig.request->tool_use.separate_reasoning = true;
        rig.request->constraint =
            (struct mr_constraint){MR_CONSTRAINT_CHOICE, text_of("[\"yes\"]"), false};
        assert_int_equal(mr_prompt_encode(rig.prompt, rig.request, 0, &err), MR_OK);
        assert_int_equal(rig.request->tool_use.opened, cases[i].opened);
        assert_int_equal(rig.request->constraint.after_reasoning,
                         cases[i].opened != MR_OPENED_NOTHING);
        close_rig(&rig);
    }
}

/* If the answer is split, a constraint begins after reasoning that the prompt has opened. */
static void opened_reasoning_is_left_free(void **state)
{
    (void)state;
    static const struct {
        const char *prompt;
        bool asked, behind;
    } cases[] = {
        {"why <think>\n", true, true}, {"why <think>\n", false, false}, {"why", true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig;
        struct mr_error err = {0};
        struct mr_grammar *grammar;
        open_rig(&rig, "", 100);
        rig.request->prompt = text_of(cases[i].prompt);
        rig.request->tool_use.choice = MR_TOOL_CHOICE_NONE;
        rig.request->tool_use.separate_reasoning = cases[i].asked;
        rig.request->constraint =
            (struct mr_constraint){MR_CONSTRAINT_CHOICE, text_of("[\"yes\"]"), false};
        assert_int_equal(mr_prompt_encode(rig.prompt, rig.request, 0, &err), MR_OK);
        assert_int_equal(rig.request->constraint.after_reasoning, cases[i].behind);
        assert_int_equal(mr_constraint_compile(&grammar, &rig.request->constraint, NULL, &err),
                         MR_OK);
        assert_int_equal(rig.request->grammar->rule_count, grammar->rule_count);
        mr_grammar_drop(grammar);
        close_rig(&rig);
    }
}

static void a_limit_on_reasoning_gets_the_tokens_of_its_end(void **state)
{
    (void)state;
    static const struct {
        const char *prompt, *opened;
        bool given;
    } cases[] = {
        {"why <think>\n", "<think>", true}, {"why", "", true}, {"why <think>\n", "", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig;
        struct mr_error err = {0};
        open_rig(&rig, "", 100);
        struct mr_thinking_limit *limit = &rig.request->thinking;
        rig.request->prompt = text_of(cases[i].prompt);
        rig.request->tool_use.choice = MR_TOOL_CHOICE_NONE;
        limit->given = cases[i].given;
        assert_int_equal(mr_prompt_encode(rig.prompt, rig.request, 0, &err), MR_OK);
        assert_true(mr_text_is(limit->opened, cases[i].opened));
        assert_int_equal(limit->end_count, cases[i].given ? 8 : 0);
        for (size_t k = 0; k < limit->end_count; k++)
            assert_int_equal(limit->end_ids[k], ID("</think>"[k]));
        assert_false(rig.request->constraint.after_reasoning); /* the answer is not split */
        close_rig(&rig);
    }
}

static void a_stop_that_names_a_control_token_is_a_stop_token(void **state)
{
    (void)state;
    static const struct {
        const char *stop;
        bool keep_special;
        size_t count; /* of stop tokens, with the one that the request has */
    } cases[] = {
        {"<|end|>", false, 2}, {"<|end|>", true, 1}, {"a", false, 1}, {"<|end|>a", false, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rig rig;
        struct mr_error err = {0};
        static const uint32_t given[] = {ID('x')};
        open_rig(&rig, "", 100);
        rig.request->prompt = text_of("why");
        const struct mr_text stops[] = {text_of(cases[i].stop)};
        rig.request->stops = stops;
        rig.request->stop_count = 1;
        rig.request->stop_token_ids = given;
        rig.request->stop_token_count = 1;
        rig.request->keep_special = cases[i].keep_special;
        assert_int_equal(mr_prompt_encode(rig.prompt, rig.request, 0, &err), MR_OK);
        assert_int_equal(rig.request->stop_token_count, cases[i].count);
        assert_int_equal(rig.request->stop_token_ids[0], ID('x'));
        if (cases[i].count == 2) assert_int_equal(rig.request->stop_token_ids[1], 0);
        close_rig(&rig);
    }
}

static void what_a_constraint_leaves_out_or_overrides_is_a_warning(void **state)
{
    (void)state;
    for (unsigned strict = 0; strict < 2; strict++) {
        struct rig rig;
        open_rig(&rig, TEMPLATE, 100);
        rig.request->prompt = text_of("a");
        rig.request->constraint.kind = MR_CONSTRAINT_JSON_SCHEMA;
        rig.request->constraint.text = text_of("{\"type\":\"string\",\"format\":\"phone\"}");
        rig.request->tool_use.choice = MR_TOOL_CHOICE_NONE;
        rig.request->min_tokens = 3;
        rig.request->sampling.logit_bias_count = 0;
        rig.request->sampling.allowed_token_count = 1;
        rig.request->sampling.bad_word_count = 0;
        rig.request->strict = strict;
        if (strict) assert_refused(&rig, MR_UNSUPPORTED, "schema #/format: this format");
        if (!strict) assert_tokens(&rig, "a");
        assert_int_equal(rig.request->warning_count, strict ? 0 : 3);
        const char *const parts[] = {"schema #/format", "precedence over min_tokens",
                                     "precedence over allowed_token_ids"};
        for (unsigned i = 0; i < 3 && !strict; i++)
            assert_non_null(strstr(rig.request->warnings[i].bytes, parts[i]));
        close_rig(&rig);
    }
}

static void what_cannot_be_a_prompt_is_refused(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "", 64);
    rig.request->prompt = text_of("");
    assert_refused(&rig, MR_EMPTY_PROMPT, "no tokens");
    rig.request->prompt = text_of("a\xff");
    assert_refused(&rig, MR_MALFORMED, "");
    add_message(&rig, "u", "hi");
    assert_refused(&rig, MR_INVALID_REQUEST, "no chat template");
    close_rig(&rig);
    open_rig(&rig, "{{ raise_exception('only assistants') }}", 64);
    add_message(&rig, "u", "hi");
    assert_refused(&rig, MR_INVALID_REQUEST, "only assistants");
    close_rig(&rig);
}

static void a_request_with_tools_goes_through_the_template_for_tools(void **state)
{
    (void)state;
    static const struct mr_data tools[1] = {{.kind = MR_DATA_MAP}};
    struct rig rig;
    struct mr_prompt *with_tools;
    open_rig(&rig, TEMPLATE, 64);
    struct mr_prompt_options options = {.tokenizer = rig.tokenizer,
                                        .chat_template = text_of(TEMPLATE),
                                        .tool_template = text_of("T{{ tools | length }}"),
                                        .prompt_tokens_max = 64};
    assert_int_equal(mr_prompt_create(&with_tools, &options, NULL), MR_OK);
    mr_prompt_destroy(rig.prompt);
    rig.prompt = with_tools;
    add_message(&rig, "u", "hi");
    assert_tokens(&rig, "u:hi$A");
    rig.request->chat.tools = (struct mr_data){.kind = MR_DATA_LIST, .list = {tools, 1}};
    assert_tokens(&rig, "T1");
    close_rig(&rig);
}

static void a_template_that_does_not_compile_is_a_bad_file(void **state)
{
    (void)state;
    struct mr_tokenizer *tokenizer = mr_fake_tokenizer();
    struct mr_prompt *prompt = NULL;
    struct mr_prompt_options options = {
        .tokenizer = tokenizer, .chat_template = text_of("{% for m in %}"), .prompt_tokens_max = 8};
    assert_int_equal(mr_prompt_create(&prompt, &options, NULL), MR_BAD_FILE);
    assert_null(prompt);
    options.tool_template = options.chat_template;
    options.chat_template = text_of(TEMPLATE);
    assert_int_equal(mr_prompt_create(&prompt, &options, NULL), MR_BAD_FILE);
    assert_null(prompt);
    mr_prompt_destroy(NULL);
    mr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_prompt_may_name_special_tokens),
        cmocka_unit_test(messages_go_through_the_template),
        cmocka_unit_test(a_special_token_in_a_message_stays_text),
        cmocka_unit_test(a_prompt_may_be_as_long_as_the_limit_and_no_longer),
        cmocka_unit_test(a_prompt_is_truncated_on_request),
        cmocka_unit_test(echo_keeps_the_text_that_the_answer_continues),
        cmocka_unit_test(echo_has_the_parts_of_a_message_as_the_prompt_has_them),
        cmocka_unit_test(strict_calls_get_a_grammar_where_the_format_allows_it),
        cmocka_unit_test(a_prompt_that_opens_the_reasoning_is_noticed),
        cmocka_unit_test(a_continued_message_may_open_the_reasoning),
        cmocka_unit_test(opened_reasoning_is_left_free),
        cmocka_unit_test(a_limit_on_reasoning_gets_the_tokens_of_its_end),
        cmocka_unit_test(a_stop_that_names_a_control_token_is_a_stop_token),
        cmocka_unit_test(what_a_constraint_leaves_out_or_overrides_is_a_warning),
        cmocka_unit_test(what_cannot_be_a_prompt_is_refused),
        cmocka_unit_test(a_request_with_tools_goes_through_the_template_for_tools),
        cmocka_unit_test(a_template_that_does_not_compile_is_a_bad_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
