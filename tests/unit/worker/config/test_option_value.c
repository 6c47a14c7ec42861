#include "worker/config/option_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void sizes_know_their_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},
                 {"1048576", 1048576},
                 {"2GiB", (uint64_t)2 << 30},
                 {"512 MiB", (uint64_t)512 << 20},
                 {"64k", 64000},
                 {"1.5KiB", 1536},
                 {"3tib", (uint64_t)3 << 40},
                 {"10B", 10},
                 {"7MB", 7000000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 1;
        assert_true(mr_parse_bytes(cases[i].text, &bytes));
        assert_true(bytes == cases[i].bytes);
    }
}

static void a_malformed_size_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {"",    "GiB",  "-1",      "1XiB",           "1 2", "nan",
                                        "inf", "0x10", "1e5GiBx", "99999999999TiB", " 1"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (mr_parse_bytes(cases[i], &bytes)) fail_msg("\"%s\" was taken as a size", cases[i]);
}

static void durations_need_a_unit(void **state)
{
    (void)state;
    uint64_t ns = 1;
    assert_true(mr_parse_duration("25s", &ns) && ns == 25000000000u);
    assert_true(mr_parse_duration("250ms", &ns) && ns == 250000000u);
    assert_true(mr_parse_duration("1.5s", &ns) && ns == 1500000000u);
    assert_true(mr_parse_duration("5m", &ns) && ns == 300000000000u);
    assert_true(mr_parse_duration("2h", &ns) && ns == 7200000000000u);
    assert_true(mr_parse_duration("10us", &ns) && ns == 10000u);
    assert_true(mr_parse_duration("0", &ns) && ns == 0);
    assert_false(mr_parse_duration("25", &ns));
    assert_false(mr_parse_duration("", &ns));
    assert_false(mr_parse_duration("s", &ns));
    assert_false(mr_parse_duration("-5s", &ns));
    assert_false(mr_parse_duration("5 minutes", &ns));
}

static void switches_have_four_spellings_each(void **state)
{
    (void)state;
    bool value = false;
    assert_true(mr_parse_bool("true", &value) && value);
    assert_true(mr_parse_bool("NO", &value) && !value);
    assert_true(mr_parse_bool("On", &value) && value);
    assert_true(mr_parse_bool("0", &value) && !value);
    assert_false(mr_parse_bool("", &value));
    assert_false(mr_parse_bool("2", &value));
    assert_false(mr_parse_bool("yess", &value));
}

static void numbers_allow_no_other_characters(void **state)
{
    (void)state;
    int64_t small;
    uint64_t big;
    double real;
    assert_true(mr_parse_int("-17", &small) && small == -17);
    assert_false(mr_parse_int("", &small));
    assert_false(mr_parse_int("1x", &small));
    assert_false(mr_parse_int("--1", &small));
    assert_false(mr_parse_int("9223372036854775808", &small));
    assert_true(mr_parse_uint("18446744073709551615", &big) && big == UINT64_MAX);
    assert_false(mr_parse_uint("-1", &big));
    assert_false(mr_parse_uint("18446744073709551616", &big));
    assert_false(mr_parse_uint(" 1", &big));
    assert_true(mr_parse_double("2.5e3", &real) && real == 2500);
    assert_false(mr_parse_double("nan", &real));
    assert_false(mr_parse_double("1e999", &real));
    assert_false(mr_parse_double("0x10", &real));
    assert_false(mr_parse_double("", &real));
}

static void formatting_reads_back(void **state)
{
    (void)state;
    static const uint64_t values[] = {0,          1,          1500,      (uint64_t)2 << 30,
                                      1000000000, 1500000000, 999999999, (uint64_t)3 << 20};
    char text[32];
    uint64_t back;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        mr_format_bytes(values[i], text, sizeof text);
        assert_true(mr_parse_bytes(text, &back) && back == values[i]);
        mr_format_duration(values[i], text, sizeof text);
        assert_true(mr_parse_duration(text, &back) && back == values[i]);
    }
    mr_format_bytes((uint64_t)2 << 30, text, sizeof text);
    assert_string_equal(text, "2GiB");
    mr_format_duration(1500000000, text, sizeof text);
    assert_string_equal(text, "1500ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_know_their_units),
        cmocka_unit_test(a_malformed_size_is_refused),
        cmocka_unit_test(durations_need_a_unit),
        cmocka_unit_test(switches_have_four_spellings_each),
        cmocka_unit_test(numbers_allow_no_other_characters),
        cmocka_unit_test(formatting_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
