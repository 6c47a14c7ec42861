#include "ops/model/device_choice.h"

#include "ops/cuda/kernel_table.h"

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
    if (mr_device_choice_find_backend(&backend, name, device, number, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_string_equal(backend->name, wanted);
}

static void refused(const char *name, struct mr_device device, enum mr_number number,
                    const char *because)
{
    const struct mr_backend *backend;
    struct mr_error err = {0};
    assert_int_equal(mr_device_choice_find_backend(&backend, name, device, number, &err),
                     MR_BAD_CONFIG);
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

/* ---- a card that refuses our kernels ---- */

static struct mr_compute card;
static int open_count;

static enum mr_status check_device(struct mr_error *err)
{
    return mr_fail(err, MR_BAD_CONFIG, "the kernels were not compiled for this card");
}

static enum mr_status open_card(struct mr_compute **out, struct mr_device device,
                                enum mr_number number, struct mr_error *err)
{
    assert_int_equal(device.kind, MR_DEVICE_CUDA);
    assert_int_equal(device.index, 1);
    assert_int_equal(number, MR_NUMBER_BF16);
    if (device.kernels && device.kernels->check_device(err) != MR_OK) return err->status;
    open_count++;
    *out = &card;
    return MR_OK;
}

static void close_card(struct mr_compute *compute)
{
    assert_ptr_equal(compute, &card);
    open_count--;
}

static uint64_t free_bytes_of(const struct mr_compute *compute)
{
    assert_ptr_equal(compute, &card);
    return 99;
}

static void a_probe_opens_the_device_as_a_model_does(void **state)
{
    (void)state;
    const struct mr_backend backend = {
        .open = open_card, .close = close_card, .free_bytes = free_bytes_of};
    const struct mr_compute compute = {.backend = &backend, .number = MR_NUMBER_BF16};
    const struct mr_cuda_kernels kernels = {.check_device = check_device};
    struct mr_compute *opened = NULL;
    struct mr_error err = {0};
    uint64_t bytes = 1;
    assert_int_equal(mr_device_choice_probe(&compute, "cuda:1", &kernels, &bytes, &err),
                     MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "not compiled for this card"));
    assert_int_equal(bytes, 0);
    assert_int_equal(mr_device_choice_open(&opened, &compute, "cuda:1", &kernels, &err),
                     MR_BAD_CONFIG);
    assert_null(opened);
    assert_int_equal(mr_device_choice_probe(&compute, "cuda:1", NULL, &bytes, &err), MR_OK);
    assert_int_equal(bytes, 99);
    assert_int_equal(open_count, 0);
    assert_int_equal(mr_device_choice_open(&opened, &compute, "cuda:1", NULL, &err), MR_OK);
    assert_ptr_equal(opened, &card);
    assert_int_equal(open_count, 1);
    assert_int_equal(mr_device_choice_probe(&compute, "cpu", &kernels, &bytes, &err), MR_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(mr_device_choice_open(&opened, &compute, "gpu", NULL, &err), MR_BAD_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_chooses_unless_the_user_does),
        cmocka_unit_test(what_no_backend_does_is_refused),
        cmocka_unit_test(a_probe_opens_the_device_as_a_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
