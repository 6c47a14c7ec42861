#include "codec/unicode/unicode_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_unicode_table *const tables[] = {
    &mr_unicode_added, &mr_unicode_added_numeric, &mr_unicode_punctuation_flips, &mr_unicode_inert,
    &mr_unicode_former_marks};

static void ranges_are_sorted_and_do_not_overlap(void **state)
{
    (void)state;
    assert_true(mr_unicode_added.count > 50);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        assert_true(tables[i]->count > 0);
        for (size_t k = 0; k < tables[i]->count; k++) {
            const struct mr_unicode_range *range = &tables[i]->ranges[k];
            assert_true(range->first <= range->last && range->last < 0x110000);
            if (k > 0) assert_true(range[-1].last < range->first);
        }
    }
}

static void only_added_characters_have_a_category(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (size_t k = 0; k < tables[i]->count; k++) {
            const struct mr_unicode_range *range = &tables[i]->ranges[k];
            bool known = range->major && strchr("LMNPSC", range->major) && range->minor;
            assert_true(tables[i] == &mr_unicode_added ? known : !range->major);
        }
}

static void pairs_are_sorted_by_the_upper_case_letter(void **state)
{
    (void)state;
    assert_true(mr_unicode_lower_pair_count > 0);
    for (size_t i = 1; i < mr_unicode_lower_pair_count; i++)
        assert_true(mr_unicode_lower_pairs[i - 1].upper < mr_unicode_lower_pairs[i].upper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_sorted_and_do_not_overlap),
        cmocka_unit_test(only_added_characters_have_a_category),
        cmocka_unit_test(pairs_are_sorted_by_the_upper_case_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
