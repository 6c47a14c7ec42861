#include "codec/template/jinja_names.h"

#include "tests/unit/codec/template/rendering.h"

static void unknown_names_are_refused(void **state)
{
    (void)state;
    assert_rendered("{{ 1 | nothing }}", NULL);
    assert_rendered("{{ 1 is nothing }}", NULL);
    assert_rendered("{{ [] | select('nothing') }}", NULL);
    assert_rendered("{{ [] | map('nothing') }}", NULL);
    assert_rendered("{{ nothing() }}", NULL);
}

static void an_unknown_name_may_be_guarded(void **state)
{
    (void)state;
    assert_rendered("{% if false %}{{ 1 | nothing }}{% endif %}{{ 2 }}", "2");
    assert_rendered("{{ (1 | nothing) if false else 3 }}", "3");
    assert_rendered("{% if true %}{{ 1 | nothing }}{% endif %}", NULL);
    assert_rendered("{% if false %}{% for i in [] %}{{ 1 | nothing }}{% endfor %}{% endif %}",
                    NULL);
}

static void names_that_the_template_gives_are_known(void **state)
{
    (void)state;
    assert_rendered("{% macro f() %}1{% endmacro %}{{ f() }}", "1");
    assert_rendered("{% set g = namespace %}{{ g(a=2).a }}", "2");
    assert_rendered("{% if h is defined %}{{ h() }}{% endif %}", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(an_unknown_name_may_be_guarded),
        cmocka_unit_test(names_that_the_template_gives_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
