#include "ops/cpu_kernels/level.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void best_resolves_to_a_real_level(void **state)
{
    (void)state;
    assert_int_not_equal(mr_cpu_level(MR_CPU_BEST), MR_CPU_BEST);
    assert_int_equal(mr_cpu_level(MR_CPU_AMX), mr_cpu_level(MR_CPU_BEST));
}

static void a_lower_level_can_be_requested(void **state)
{
    (void)state;
    static const char *const names[] = {"scalar",  "neon",        "neon-bf16", "avx2", "avx-vnni",
                                        "avx512f", "avx512-vnni", "avx512",    "amx"};
    for (enum mr_cpu_level level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++) {
        assert_string_equal(mr_cpu_level_name(level), names[level - MR_CPU_SCALAR]);
        assert_true(mr_cpu_level(level) <= level);
        assert_int_equal(mr_cpu_level(mr_cpu_level(level)), mr_cpu_level(level));
    }
    assert_int_equal(mr_cpu_level(MR_CPU_SCALAR), MR_CPU_SCALAR);
#ifdef __aarch64__
    assert_true(mr_cpu_level(MR_CPU_BEST) <= MR_CPU_NEON_BF16);
    assert_int_equal(mr_cpu_level(MR_CPU_AVX2), mr_cpu_level(MR_CPU_BEST));
#else
    assert_int_equal(mr_cpu_level(MR_CPU_NEON_BF16), MR_CPU_SCALAR);
#endif
}

/* AMX has the row functions of AVX-512, and AVX-VNNI those of AVX2. */
static void row_functions_are_those_of_the_level(void **state)
{
    (void)state;
    assert_ptr_equal(mr_cpu_row_ops_get(MR_CPU_SCALAR), &mr_cpu_ops_scalar);
    for (enum mr_cpu_level level = MR_CPU_BEST; level <= MR_CPU_AMX; level++) {
        const struct mr_cpu_ops *ops = mr_cpu_ops_get(level), *rows = mr_cpu_row_ops_get(level);
        if (mr_cpu_level(level) == MR_CPU_AMX)
            assert_ptr_equal(rows, mr_cpu_ops_get(MR_CPU_AVX512));
        else if (mr_cpu_level(level) == MR_CPU_AVX_VNNI)
            assert_ptr_equal(rows, mr_cpu_ops_get(MR_CPU_AVX2));
        else
            assert_ptr_equal(rows, ops);
    }
}

#ifdef __x86_64__
/* Levels with the same vectors share all functions except the products of integer weights. */
static void tables_of_the_same_vectors_differ_in_integer_products_only(void **state)
{
    (void)state;
    const struct mr_cpu_ops *const pairs[][2] = {{&mr_cpu_ops_avx2, &mr_cpu_ops_avxvnni},
                                                 {&mr_cpu_ops_avx512f, &mr_cpu_ops_avx512vnni}};
    for (int i = 0; i < 2; i++) {
        struct mr_cpu_ops first = *pairs[i][0];
        assert_ptr_not_equal(first.quant, pairs[i][1]->quant);
        first.quant = pairs[i][1]->quant;
        assert_memory_equal(&first, pairs[i][1], sizeof first);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_resolves_to_a_real_level),
        cmocka_unit_test(a_lower_level_can_be_requested),
        cmocka_unit_test(row_functions_are_those_of_the_level),
#ifdef __x86_64__
        cmocka_unit_test(tables_of_the_same_vectors_differ_in_integer_products_only),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
