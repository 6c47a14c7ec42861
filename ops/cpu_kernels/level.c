#include "ops/cpu_kernels/level.h"

#ifdef __x86_64__
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define XFEATURE_XTILEDATA 18

/* Features that __builtin_cpu_supports of Clang 14 cannot query. Reading them takes several
 * microseconds in a virtual machine, which traps CPUID. */
struct features {
    bool amx, avx_vnni;
};

/* Leaf 7 of CPUID. AMX: EDX, bit 22 bf16, bit 24 tiles, bit 25 int8. AVX-VNNI: subleaf 1, EAX, bit
 * 4. */
static struct features read_features(void)
{
    struct features features = {false, false};
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    const unsigned amx = 1u << 22 | 1u << 24 | 1u << 25;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return features;
    features.amx = (edx & amx) == amx;
    if (eax == 0) return features; /* the last subleaf */
    __cpuid_count(7, 1, eax, ebx, ecx, edx);
    features.avx_vnni = (eax >> 4 & 1u) != 0;
    return features;
}

/* A process must request the AMX tile registers from the kernel before it first uses them; a
 * repeated request has no effect (Linux, Documentation/arch/x86/xstate.rst). */
static bool has_tiles(void)
{
    return read_features().amx && __builtin_cpu_supports("avx512vbmi") &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512f(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_avx512_vnni(void)
{
    return has_avx512f() && __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512(void)
{
    return has_avx512_vnni() && __builtin_cpu_supports("avx512bf16");
}

/* Whether the machine runs a level. */
static bool runs(enum mr_cpu_level level)
{
    switch (level) {
    case MR_CPU_AVX2:
        return has_avx2();
    case MR_CPU_AVX_VNNI:
        return has_avx2() && read_features().avx_vnni;
    case MR_CPU_AVX512F:
        return has_avx512f();
    case MR_CPU_AVX512_VNNI:
        return has_avx512_vnni();
    case MR_CPU_AVX512:
        return has_avx512();
    case MR_CPU_AMX:
        return has_avx512() && has_tiles();
    default:
        return level == MR_CPU_SCALAR;
    }
}

static const struct mr_cpu_ops *const tables[] = {
    [MR_CPU_SCALAR] = &mr_cpu_ops_scalar,
    [MR_CPU_AVX2] = &mr_cpu_ops_avx2,
    [MR_CPU_AVX_VNNI] = &mr_cpu_ops_avxvnni,
    [MR_CPU_AVX512F] = &mr_cpu_ops_avx512f,
    [MR_CPU_AVX512_VNNI] = &mr_cpu_ops_avx512vnni,
    [MR_CPU_AVX512] = &mr_cpu_ops_avx512,
    [MR_CPU_AMX] = &mr_cpu_ops_amx,
};
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

/* Whether the machine runs a level (Linux, Documentation/arch/arm64/elf_hwcaps.rst). */
static bool runs(enum mr_cpu_level level)
{
    const unsigned long both = HWCAP2_BF16 | HWCAP2_I8MM;
    const bool neon = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    switch (level) {
    case MR_CPU_NEON:
        return neon;
    case MR_CPU_NEON_BF16:
        return neon && (getauxval(AT_HWCAP2) & both) == both;
    default:
        return level == MR_CPU_SCALAR;
    }
}

static const struct mr_cpu_ops *const tables[] = {
    [MR_CPU_SCALAR] = &mr_cpu_ops_scalar,
    [MR_CPU_NEON] = &mr_cpu_ops_neon,
    [MR_CPU_NEON_BF16] = &mr_cpu_ops_neon_bf16,
};
#endif

enum mr_cpu_level mr_cpu_level(enum mr_cpu_level wanted)
{
    enum mr_cpu_level level = wanted == MR_CPU_BEST ? MR_CPU_AMX : wanted;
    while (!runs(level))
        level--;
    return level;
}

const char *mr_cpu_level_name(enum mr_cpu_level level)
{
    static const char *const names[] = {"best",     "scalar",  "neon",        "neon-bf16", "avx2",
                                        "avx-vnni", "avx512f", "avx512-vnni", "avx512",    "amx"};
    return names[level];
}

const struct mr_cpu_ops *mr_cpu_ops_get(enum mr_cpu_level wanted)
{
    return tables[mr_cpu_level(wanted)];
}

const struct mr_cpu_ops *mr_cpu_row_ops_get(enum mr_cpu_level wanted)
{
    const bool high = wanted == MR_CPU_BEST || wanted == MR_CPU_AMX;
    enum mr_cpu_level level = high ? MR_CPU_AVX512 : wanted;
    while (level == MR_CPU_AVX_VNNI || !runs(level))
        level--;
    return tables[level];
}
