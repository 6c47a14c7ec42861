#include "worker/bench/bench_roof.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Layers of 2 * (12 * 16 * 64 + 3 * 64 * 128) = 73,728 weights and an output layer of 64,000. */
static struct mr_model_info model(void)
{
    return (struct mr_model_info){.backend = "cpu",
                                  .dtype = "bf16",
                                  .layer_count = 2,
                                  .hidden_size = 64,
                                  .head_count = 4,
                                  .kv_head_count = 2,
                                  .head_dim = 16,
                                  .ffn_size = 128,
                                  .vocab_size = 1000,
                                  .parameter_count = 73728 + 2 * 64000,
                                  .weight_bytes = 2 * (73728 + 2 * 64000),
                                  .kv_bytes_per_token = 256};
}

static void assert_near(double got, double want)
{
    assert_true(fabs(got - want) <= 1e-9 * fabs(want));
}

static void a_step_reads_the_weights_once_and_computes_each_row(void **state)
{
    (void)state;
    const struct mr_model_info info = model();
    struct mr_bench_work work = {0};
    mr_bench_work_add_weights(&work, &info, 3, 5);
    assert_near(work.bytes, 3 * 2.0 * (73728 + 64000)); /* the embedding is not read */
    assert_near(work.flops, 3 * 5 * 2.0 * 64000);
    work = (struct mr_bench_work){0};
    mr_bench_work_add_tokens(&work, &info, 1, 9, true);
    assert_near(work.bytes, 9 * 256);
    assert_near(work.flops, 2.0 * 73728 + 4.0 * 2 * 4 * 16 * 10); /* to itself and 9 others */
    work = (struct mr_bench_work){0};
    mr_bench_work_add_tokens(&work, &info, 4, 0, false);
    assert_near(work.bytes, 0);
    assert_near(work.flops, 4 * 2.0 * 73728 + 4.0 * 2 * 4 * 16 * (1 + 2 + 3 + 4));
}

static void the_slower_of_reading_and_computing_counts(void **state)
{
    (void)state;
    struct mr_model_info info = model();
    const struct mr_bench_roof roof = {.bytes_per_s = 100, .flops_per_s = 1000};
    const struct mr_bench_work reads = {.bytes = 500, .flops = 100};
    const struct mr_bench_work computes = {.bytes = 50, .flops = 7000};
    assert_near(mr_bench_roof_seconds(&roof, &info, &reads), 5);
    assert_near(mr_bench_roof_seconds(&roof, &info, &computes), 7);
    assert_true(mr_bench_roof_seconds(&(struct mr_bench_roof){0}, &info, &reads) <= 0);
    info.parameter_count *= 4; /* experts, of which a step reads some */
    assert_true(mr_bench_roof_seconds(&roof, &info, &reads) <= 0);
}

static void each_kind_of_numbers_is_measured(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"f32", "bf16", "int8", "int4", "quantized"};
    struct mr_model_info info = model();
    struct mr_bench_roof roof;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        info.dtype = dtypes[i];
        assert_int_equal(mr_bench_roof_measure(&roof, &info, NULL), MR_OK);
        assert_true(roof.bytes_per_s > 0 && roof.flops_per_s > 0);
    }
    info.backend = "torch";
    assert_int_equal(mr_bench_roof_measure(&roof, &info, NULL), MR_OK);
    assert_true(roof.bytes_per_s <= 0 && roof.flops_per_s <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_reads_the_weights_once_and_computes_each_row),
        cmocka_unit_test(the_slower_of_reading_and_computing_counts),
        cmocka_unit_test(each_kind_of_numbers_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
