#include "codec/template/jinja_sequences.h"

#include "tests/unit/codec/template/rendering.h"

static void items_are_ordered(void **state)
{
    (void)state;
    assert_rendered(
        "{{ ['b', 'A', 'a'] | sort | join }}{{ ['b', 'A'] | sort(case_sensitive=true) | join }}",
        "AabAb");
    assert_rendered("{{ {'b': 1, 'a': 2} | dictsort }}", "[('a', 2), ('b', 1)]");
    assert_rendered("{{ [3, 1] | min }}{{ [3, 1] | max }}{{ ['a', 'A'] | unique | list }}",
                    "13['a']");
    assert_rendered("{{ [1, 'a'] | sort }}", NULL);
}

static void items_are_grouped_and_divided(void **state)
{
    (void)state;
    assert_rendered("{% for k, v in [{'a': 1}, {'a': 2}, {'a': 1}] | groupby('a') %}{{ k }}{{ v | "
                    "length }};{% endfor %}",
                    "12;21;");
    assert_rendered("{{ [1, 2, 3] | batch(2, 0) | list }}{{ [1, 2, 3] | slice(2) | list }}",
                    "[[1, 2], [3, 0]][[1, 2], [3]]");
    assert_rendered("{{ [1] | batch(0) | list }}", NULL);
}

static void a_filtered_list_has_no_length(void **state)
{
    (void)state;
    assert_rendered("{{ [1, 2] | select('odd') | length }}", NULL);
    assert_rendered("{{ [1, 2] | select('odd') | list | length }}", "1");
    assert_rendered("{% set s = [1] | select %}{{ s | list }}{{ s | list }}", "[1][]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_ordered),
        cmocka_unit_test(items_are_grouped_and_divided),
        cmocka_unit_test(a_filtered_list_has_no_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
