/* The page to try a prompt uses nothing from outside. */
#include "worker/gateway/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_page_is_whole_and_loads_nothing(void **state)
{
    (void)state;
    assert_int_equal(strlen(mr_gateway_html), mr_gateway_html_length);
    assert_non_null(strstr(mr_gateway_html, "name='viewport'"));
    assert_non_null(strstr(mr_gateway_html, "</html>"));
    assert_null(strstr(mr_gateway_html, "://"));
    assert_null(strstr(mr_gateway_html, "src="));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_is_whole_and_loads_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
