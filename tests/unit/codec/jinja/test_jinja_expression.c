#include "codec/jinja/jinja_expression.h"

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
    struct mr_text text = {source, strlen(source)};
    assert_int_equal(mr_jinja_lex(text, arena, &tokens, NULL), MR_OK);
    struct mr_jinja_parser parser = {.at = tokens + 1, .arena = arena, .status = MR_OK};
    const struct mr_jinja_node *node = mr_jinja_parse_expression(&parser);
    *status = parser.status;
    return node;
}

static void operators_have_the_precedence_of_jinja(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 18);
    enum mr_status status;
    const struct mr_jinja_node *node = parse("{{ a or b and not c == 1 + 2 * 3 }}", arena, &status);
    assert_int_equal(status, MR_OK);
    assert_int_equal(node->kind, MR_JINJA_NODE_OR);
    assert_int_equal(node->b->kind, MR_JINJA_NODE_AND);
    assert_int_equal(node->b->b->kind, MR_JINJA_NODE_NOT);
    const struct mr_jinja_node *compare = node->b->b->a;
    assert_int_equal(compare->kind, MR_JINJA_NODE_COMPARE);
    assert_int_equal(compare->b->text.bytes[0], '+');
    assert_int_equal(compare->b->b->text.bytes[0], '*');
    mr_arena_destroy(arena);
}

static void postfix_comes_before_filters_and_tests(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 18);
    enum mr_status status;
    const struct mr_jinja_node *node =
        parse("{{ a.b[1:](x, k=2) | f(3) is not t }}", arena, &status);
    assert_int_equal(status, MR_OK);
    assert_int_equal(node->kind, MR_JINJA_NODE_NOT);
    assert_int_equal(node->a->kind, MR_JINJA_NODE_TEST);
    assert_int_equal(node->a->a->kind, MR_JINJA_NODE_FILTER);
    const struct mr_jinja_node *call = node->a->a->a;
    assert_int_equal(call->kind, MR_JINJA_NODE_CALL);
    assert_int_equal(call->items->next->kind, MR_JINJA_NODE_KEYWORD);
    assert_int_equal(call->a->kind, MR_JINJA_NODE_SLICE);
    mr_arena_destroy(arena);
}

static void a_long_row_of_signs_is_rejected(void **state)
{
    (void)state;
    struct mr_arena *arena = mr_arena_create(1 << 22);
    enum mr_status status;
    static char source[20008] = "{{ ";
    memset(source + 3, '-', 20000);
    memcpy(source + 20003, "1}}", 4);
    parse(source, arena, &status);
    assert_int_equal(status, MR_BAD_FILE);
    memcpy(source + 33, "1}}", 4);
    assert_non_null(parse(source, arena, &status));
    assert_int_equal(status, MR_OK);
    mr_arena_destroy(arena);
}

static void invalid_expressions_are_rejected(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{{ }}",           "{{ 1 + }}",  "{{ a. }}",  "{{ {1} }}",
        "{{ a | }}",       "{{ a is }}", "{{ a[] }}", "{{ 99999999999999999999 }}",
        "{{ a[1:2:3:4] }}"};
    struct mr_arena *arena = mr_arena_create(1 << 18);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        enum mr_status status;
        parse(sources[i], arena, &status);
        assert_int_equal(status, MR_BAD_FILE);
    }
    mr_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_have_the_precedence_of_jinja),
        cmocka_unit_test(postfix_comes_before_filters_and_tests),
        cmocka_unit_test(a_long_row_of_signs_is_rejected),
        cmocka_unit_test(invalid_expressions_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
