#include "ops/cpu/level.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XFEATURE_XTILEDATA 18

/* AMX-BF16: bit 22 of EDX in leaf 7 of CPUID. Clang 14 has no __builtin_cpu_supports for it. */
static bool has_amx_bf16(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && edx >> 22 & 1u;
}

/* A process must request the AMX tile registers from the kernel before it first uses them; a
 * repeated request has no effect (Linux, Documentation/arch/x86/xstate.rst). */
static bool has_tiles(void)
{
    return has_amx_bf16() && __builtin_cpu_supports("avx512vbmi") &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

enum mr_cpu_level mr_cpu_level(enum mr_cpu_level wanted)
{
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
    /* The question about tiles costs several microseconds in a virtual machine, which traps CPUID.
     */
    const bool may_be_amx = wanted == MR_CPU_BEST || wanted == MR_CPU_AMX;
    enum mr_cpu_level best = avx512 && may_be_amx && has_tiles() ? MR_CPU_AMX
                             : avx512                            ? MR_CPU_AVX512
                             : avx2                              ? MR_CPU_AVX2
                                                                 : MR_CPU_SCALAR;
    return wanted == MR_CPU_BEST || wanted > best ? best : wanted;
}

const char *mr_cpu_level_name(enum mr_cpu_level level)
{
    static const char *const names[] = {"best", "scalar", "avx2", "avx512", "amx"};
    return names[level];
}

const struct mr_cpu_ops *mr_cpu_ops_get(enum mr_cpu_level wanted)
{
    switch (mr_cpu_level(wanted)) {
    case MR_CPU_AMX:
        return &mr_cpu_ops_amx;
    case MR_CPU_AVX512:
        return &mr_cpu_ops_avx512;
    case MR_CPU_AVX2:
        return &mr_cpu_ops_avx2;
    default:
        return &mr_cpu_ops_scalar;
    }
}

const struct mr_cpu_ops *mr_cpu_row_ops_get(enum mr_cpu_level wanted)
{
    const bool high = wanted == MR_CPU_BEST || wanted == MR_CPU_AMX;
    return mr_cpu_ops_get(high ? MR_CPU_AVX512 : wanted);
}
