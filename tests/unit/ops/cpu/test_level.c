#include "ops/cpu/level.h"

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
    static const char *const names[] = {"scalar", "neon", "neon-bf16", "avx2", "avx512", "amx"};
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

static void row_functions_are_those_of_the_level_or_of_avx512(void **state)
{
    (void)state;
    assert_ptr_equal(mr_cpu_row_ops_get(MR_CPU_SCALAR), &mr_cpu_ops_scalar);
    assert_ptr_equal(mr_cpu_row_ops_get(MR_CPU_AVX2), mr_cpu_ops_get(MR_CPU_AVX2));
    for (int level = MR_CPU_BEST; level <= MR_CPU_AMX; level += MR_CPU_AMX)
        assert_ptr_equal(mr_cpu_row_ops_get((enum mr_cpu_level)level),
                         mr_cpu_ops_get(MR_CPU_AVX512));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_resolves_to_a_real_level),
        cmocka_unit_test(a_lower_level_can_be_requested),
        cmocka_unit_test(row_functions_are_those_of_the_level_or_of_avx512),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
