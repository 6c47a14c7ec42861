#include "ops/cpu/cpu_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void other_devices_and_formats_are_refused(void **state)
{
    (void)state;
    struct mr_compute *compute;
    struct mr_error err = {0};
    const struct mr_device cpu = {.kind = MR_DEVICE_CPU}, gpu = {.kind = MR_DEVICE_CUDA};
    assert_int_equal(mr_cpu_backend.open(&compute, gpu, MR_NUMBER_F32, &err), MR_BAD_CONFIG);
    assert_null(compute);
    assert_int_equal(mr_cpu_backend.open(&compute, cpu, MR_NUMBER_F16, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "bf16 or f32"));
    assert_int_equal(mr_cpu_backend.open(&compute, cpu, MR_NUMBER_BF16, &err), MR_OK);
    assert_ptr_equal(compute->backend, &mr_cpu_backend);
    assert_int_equal(compute->number, MR_NUMBER_BF16);
    mr_cpu_backend.close(compute);
}

static void a_block_goes_out_and_in(void **state)
{
    (void)state;
    struct mr_compute *compute;
    struct mr_kv *kv;
    const struct mr_kv_spec spec = {.layer_count = 2,
                                    .kv_head_count = 1,
                                    .head_dim = 16,
                                    .block_count = 3,
                                    .number = MR_NUMBER_F32};
    assert_int_equal(mr_cpu_backend.open(&compute, (struct mr_device){0}, MR_NUMBER_F32, NULL),
                     MR_OK);
    assert_int_equal(mr_cpu_backend.kv_create(compute, &kv, &spec, NULL), MR_OK);
    static unsigned char in[2 * 2 * 16 * 4 * MR_BLOCK_TOKENS], out[sizeof in];
    assert_int_equal(mr_cpu_backend.kv_block_bytes(&spec), sizeof in);
    assert_int_equal(mr_cpu_backend.kv_stored_bytes(kv, MR_BLOCK_TOKENS, false), sizeof in);
    assert_true(mr_cpu_backend.kv_stored_bytes(kv, MR_BLOCK_TOKENS, true) < sizeof in / 2);
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i % 61); /* these bytes form no NaN or infinity */
    const struct mr_kv_span from = {1, 0, MR_BLOCK_TOKENS, false};
    const struct mr_kv_span to = {2, 0, MR_BLOCK_TOKENS, false};
    mr_cpu_backend.kv_import(kv, &from, in);
    mr_cpu_backend.kv_copy(kv, 1, 2, MR_BLOCK_TOKENS);
    assert_true(mr_cpu_backend.kv_export(kv, &to, out));
    assert_memory_equal(in, out, sizeof in);
    assert_memory_equal(mr_cpu_backend.kv_bytes_of(kv, 2), in, sizeof in);
    mr_cpu_backend.kv_destroy(kv);
    mr_cpu_backend.close(compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_devices_and_formats_are_refused),
        cmocka_unit_test(a_block_goes_out_and_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
