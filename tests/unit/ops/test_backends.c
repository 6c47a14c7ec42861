#include "ops/backends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_device cpu = {.kind = MR_DEVICE_CPU}, gpu = {.kind = MR_DEVICE_CUDA};

static void found(const char *name, struct mr_device device, enum mr_number number,
                  const char *wanted)
{
    const struct mr_backend *backend;
    struct mr_error err = {0};
    if (mr_backends_find(&backend, name, device, number, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_string_equal(backend->name, wanted);
}

static void refused(const char *name, struct mr_device device, enum mr_number number,
                    const char *because)
{
    const struct mr_backend *backend;
    struct mr_error err = {0};
    assert_int_equal(mr_backends_find(&backend, name, device, number, &err), MR_BAD_CONFIG);
    assert_null(backend);
    if (!strstr(err.detail, because)) fail_msg("\"%s\" without \"%s\"", err.detail, because);
}

static void the_device_chooses_unless_the_user_does(void **state)
{
    (void)state;
    found(NULL, cpu, MR_NUMBER_BF16, "cpu");
    found("auto", cpu, MR_NUMBER_BF16, "cpu");
    found("auto", cpu, MR_NUMBER_F16, "torch");
    found("auto", gpu, MR_NUMBER_BF16, "torch");
    found("torch", cpu, MR_NUMBER_F16, "torch");
    found("torch", gpu, MR_NUMBER_F32, "torch");
}

static void what_no_backend_does_is_refused(void **state)
{
    (void)state;
    refused("cpu", gpu, MR_NUMBER_BF16, "device cpu only");
    refused("cpu", cpu, MR_NUMBER_F16, "cannot compute in f16");
    refused("fast", cpu, MR_NUMBER_BF16, "\"fast\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_chooses_unless_the_user_does),
        cmocka_unit_test(what_no_backend_does_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
