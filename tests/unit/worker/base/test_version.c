#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/base/version.h"

#include <string.h>

static void a_version_begins_with_a_digit_and_is_one_word(void **state)
{
    (void)state;
    static const char allowed[] =
        "0123456789.-+abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    assert_true(mr_version[0] >= '0' && mr_version[0] <= '9');
    assert_int_equal(strspn(mr_version, allowed), strlen(mr_version));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_begins_with_a_digit_and_is_one_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
