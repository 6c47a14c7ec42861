#include "codec/jinja/jinja_lexer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_jinja_token *lex(const char *source, struct mr_arena *arena)
{
    struct mr_jinja_token *tokens;
    struct mr_text text = {source, strlen(source)};
    assert_int_equal(mr_jinja_lex(text, arena, &tokens, NULL), MR_OK);
    return tokens;
}

static void assert_token(const struct mr_jinja_token *token, enum mr_jinja_token_kind kind,
                         const char *text)
{
    assert_int_equal(token->kind, kind);
    assert_int_equal(token->text.length, strlen(text));
    assert_memory_equal(token->text.bytes, text, strlen(text));
}

static void a_block_removes_its_newline_and_indentation(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 16);
    const struct mr_jinja_token *tokens = lex("a\n  {% if x %}\nb\n", arena);
    assert_token(&tokens[0], MR_JINJA_TOKEN_DATA, "a\n");
    assert_token(&tokens[1], MR_JINJA_TOKEN_BLOCK_BEGIN, "");
    assert_token(&tokens[4], MR_JINJA_TOKEN_BLOCK_END, "");
    assert_token(&tokens[5], MR_JINJA_TOKEN_DATA, "b");
    assert_int_equal(tokens[6].kind, MR_JINJA_TOKEN_END);
    assert_int_equal(tokens[5].line, 3);
    mr_arena_destroy(arena);
}

static void signs_keep_or_remove_white_space(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 16);
    const struct mr_jinja_token *tokens = lex("a \n {{- x -}} \n b {%+ if y +%}\nc", arena);
    assert_token(&tokens[0], MR_JINJA_TOKEN_DATA, "a");
    assert_token(&tokens[4], MR_JINJA_TOKEN_DATA, "b ");
    assert_token(&tokens[9], MR_JINJA_TOKEN_DATA, "\nc");
    mr_arena_destroy(arena);
}

static void text_is_unescaped(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 16);
    const struct mr_jinja_token *tokens = lex("{{ 'a\\n\\'\\u00e9\\x41\\q' }}", arena);
    assert_token(&tokens[1], MR_JINJA_TOKEN_STRING,
                 "a\n'\xc3\xa9"
                 "A\\q");
    mr_arena_destroy(arena);
}

static void unclosed_tags_and_strings_are_rejected(void **state)
{
    (void)state;
    static const char *const sources[] = {"{{ x", "{% if", "{# never", "{{ 'x }}", "{{ ` }}"};
    struct mr_arena *arena = mr_arena_create(1 << 16);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct mr_jinja_token *tokens;
        struct mr_text text = {sources[i], strlen(sources[i])};
        assert_int_equal(mr_jinja_lex(text, arena, &tokens, NULL), MR_BAD_FILE);
    }
    mr_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_removes_its_newline_and_indentation),
        cmocka_unit_test(signs_keep_or_remove_white_space),
        cmocka_unit_test(text_is_unescaped),
        cmocka_unit_test(unclosed_tags_and_strings_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
