#include "codec/jinja/jinja_space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct mr_text text_of(const char *string)
{
    return (struct mr_text){string, strlen(string)};
}

static void white_space_is_that_of_python(void **state)
{
    (void)state;
    static const char *const spaces[] = {" ",        "\t",       "\n",          "\v",   "\f",
                                         "\r",       "\x1c",     "\x1d",        "\x1e", "\x1f",
                                         "\xc2\x85", "\xc2\xa0", "\xe3\x80\x80"};
    static const char *const others[] = {"a", "\x1b", "\xe2\x80\x8b", "\xef\xbb\xbf", "\xff"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        assert_int_equal(mr_jinja_space_at(text_of(spaces[i]), 0), strlen(spaces[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(mr_jinja_space_at(text_of(others[i]), 0), 0);
    assert_int_equal(mr_jinja_space_at(text_of(" "), 1), 0);
}

static void the_white_space_at_the_end_is_found(void **state)
{
    (void)state;
    assert_int_equal(mr_jinja_space_start(text_of("ab \xe3\x80\x80\n")), 2);
    assert_int_equal(mr_jinja_space_start(text_of("ab")), 2);
    assert_int_equal(mr_jinja_space_start(text_of(" \n")), 0);
    assert_int_equal(mr_jinja_space_start(text_of("")), 0);
    assert_int_equal(mr_jinja_space_start(text_of("a\x80\x80")), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_is_that_of_python),
        cmocka_unit_test(the_white_space_at_the_end_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
