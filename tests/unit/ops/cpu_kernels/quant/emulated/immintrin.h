/* immintrin - replaces the compiler's header for test_quant_emulated. The instructions of AVX-VNNI
 * and the integer ones of AMX, which most machines lack, are computed in plain C, as the "Intel 64
 * and IA-32 Architectures Software Developer's Manual", volume 2, defines them; all others are the
 * compiler's. An instruction that the processor would refuse (a tile that is not configured, or of
 * another shape) ends the program. */
#ifndef MR_TESTS_EMULATED_IMMINTRIN_H
#define MR_TESTS_EMULATED_IMMINTRIN_H

#include_next <immintrin.h>
#include <stddef.h>

void emulated_tile_config(const void *config);
void emulated_tile_release(void);
void emulated_tile_zero(int tile);
void emulated_tile_load(int tile, const void *from, size_t stride);
void emulated_tile_store(int tile, void *to, size_t stride);
/* Adds the products of signed bytes of a and unsigned bytes of b. */
void emulated_tile_dpbsud(int sum, int a, int b);
/* sum[8], codes: 32 unsigned bytes, x: 32 signed bytes. */
void emulated_dpbusd(int *sum, const unsigned char *codes, const signed char *x);

#ifdef __AVX2__
static inline __m256i emulated_dpbusd_256(__m256i sum, __m256i codes, __m256i x)
{
    int sums[8];
    unsigned char left[32];
    signed char right[32];
    _mm256_storeu_si256((__m256i *)(void *)sums, sum);
    _mm256_storeu_si256((__m256i *)(void *)left, codes);
    _mm256_storeu_si256((__m256i *)(void *)right, x);
    emulated_dpbusd(sums, left, right);
    return _mm256_loadu_si256((const __m256i *)(const void *)sums);
}
#endif

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#undef _mm256_dpbusd_avx_epi32
#define _tile_loadconfig(config)         emulated_tile_config(config)
#define _tile_release()                  emulated_tile_release()
#define _tile_zero(tile)                 emulated_tile_zero(tile)
#define _tile_loadd(tile, from, stride)  emulated_tile_load(tile, from, stride)
#define _tile_stored(tile, to, stride)   emulated_tile_store(tile, to, stride)
#define _tile_dpbsud(sum, a, b)          emulated_tile_dpbsud(sum, a, b)
#define _mm256_dpbusd_avx_epi32(s, c, x) emulated_dpbusd_256(s, c, x)

#endif
