/* quant_amx - the product file of that name with emulated instructions. */
#include "ops/cpu/quant/quant_amx.c"
