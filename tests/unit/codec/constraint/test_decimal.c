#include "codec/constraint/decimal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_decimal read(const char *text)
{
    struct mr_decimal value;
    assert_true(mr_decimal_read(&value, (struct mr_text){text, strlen(text)}));
    return value;
}

static void assert_same(struct mr_decimal value, const char *text)
{
    struct mr_decimal other = read(text);
    if (mr_decimal_compare(&value, &other) != 0) fail_msg("not %s", text);
}

static void numbers_compare_by_value(void **state)
{
    (void)state;
    static const char *const ascending[] = {"-1e30", "-2.5",   "-2.25", "-0.1",
                                            "0",     "1e-300", "0.1",   "0.11",
                                            "9",     "10",     "1e2",   "18446744073709551616"};
    for (size_t i = 0; i < sizeof ascending / sizeof ascending[0]; i++)
        for (size_t k = 0; k < sizeof ascending / sizeof ascending[0]; k++) {
            struct mr_decimal one = read(ascending[i]), other = read(ascending[k]);
            int order = mr_decimal_compare(&one, &other);
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
    assert_same(read("-0.0e5"), "0");
    assert_same(read("12.50e1"), "125");
    struct mr_decimal value;
    assert_false(mr_decimal_read(&value, (struct mr_text){"1e900", 5}));
}

static void numbers_round_and_step(void **state)
{
    (void)state;
    struct mr_decimal value = read("-1.001");
    mr_decimal_cut(&value, 2, true);
    assert_same(value, "-1");
    value = read("9.995");
    mr_decimal_cut(&value, 2, true);
    assert_same(value, "10");
    value = read("-0.5");
    mr_decimal_cut(&value, 0, false);
    assert_same(value, "-1");
    mr_decimal_step(&value, true);
    assert_same(value, "0");
    mr_decimal_step(&value, false);
    assert_same(value, "-1");
    value = read("18446744073709551999");
    mr_decimal_step(&value, true);
    assert_same(value, "18446744073709552000");
    value = read("0.1");
    assert_true(mr_decimal_next_double(&value, true));
    assert_same(value, "0.10000000000000002");
    value = read("1.7976931348623157e308");
    assert_false(mr_decimal_next_double(&value, true));
}

static void multiples_are_exact(void **state)
{
    (void)state;
    struct mr_decimal value = read("0.07");
    assert_true(mr_decimal_is_multiple(&value, 1, 2));
    assert_false(mr_decimal_is_multiple(&value, 5, 2));
    assert_false(mr_decimal_is_multiple(&value, 1, 1));
    value = read("-36893488147419103232");
    assert_true(mr_decimal_is_multiple(&value, 1024, 0));
    assert_false(mr_decimal_is_multiple(&value, 3, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_compare_by_value),
        cmocka_unit_test(numbers_round_and_step),
        cmocka_unit_test(multiples_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
