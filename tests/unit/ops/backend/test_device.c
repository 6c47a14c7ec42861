#include "ops/backend/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void devices_are_parsed(void **state)
{
    (void)state;
    struct mr_device device;
    struct mr_error err = {0};
    assert_int_equal(mr_device_parse("cuda:1", &device, &err), MR_OK);
    assert_int_equal(device.kind, MR_DEVICE_CUDA);
    assert_int_equal(device.index, 1);
    assert_int_equal(mr_device_parse("cpu", &device, &err), MR_OK);
    assert_int_equal(device.kind, MR_DEVICE_CPU);
    assert_int_equal(mr_device_parse("cuda:x", &device, &err), MR_BAD_CONFIG);
    assert_int_equal(mr_device_parse("tpu", &device, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "tpu"));
}

static void numbers_have_a_size_and_a_name(void **state)
{
    (void)state;
    assert_int_equal(mr_number_bytes(MR_NUMBER_F32), 4);
    assert_int_equal(mr_number_bytes(MR_NUMBER_F16), 2);
    assert_string_equal(mr_number_name(MR_NUMBER_BF16), "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_parsed),
        cmocka_unit_test(numbers_have_a_size_and_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
