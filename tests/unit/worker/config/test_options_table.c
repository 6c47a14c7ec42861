#include "worker/config/options_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void names_are_found_with_either_separator(void **state)
{
    (void)state;
    assert_string_equal(mr_option_find("kv-memory")->name, "kv-memory");
    assert_ptr_equal(mr_option_find("kv_memory"), mr_option_find("kv-memory"));
    assert_null(mr_option_find("kv"));
    assert_null(mr_option_find("kv-memory-more"));
    assert_null(mr_option_find(""));
}

static void names_are_unique_and_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < mr_option_count; i++) {
        assert_int_equal(strspn(mr_options[i].name, "abcdefghijklmnopqrstuvwxyz-"),
                         strlen(mr_options[i].name));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(mr_options[i].name, mr_options[k].name);
    }
    for (size_t i = 0; i < MR_COMMAND_COUNT; i++)
        assert_true(mr_commands[i].name[0] && mr_commands[i].help[0]);
}

static void the_nearest_name_is_near(void **state)
{
    (void)state;
    const uint32_t serve = 1u << MR_COMMAND_SERVE, bench = 1u << MR_COMMAND_BENCH;
    assert_string_equal(mr_option_nearest("max-sequence", serve), "max-sequences");
    assert_string_equal(mr_option_nearest("drain-timeuot", serve), "drain-timeout");
    assert_string_equal(mr_option_nearest("modl", serve), "model");
    assert_null(mr_option_nearest("something-else-entirely", serve));
    assert_null(mr_option_nearest("repetition", serve));
    assert_string_equal(mr_option_nearest("repetition", bench), "repetitions");
    assert_null(mr_option_nearest("a-name-that-is-much-longer-than-any-option-could-be", serve));
    assert_string_equal(mr_command_nearest("tokenise"), "tokenize");
    assert_null(mr_command_nearest("xyzzy"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_with_either_separator),
        cmocka_unit_test(names_are_unique_and_plain),
        cmocka_unit_test(the_nearest_name_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
