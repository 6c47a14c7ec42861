#include "batching/cache/staging.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void buffers_do_not_overlap_and_can_all_be_taken(void **state)
{
    (void)state;
    struct mr_staging staging;
    uint32_t buffers[3];
    assert_true(mr_staging_open(&staging, 3, 64));
    for (uint32_t i = 0; i < 3; i++) {
        buffers[i] = mr_staging_take(&staging);
        memset(mr_staging_bytes(&staging, buffers[i]), (int)i, 64);
    }
    assert_int_equal(staging.unused_count, 0);
    expect_assert_failure(mr_staging_take(&staging));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(mr_staging_bytes(&staging, buffers[i])[0], i);
        assert_int_equal(mr_staging_bytes(&staging, buffers[i])[63], i);
        mr_staging_release(&staging, buffers[i]);
    }
    assert_int_equal(staging.unused_count, 3);
    mr_staging_close(&staging);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_staging staging;
    assert_true(mr_staging_open(&staging, 2, 64));
    mr_staging_release(&staging, MR_NO_BUFFER);
    assert_int_equal(staging.unused_count, 2);
    expect_assert_failure(mr_staging_release(&staging, 0));
    expect_assert_failure(mr_staging_bytes(&staging, 2));
    mr_staging_close(&staging);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_do_not_overlap_and_can_all_be_taken),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
