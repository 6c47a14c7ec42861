#include "worker/cli/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_first_failure_decides_the_exit_code(void **state)
{
    struct mr_report report = {.json = true};
    (void)state;
    mr_report(&report, "ok", "broker", "there");
    assert_int_equal(report.code, MR_EXIT_DONE);
    mr_report_failure(&report, "topic", MR_EXIT_UNREACHABLE, "no \"answer\"");
    mr_report_failure(&report, "model", MR_EXIT_MODEL, "no file");
    assert_int_equal(report.code, MR_EXIT_UNREACHABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failure_decides_the_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
