#include "codec/template/jinja_filters.h"

#include "tests/unit/codec/template/rendering.h"

static void filters_take_arguments_by_name(void **state)
{
    (void)state;
    assert_rendered("{{ 'a\nb' | indent(first=true, width=1) }}", " a\n b");
    assert_rendered("{{ 'aa' | replace(new='b', old='a', count=1) }}", "ba");
    assert_rendered("{{ 1 | tojson(wrong=1) }}", NULL);
    assert_rendered("{{ 1 | abs(2) }}", NULL);
}

static void numbers_are_parsed_and_rounded(void **state)
{
    (void)state;
    assert_rendered("{{ ' 12 ' | int }}{{ 'x' | int(7) }}{{ '1_0' | int }}{{ 'ff' | int(0, 16) }}",
                    "12710255");
    assert_rendered("{{ 2.5 | round }} {{ 2.675 | round(2) }} {{ 7 | round }}", "2.0 2.67 7");
    assert_rendered("{{ 'a' | round }}", NULL);
}

static void json_is_that_of_python(void **state)
{
    (void)state;
    assert_rendered("{{ {'b': [1, none], 'a': 'é'} | tojson(sort_keys=true) }}",
                    "{\"a\": \"é\", \"b\": [1, null]}");
    assert_rendered("{{ 'é🙂' | tojson(ensure_ascii=true) }}", "\"\\u00e9\\ud83d\\ude42\"");
    assert_rendered("{{ missing | tojson }}", NULL);
}

static void map_calls_a_filter_or_takes_an_attribute(void **state)
{
    (void)state;
    assert_rendered("{{ ['a'] | map('upper') | list }}{{ [{'k': 1}] | map(attribute='k') | list }}",
                    "['A'][1]");
    assert_rendered("{{ none | map('upper') | list }}", "[]");
    assert_rendered("{{ [1] | map | list }}", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_take_arguments_by_name),
        cmocka_unit_test(numbers_are_parsed_and_rounded),
        cmocka_unit_test(json_is_that_of_python),
        cmocka_unit_test(map_calls_a_filter_or_takes_an_attribute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
