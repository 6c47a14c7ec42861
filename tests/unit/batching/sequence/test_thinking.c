#include "batching/sequence/thinking.h"

#include "codec/records/opened.h"
#include "codec/tokenizer/stop_match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Each token is a text with an id of its own; those of the end are 100 and above. */
struct rig {
    struct mr_arena *arena;
    struct mr_thinking_limit limit;
    struct mr_thinking thinking;
};

static const uint32_t end_ids[] = {100, 101};

static void begin(struct rig *rig, enum mr_tool_format format, enum mr_opened opened,
                  uint32_t tokens)
{
    size_t count;
    struct mr_error err;
    const struct mr_text *words = mr_opened_words(format, &count);
    rig->arena = mr_arena_create(1 << 20);
    rig->limit = (struct mr_thinking_limit){.tokens = tokens,
                                            .end_ids = end_ids,
                                            .end_count = 2,
                                            .opened = mr_opened_text(format, opened),
                                            .channels = format == MR_TOOLS_HARMONY};
    assert_int_equal(mr_stop_match_create(&rig->limit.words, rig->arena, words, count, &err),
                     MR_OK);
    mr_thinking_init(&rig->thinking, &rig->limit);
}

static void end(struct rig *rig)
{
    mr_arena_destroy(rig->arena);
}

/* Pushes a token that nothing forces. */
static void push_free(struct rig *rig, const char *text)
{
    uint32_t id;
    if (mr_thinking_forces(&rig->thinking, &id)) fail_msg("%u is forced before %s", id, text);
    mr_thinking_push(&rig->thinking, 1, (struct mr_text){text, strlen(text)});
}

static void push_forced(struct rig *rig, const char *text, uint32_t want)
{
    uint32_t id = 0;
    if (!mr_thinking_forces(&rig->thinking, &id)) fail_msg("nothing is forced before %s", text);
    assert_int_equal(id, want);
    mr_thinking_push(&rig->thinking, id, (struct mr_text){text, strlen(text)});
}

static void the_end_is_forced_after_the_limit(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, MR_TOOLS_NONE, MR_OPENED_TAG, 3);
    push_free(&rig, "a");
    push_free(&rig, " b");
    push_free(&rig, "</");
    assert_true(mr_thinking_is_open(&rig.thinking));
    push_forced(&rig, "</th", 100);
    push_forced(&rig, "ink>", 101);
    assert_false(mr_thinking_is_open(&rig.thinking));
    push_free(&rig, "<think>");
    push_free(&rig, "c");
    end(&rig);
}

static void without_tokens_the_end_comes_first(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, MR_TOOLS_NONE, MR_OPENED_TEXT, 0);
    push_forced(&rig, "</think", 100);
    push_forced(&rig, ">", 101);
    assert_false(mr_thinking_is_open(&rig.thinking));
    end(&rig);
}

static void reasoning_that_ends_by_itself_forces_nothing(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, MR_TOOLS_NONE, MR_OPENED_TAG, 3);
    push_free(&rig, "a<");
    push_free(&rig, "/think>\n");
    assert_false(mr_thinking_is_open(&rig.thinking));
    end(&rig);
}

static void an_answer_may_begin_reasoning_itself(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, MR_TOOLS_NONE, MR_OPENED_NOTHING, 1);
    push_free(&rig, "\n<th");
    push_free(&rig, "ink>");
    push_free(&rig, "a");
    push_forced(&rig, "</think", 100);
    end(&rig);
    begin(&rig, MR_TOOLS_NONE, MR_OPENED_NOTHING, 0);
    push_free(&rig, "a");
    assert_false(mr_thinking_is_open(&rig.thinking)); /* what follows text is none */
    push_free(&rig, "<think>");
    push_free(&rig, "b");
    end(&rig);
    begin(&rig, MR_TOOLS_NONE, MR_OPENED_NOTHING, 0);
    push_free(&rig, "<thank");
    assert_false(mr_thinking_is_open(&rig.thinking));
    end(&rig);
}

static void all_analysis_of_an_answer_counts_together(void **state)
{
    (void)state;
    struct rig rig;
    begin(&rig, MR_TOOLS_HARMONY, MR_OPENED_NOTHING, 3);
    push_free(&rig, "<|channel|>");
    push_free(&rig, "analysis");
    push_free(&rig, "<|message|>");
    push_free(&rig, "a");
    push_free(&rig, "<|end|>");
    push_free(&rig, "<|start|>");
    push_free(&rig, "assistant");
    push_free(&rig, "<|channel|>");
    push_free(&rig, "analysis");
    push_forced(&rig, "<|end|>", 100);
    push_forced(&rig, "<|start|>", 101);
    push_free(&rig, "final");
    assert_true(mr_thinking_is_open(&rig.thinking));
    end(&rig);
    begin(&rig, MR_TOOLS_HARMONY, MR_OPENED_TEXT, 1);
    push_free(&rig, "a");
    push_forced(&rig, "<|end|>", 100);
    end(&rig);
}

static void no_limit_forces_nothing(void **state)
{
    (void)state;
    const struct mr_thinking_limit none = {0};
    struct mr_thinking thinking;
    uint32_t id;
    mr_thinking_init(&thinking, &none);
    mr_thinking_push(&thinking, 1, (struct mr_text){"<think>", 7});
    assert_false(mr_thinking_is_open(&thinking));
    assert_false(mr_thinking_forces(&thinking, &id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_is_forced_after_the_limit),
        cmocka_unit_test(without_tokens_the_end_comes_first),
        cmocka_unit_test(reasoning_that_ends_by_itself_forces_nothing),
        cmocka_unit_test(an_answer_may_begin_reasoning_itself),
        cmocka_unit_test(all_analysis_of_an_answer_counts_together),
        cmocka_unit_test(no_limit_forces_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
