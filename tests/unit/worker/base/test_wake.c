#include "worker/base/wake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_wake_merges_rings_and_times_out_without_one(void **state)
{
    (void)state;
    struct mr_wake wake;
    assert_int_equal(mr_wake_open(&wake, NULL), MR_OK);
    assert_false(mr_wake_wait(&wake, 0));
    mr_wake_ring(&wake);
    mr_wake_ring(&wake);
    assert_true(mr_wake_wait(&wake, UINT64_MAX));
    assert_false(mr_wake_wait(&wake, 1000));
    mr_wake_close(&wake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wake_merges_rings_and_times_out_without_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
