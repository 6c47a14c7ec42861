#include "codec/constraint/char_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool has(const struct mr_char_set *set, uint32_t character)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (character >= set->ranges[i].low && character <= set->ranges[i].high) return true;
    return false;
}

static void the_inverse_has_all_other_characters(void **state)
{
    (void)state;
    struct mr_char_set set = {.count = 0};
    assert_true(mr_char_set_add(&set, 'm', 'p'));
    assert_true(mr_char_set_add(&set, 0, 'c'));
    assert_true(mr_char_set_add(&set, 'b', 'd'));
    assert_true(mr_char_set_invert(&set));
    assert_int_equal(set.count, 2);
    for (uint32_t c = 0; c < 300; c++)
        assert_int_equal(has(&set, c), c > 'd' && !(c >= 'm' && c <= 'p'));
    assert_true(has(&set, MR_CODE_POINT_MAX));
    assert_true(mr_char_set_invert(&set) && mr_char_set_invert(&set) && !has(&set, 'n'));
}

static void all_characters_inverted_are_none(void **state)
{
    (void)state;
    struct mr_char_set set = {.count = 0};
    mr_char_set_add(&set, 0, MR_CODE_POINT_MAX);
    assert_true(mr_char_set_invert(&set));
    assert_int_equal(set.count, 0);
}

static void a_full_set_takes_no_more(void **state)
{
    (void)state;
    struct mr_char_set set = {.count = 0};
    for (uint32_t i = 0; i < MR_CHAR_SET_RANGES_MAX; i++)
        assert_true(mr_char_set_add(&set, 2 * i, 2 * i));
    assert_false(mr_char_set_add(&set, 5000, 5000));
}

static void narrow_sets_are_inside_wide_ones(void **state)
{
    (void)state;
    static const char names[] = "dwsDWS";
    for (const char *name = names; *name; name++) {
        struct mr_char_set narrow = {.count = 0}, wide = {.count = 0};
        assert_true(mr_char_set_add_named(&narrow, *name, true));
        assert_true(mr_char_set_add_named(&wide, *name, false));
        for (uint32_t c = 0; c < 0x3100; c++)
            assert_true(!has(&narrow, c) || has(&wide, c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_inverse_has_all_other_characters),
        cmocka_unit_test(all_characters_inverted_are_none),
        cmocka_unit_test(a_full_set_takes_no_more),
        cmocka_unit_test(narrow_sets_are_inside_wide_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
