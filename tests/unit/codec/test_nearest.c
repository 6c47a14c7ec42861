#include "codec/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *nearest_to(const char *written)
{
    static const char *const names[] = {"temperature", "timeout_ms", "top_k", "top_p", "n"};
    struct mr_nearest nearest = {.written = {written, strlen(written)}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        mr_nearest_consider(&nearest, names[i]);
    return nearest.name;
}

static void the_name_with_the_fewest_changes_is_found(void **state)
{
    (void)state;
    assert_string_equal(nearest_to("tempreature"), "temperature");
    assert_string_equal(nearest_to("timeout"), "timeout_ms");
    assert_string_equal(nearest_to("topp"), "top_p");
    assert_string_equal(nearest_to("top_k"), "top_k");
}

static void a_name_that_differs_too_much_is_not_found(void **state)
{
    (void)state;
    assert_null(nearest_to("whatever"));
    assert_null(nearest_to("a_name_of_more_than_thirty_two_bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_name_with_the_fewest_changes_is_found),
        cmocka_unit_test(a_name_that_differs_too_much_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
