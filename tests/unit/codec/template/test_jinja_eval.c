#include "codec/template/jinja_eval.h"

#include "codec/jinja/jinja_lexer.h"
#include "codec/jinja/jinja_parser.h"
#include "codec/template/jinja_statements.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Asserts the output of source with the variable x = 3; expected NULL: the run fails. */
static void assert_renders(const char *source, const char *expected)
{
    struct mr_arena *arena = mr_arena_create(1 << 24);
    struct mr_jinja_run run = {.arena = arena};
    struct mr_jinja_token *tokens;
    const struct mr_jinja_node *root;
    struct mr_jinja_buffer out = {0};
    struct mr_text text = {source, strlen(source)};
    assert_int_equal(mr_jinja_lex(text, arena, &tokens, NULL), MR_OK);
    assert_int_equal(mr_jinja_parse(tokens, arena, &root, NULL), MR_OK);
    struct mr_jinja_value globals = mr_jinja_dict_new(&run);
    mr_jinja_dict_set(&run, globals.dict, mr_jinja_literal("x"), mr_jinja_int(3));
    mr_jinja_run_template(&run, root, globals.dict, &out);
    assert_int_equal(run.status, expected ? MR_OK : MR_INVALID_REQUEST);
    if (expected) assert_int_equal(out.length, strlen(expected));
    if (expected && out.length) assert_memory_equal(out.bytes, expected, out.length);
    mr_arena_destroy(arena);
}

static void operators_group_as_in_the_reference(void **state)
{
    (void)state;
    assert_renders("{{ 'a' ~ 1 + 'b' }} {{ 2 * 3 ~ 'x' }} {{ 1 - 2 - 3 }}", "a1b 6x -4");
    assert_renders("{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }} {{ 2 * 3 ** 2 }}", "64 4 0.5 18");
    assert_renders("{{ 'a' ~ 1 + 2 }}", NULL);
}

static void powers_are_exact_or_fail(void **state)
{
    (void)state;
    assert_renders(
        "{{ 3 ** 39 }} {{ (-1) ** 1000000000001 }} {{ (-1) ** 2000000000000 }} {{ 0 ** 9 }}",
        "4052555153018976267 -1 1 0");
    assert_renders("{{ 0 ** 0 }} {{ 2 ** -2 }} {{ 1 ** -5 }}", "1 0.25 1.0");
    assert_renders("{{ 10 ** 30 }}", NULL);
    assert_renders("{{ 2 ** 63 }}", NULL);
    assert_renders("{{ 0 ** -1 }}", NULL);
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
    assert_renders(
        "{% macro m(a, b='B', c=missing) %}{{ a }}{{ b }}{{ c is defined }}{{ x }}{% endmacro %}"
        "{{ m(1) }}|{{ m(1, c=2) }}",
        "1BFalse3|1BTrue3");
}

static void slices_have_steps_of_both_signs(void **state)
{
    (void)state;
    assert_renders("{{ 'abcde'[1:-1] }}{{ 'abc'[::-1] }}{{ [1, 2, 3][-9:9] }}{{ 'abcd'[::2] }}",
                   "bcdcba[1, 2, 3]ac");
    assert_renders("{{ 'abcd'[3::9223372036854775807] }}{{ 'abc'[2::-9223372036854775807] }}",
                   "dc");
}

static void arithmetic_refuses_what_is_no_number(void **state)
{
    (void)state;
    assert_renders("{{ -x }} {{ -true }} {{ -1.5 }} {{ -3 | abs }} {{ true | abs }}",
                   "-3 -1 -1.5 3 1");
    assert_renders("{{ -'3' }}", NULL);
    assert_renders("{{ -missing }}", NULL);
    assert_renders("{{ 'a' | abs }}", NULL);
    assert_renders("{{ missing | abs }}", NULL);
}

static void ranges_are_bounded(void **state)
{
    (void)state;
    assert_renders("{{ range(3)|list }}{{ range(5, 1, -2)|list }}{{ range(2, 1)|list }}",
                   "[0, 1, 2][5, 3][]");
    assert_renders("{{ range(0, 9223372036854775807, 5000000000000000000) | list }}",
                   "[0, 5000000000000000000]");
    assert_renders("{{ range(5000) | length }}", "5000");
    assert_renders("{{ range(100001) | length }}", NULL);
    assert_renders("{{ range('a') }}", NULL);
}

static void every_run_ends(void **state)
{
    (void)state;
    assert_renders("{% set n = namespace() %}{% set n.n = n %}{{ n }}", NULL);
    assert_renders("{% set a = [1] %}{% set b = [1] %}{% for i in range(60) %}"
                   "{% set a = [a, a] %}{% set b = [b, b] %}{% endfor %}{{ a == b }}",
                   "True");
    assert_renders(
        "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}"
        "{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}",
        NULL);
    assert_renders("{{ range(9000) | unique | list | length }}", NULL);
    assert_renders("{{ [].append(1) }}", NULL);
    assert_renders("{{ {[1]: 2} }}", NULL);
}

/* Writes "{{ 0 + 1 + 1 ... }}" with so many operators. */
static void write_chain(char *source, size_t count)
{
    memcpy(source, "{{ 0", 4);
    for (size_t i = 0; i < count; i++)
        memcpy(source + 4 + 4 * i, " + 1", 4);
    memcpy(source + 4 + 4 * count, " }}", 4);
}

static void a_long_chain_of_operators_is_bounded(void **state)
{
    (void)state;
    char source[8192];
    write_chain(source, 300);
    assert_renders(source, "300");
    write_chain(source, 1300);
    assert_renders(source, NULL);
}

static void literals_are_those_of_python(void **state)
{
    (void)state;
    assert_renders(
        "{{ 1.0444444444444444444444444444444444 }} {{ 0.1 }} {{ 2.50 }} {{ 123456789.125 }}",
        "1.0444444444444445 0.1 2.5 123456789.125");
    assert_renders("{{ '\\101\\0419\\60' }}", "A!90");
}

static void filters_of_text_print_other_values(void **state)
{
    (void)state;
    assert_renders("{{ missing | trim }}{{ missing | upper | lower | title | capitalize }}", "");
    assert_renders("{{ none | trim }} {{ 5 | upper }} {{ [1] | trim }} {{ true | lower }}",
                   "None 5 [1] true");
    assert_renders("{{ none | replace('o', 1) }} {{ 121 | replace(1, 3) }} {{ none | string }}",
                   "N1ne 323 None");
    assert_renders("{{ none.strip() }}", NULL);
}

static void an_undefined_value_is_iterable_and_callable(void **state)
{
    (void)state;
    assert_renders("{{ missing is iterable }}{{ none is iterable }}{{ 'a' is iterable }}"
                   "{{ missing is callable }}{{ none is callable }}",
                   "TrueFalseTrueTrueFalse");
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
        cmocka_unit_test(operators_group_as_in_the_reference),
        cmocka_unit_test(powers_are_exact_or_fail),
        cmocka_unit_test(arithmetic_refuses_what_is_no_number),
        cmocka_unit_test(ranges_are_bounded),
        cmocka_unit_test(every_run_ends),
        cmocka_unit_test(a_long_chain_of_operators_is_bounded),
        cmocka_unit_test(literals_are_those_of_python),
        cmocka_unit_test(filters_of_text_print_other_values),
        cmocka_unit_test(an_undefined_value_is_iterable_and_callable),
        cmocka_unit_test(slices_have_steps_of_both_signs),
        cmocka_unit_test(division_rounds_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
