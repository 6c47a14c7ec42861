#include "codec/template/jinja_statements.h"

#include "tests/unit/codec/template/rendering.h"

static void blocks_have_scopes(void **state)
{
    (void)state;
    assert_rendered("{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}",
                    "211");
    assert_rendered("{% filter upper %}a{% endfilter %}{% set b | trim %} b {% endset %}{{ b }}",
                    "Ab");
    assert_rendered("{% generation %}{% set z = 1 %}g{% endgeneration %}{{ z is defined }}",
                    "gFalse");
}

static void a_call_block_is_the_caller_of_its_macro(void **state)
{
    (void)state;
    assert_rendered(
        "{% macro m(a) %}<{{ caller(a) }}>{% endmacro %}{% call(v) m(1) %}{{ v }}{% endcall %}",
        "<1>");
    assert_rendered("{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", NULL);
}

static void loops_call_themselves(void **state)
{
    (void)state;
    assert_rendered(
        "{% for a in [1, [2, [3]]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}",
        "123");
    assert_rendered("{% for a in [[1]] %}{{ loop(a) }}{% endfor %}", NULL);
}

static void values_are_unpacked(void **state)
{
    (void)state;
    assert_rendered("{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123");
    assert_rendered("{% set a, b = [1] %}", NULL);
    assert_rendered("{% set d = {} %}{% set d.x = 1 %}", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_scopes),
        cmocka_unit_test(a_call_block_is_the_caller_of_its_macro),
        cmocka_unit_test(loops_call_themselves),
        cmocka_unit_test(values_are_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
