#include "codec/template/jinja_eval.h"

#include "codec/template/jinja_lexer.h"
#include "codec/template/jinja_parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Asserts the output of source with the variable x = 3. */
static void assert_renders(const char *source, const char *expected)
{
    struct mr_arena *arena = mr_arena_create(1 << 20);
    struct mr_jinja_run run = {.arena = arena};
    struct mr_jinja_token *tokens;
    const struct mr_jinja_node *root;
    struct mr_jinja_buffer out = {0};
    struct mr_text text = {source, strlen(source)};
    assert_int_equal(mr_jinja_lex(text, arena, &tokens, NULL), MR_OK);
    assert_int_equal(mr_jinja_parse(tokens, arena, &root, NULL), MR_OK);
    struct mr_jinja_value globals = mr_jinja_dict_new(&run);
    mr_jinja_dict_set(&run, globals.dict, mr_jinja_literal("x"), mr_jinja_int(3));
    mr_jinja_eval(&run, root, globals.dict, &out);
    assert_int_equal(run.status, MR_OK);
    assert_int_equal(out.length, strlen(expected));
    if (out.length) assert_memory_equal(out.bytes, expected, out.length);
    mr_arena_destroy(arena);
}

static void variables_of_a_loop_end_with_it(void **state)
{
    (void)state;
    assert_renders("{% for i in [1, 2] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "123");
    assert_renders("{% if true %}{% set x = 4 %}{% endif %}{{ x }}", "4");
    assert_renders(
        "{% set n = namespace(v=0) %}{% for i in [1, 2] %}{% set n.v = n.v + i %}{% endfor %}"
        "{{ n.v }}",
        "3");
}

static void macros_bind_arguments(void **state)
{
    (void)state;
    assert_renders("{% macro m(a, b='B', c) %}{{ a }}{{ b }}{{ c is defined }}{{ x }}{% endmacro %}"
                   "{{ m(1) }}|{{ m(1, c=2) }}",
                   "1BFalse3|1BTrue3");
}

static void slices_have_steps_of_both_signs(void **state)
{
    (void)state;
    assert_renders("{{ 'abcde'[1:-1] }}{{ 'abc'[::-1] }}{{ [1, 2, 3][-9:9] }}{{ 'abcd'[::2] }}",
                   "bcdcba[1, 2, 3]ac");
}

static void division_rounds_down(void **state)
{
    (void)state;
    assert_renders("{{ -7 // 2 }} {{ -7 % 2 }} {{ 7 // -2 }} {{ x / 2 }}", "-4 1 -4 1.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_a_loop_end_with_it),
        cmocka_unit_test(macros_bind_arguments),
        cmocka_unit_test(slices_have_steps_of_both_signs),
        cmocka_unit_test(division_rounds_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
