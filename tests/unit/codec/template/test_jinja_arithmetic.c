#include "codec/template/jinja_arithmetic.h"

#include "tests/unit/codec/template/rendering.h"

static void operators_are_those_of_python(void **state)
{
    (void)state;
    assert_rendered("{{ 7 // -2 }} {{ -7 % 3 }} {{ 7.5 % -2 }} {{ 1 / 4 }}", "-4 2 -0.5 0.25");
    assert_rendered("{{ 'ab' * 2 }}{{ 2 * [1] }}{{ (1,) + (2,) }}", "abab[1, 1](1, 2)");
    assert_rendered("{{ '%s' % 1 }}{{ 1 ~ none }}", "11None");
    assert_rendered("{{ [1] + (2,) }}", NULL);
    assert_rendered("{{ missing + 1 }}", NULL);
    assert_rendered("{{ -'a' }}", NULL);
}

static void slices_are_those_of_python(void **state)
{
    (void)state;
    assert_rendered("{{ 'abcdef'[1:4] }}{{ 'abc'[::-1] }}{{ [1, 2, 3][-2:] }}", "bcdcba[2, 3]");
    assert_rendered("{{ (1, 2, 3)[:2] }}{{ 'abc'[2:1] }}", "(1, 2)");
    assert_rendered("{{ 'abc'[::0] }}", NULL);
    assert_rendered("{{ none[1:] is defined }}", "False");
}

static void markup_escapes_what_is_added(void **state)
{
    (void)state;
    assert_rendered("{{ ('<' | safe) + '<' }}{{ '<' + ('>' | escape) }}{{ ('<' | safe) ~ '<' }}",
                    "<&lt;&lt;&gt;<<");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_are_those_of_python),
        cmocka_unit_test(slices_are_those_of_python),
        cmocka_unit_test(markup_escapes_what_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
