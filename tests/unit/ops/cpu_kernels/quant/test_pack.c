/* Checks that packing keeps the numbers of every format, the same on every instruction set. */
#include "ops/cpu_kernels/level.h"
#include "tests/unit/ops/cpu_kernels/quant/weights.h"
#include "tests/unit/ops/levels.h"

/* weights_make compares the result of mr_quant_pack with the stored numbers. A missing row becomes
 * zeros. */
static void every_level_packs_the_same_panels(void **state)
{
    (void)state;
    for (size_t i = 1; i < STORAGES; i++) {
        struct weights w = weights_make(storages[i], 512);
        const size_t row_bytes =
            w.in_size / mr_storage_block_numbers(storages[i]) * mr_storage_block_bytes(storages[i]);
        unsigned char *got = aligned_alloc(MR_QUANT_LINE, w.panel_bytes),
                      *zeros = calloc(1, row_bytes);
        const unsigned char *rows[MR_QUANT_COLUMNS];
        for (size_t row = 0; row < MR_QUANT_COLUMNS; row++)
            rows[row] = w.stored + row * row_bytes;
        for (int missing = 0; missing < 2; missing++) {
            if (missing) rows[6] = zeros;
            mr_quant_pack(w.format, w.in_size, rows, w.panels);
            if (missing) rows[6] = NULL;
            EACH_LEVEL (level) {
                memset(got, 0xa5, w.panel_bytes);
                mr_cpu_ops_get(level)->quant->pack(w.format, w.in_size, rows, got);
                assert_memory_equal(got, w.panels, mr_quant_panel_bytes(w.format, w.in_size));
            }
        }
        free(zeros);
        free(got);
        weights_drop(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_level_packs_the_same_panels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
