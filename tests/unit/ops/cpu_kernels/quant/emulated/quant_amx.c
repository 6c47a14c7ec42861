/* quant_amx - the product file of that name with emulated instructions. */
#include "ops/cpu_kernels/quant/quant_amx.c"
