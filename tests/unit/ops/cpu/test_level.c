#include "ops/cpu/kernels.h"

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
    assert_int_equal(mr_cpu_level(MR_CPU_SCALAR), MR_CPU_SCALAR);
    assert_true(mr_cpu_level(MR_CPU_AVX2) <= MR_CPU_AVX2);
    assert_string_equal(mr_cpu_level_name(MR_CPU_SCALAR), "scalar");
    assert_true(mr_cpu_level(MR_CPU_AVX512) <= MR_CPU_AVX512);
    assert_string_equal(mr_cpu_level_name(MR_CPU_AVX512), "avx512");
    assert_string_equal(mr_cpu_level_name(MR_CPU_AMX), "amx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_resolves_to_a_real_level),
        cmocka_unit_test(a_lower_level_can_be_requested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
