/* quant_avxvnni - the product file of that name with emulated instructions. */
#include "ops/cpu/quant/quant_avxvnni.c"
