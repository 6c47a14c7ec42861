#include "codec/template/jinja_text_methods.h"

#include "tests/unit/codec/template/rendering.h"

static void text_is_split_as_in_python(void **state)
{
    (void)state;
    assert_rendered("{{ ' a b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}",
                    "['a', 'b']['a', 'b,c']['a,b', 'c']");
    assert_rendered("{{ 'a\nb\n'.splitlines() }}{{ 'k=v'.partition('=') }}",
                    "['a', 'b']('k', '=', 'v')");
    assert_rendered("{{ 'a'.split('') }}", NULL);
}

static void text_is_searched_as_in_python(void **state)
{
    (void)state;
    assert_rendered("{{ 'abcb'.find('b', 2) }}{{ 'abc'.rfind('x') }}{{ 'aaa'.count('a') }}",
                    "3-13");
    assert_rendered("{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('b', 0, 2) }}",
                    "TrueTrue");
    assert_rendered("{{ 'abc'.index('x') }}", NULL);
    assert_rendered("{{ 'abc'.startswith(1) }}", NULL);
}

static void methods_that_change_a_value_are_refused(void **state)
{
    (void)state;
    assert_rendered("{{ [].append(1) }}", NULL);
    assert_rendered("{{ {}.update({}) }}", NULL);
    assert_rendered("{{ {'pop': 1}.pop is defined }}{{ {'pop': 1}['pop'] }}", "False1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_split_as_in_python),
        cmocka_unit_test(text_is_searched_as_in_python),
        cmocka_unit_test(methods_that_change_a_value_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
