/* quant_amx - the products of quant.h for AMX: in tile registers for many rows; few rows use the
 * products of AVX-512 with VNNI. */
#define LANES_VNNI
#include "ops/cpu_kernels/quant/lanes_avx512.h"

#include "ops/cpu_kernels/quant/tile_amx_body.h"

static void quant_row(const void *x, uint32_t in_size, bool bf16, unsigned char *out)
{
    mr_quant_ops_avx512vnni.row(x, in_size, bf16, out);
}

#define QUANT_ROWS  AMX_ROWS_LEAST
#define QUANT_FEWER mr_quant_ops_avx512vnni.tile
#define QUANT_ALL   amx_all
#define TABLE       mr_quant_ops_amx
#include "ops/cpu_kernels/quant/table_body.h"
