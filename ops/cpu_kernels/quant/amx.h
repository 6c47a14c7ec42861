/* amx - the configuration of the tile registers of AMX (Intel 64 and IA-32 Architectures Software
 * Developer's Manual, volume 1, chapter 18). The intrinsics take register numbers as literals. */
#ifndef MR_OPS_CPU_KERNELS_QUANT_AMX_H
#define MR_OPS_CPU_KERNELS_QUANT_AMX_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define AMX_ROWS 16u /* of a tile register */

/* The operand of ldtilecfg. */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Register i gets rows[i] rows of row_bytes[i] bytes. */
static inline void amx_set_tiles(const uint8_t rows[8], const uint16_t row_bytes[8])
{
    struct amx_config config = {.palette = 1};
    memcpy(config.row_bytes, row_bytes, 8 * sizeof *row_bytes);
    memcpy(config.rows, rows, 8);
    /* GCC 12's intrinsic declares only 8 of the 64 bytes of config as its input, so the compiler
     * could drop the stores to the others. */
    __asm__ volatile("" ::"m"(config));
    _tile_loadconfig(&config);
}

/* Keeps stores to memory before tile loads of the same memory: the intrinsics do not declare that
 * they read memory. */
static inline __attribute__((always_inline)) void amx_order(void)
{
    __asm__ volatile("" ::: "memory");
}

#endif
