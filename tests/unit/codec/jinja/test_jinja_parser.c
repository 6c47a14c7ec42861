#include "codec/jinja/jinja_parser.h"

#include "codec/jinja/jinja_lexer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_jinja_node *parse(const char *source, struct mr_arena *arena,
                                         enum mr_status *status)
{
    struct mr_jinja_token *tokens;
    const struct mr_jinja_node *root = NULL;
    struct mr_text text = {source, strlen(source)};
    assert_int_equal(mr_jinja_lex(text, arena, &tokens, NULL), MR_OK);
    *status = mr_jinja_parse(tokens, arena, &root, NULL);
    return root;
}

static void statements_are_parsed_into_a_tree(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 16);
    enum mr_status status;
    const struct mr_jinja_node *root = parse("x{% if a %}1{% elif b %}2{% else %}3{% endif %}{% "
                                             "for i in l if i %}{% break %}{% endfor %}"
                                             "{% set n.x = 1 %}{% set y %}z{% endset %}",
                                             arena, &status);
    assert_int_equal(status, MR_OK);
    assert_int_equal(root->kind, MR_JINJA_NODE_DATA);
    const struct mr_jinja_node *branch = root->next;
    assert_int_equal(branch->kind, MR_JINJA_NODE_IF);
    assert_int_equal(branch->b->kind, MR_JINJA_NODE_IF);
    assert_int_equal(branch->b->b->kind, MR_JINJA_NODE_DATA);
    const struct mr_jinja_node *loop = branch->next;
    assert_int_equal(loop->kind, MR_JINJA_NODE_FOR);
    assert_int_equal(loop->b->kind, MR_JINJA_NODE_NAME);
    assert_int_equal(loop->items->kind, MR_JINJA_NODE_BREAK);
    assert_int_equal(loop->next->a->kind, MR_JINJA_NODE_ATTRIBUTE);
    assert_int_equal(loop->next->next->kind, MR_JINJA_NODE_SET_BLOCK);
    mr_arena_destroy(arena);
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 20);
    enum mr_status status;
    char source[100 * 12 + 1] = "";
    for (size_t i = 0; i < 100; i++)
        memcpy(source + i * 12, "{% if xyz %}", 12);
    assert_null(parse(source, arena, &status));
    assert_int_equal(status, MR_BAD_FILE);
    mr_arena_destroy(arena);
}

static void a_missing_end_is_rejected(void **state)
{
    (void)state;
    static const char *const sources[] = {"{% if a %}",      "{% for a in b %}", "{% set a %}",
                                          "{% macro m() %}", "{% endif %}",      "{{ a b }}"};
    struct mr_arena *arena = mr_arena_create(1 << 16);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        enum mr_status status;
        assert_null(parse(sources[i], arena, &status));
        assert_int_equal(status, MR_BAD_FILE);
    }
    mr_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statements_are_parsed_into_a_tree),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(a_missing_end_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
