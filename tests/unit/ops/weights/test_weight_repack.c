#include "ops/weights/weight_repack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 48, WIDTH = 64, GROUPS = 2 };

/* A weight of 4 bits with scales that are halves, and the rows of a layer that takes 16 and 32 of
 * its rows. */
struct rig {
    uint32_t words[ROWS][WIDTH / 8];
    uint16_t scales[ROWS][GROUPS];
    struct mr_quantized quantized;
    struct mr_stored_tensor tensor;
    struct mr_weight_rows rows;
};

static void set_up(struct rig *rig)
{
    uint32_t state = 7;
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t k = 0; k < WIDTH / 8; k++)
            rig->words[i][k] = state = state * 1664525u + 1013904223u;
        for (uint32_t g = 0; g < GROUPS; g++)
            rig->scales[i][g] = (uint16_t)(0x2800u + i * 16 + g); /* from 1/32 on */
    }
    rig->quantized = (struct mr_quantized){
        .format = MR_QUANTIZED_PACKED,
        .bits = 4,
        .rows = ROWS,
        .width = WIDTH,
        .row_block = 1,
        .group_width = WIDTH / GROUPS,
        .group_count = GROUPS,
        .pieces = {{MR_STORAGE_I32, (const unsigned char *)rig->words, sizeof rig->words},
                   {MR_STORAGE_F16, (const unsigned char *)rig->scales, sizeof rig->scales}}};
    rig->tensor = (struct mr_stored_tensor){.storage = MR_STORAGE_PIECES,
                                            .dim_count = 2,
                                            .dims = {ROWS, WIDTH},
                                            .quantized = &rig->quantized};
    rig->rows = (struct mr_weight_rows){
        .shares = {{.weight = &rig->tensor, .row_count = 16, .first_row = 32},
                   {.weight = &rig->tensor, .row_count = 32}},
        .share_count = 2,
        .width = WIDTH};
}

static void rows_become_blocks_with_the_same_numbers(void **state)
{
    (void)state;
    static struct rig rig;
    static float before[ROWS][WIDTH];
    struct mr_weight_repack repack;
    struct mr_quant_band bands[MR_QUANT_BANDS_MAX];
    set_up(&rig);
    assert_int_equal(mr_weight_rows_bands(&rig.rows, bands), 0);
    for (uint32_t row = 0; row < ROWS; row++)
        mr_weight_rows_read(&rig.rows, row, before[row]);
    assert_int_equal(mr_weight_repack_begin(&repack, &rig.rows, NULL), MR_OK);
    assert_int_equal(mr_weight_rows_bands(&rig.rows, bands), 1);
    assert_int_equal(bands[0].format, MR_QUANT_Q4_1);
    assert_int_equal(bands[0].rows, ROWS);
    for (uint32_t row = 0; row < ROWS; row++) {
        float after[WIDTH];
        mr_weight_rows_read(&rig.rows, row, after); /* zero points are 8: nothing is rounded */
        assert_memory_equal(after, before[row], sizeof after);
    }
    mr_weight_repack_end(&repack);
}

static void is_left_alone(struct rig *rig)
{
    struct mr_weight_repack repack;
    assert_int_equal(mr_weight_repack_begin(&repack, &rig->rows, NULL), MR_OK);
    assert_ptr_equal(rig->rows.shares[0].weight, &rig->tensor);
    assert_ptr_equal(rig->rows.shares[1].weight, &rig->tensor);
    assert_int_equal(rig->rows.shares[0].first_row, 32);
    mr_weight_repack_end(&repack);
}

static void a_layer_that_cannot_be_blocks_is_left_alone(void **state)
{
    (void)state;
    static struct rig rig;
    set_up(&rig);
    rig.rows.columns = (struct mr_head_padding){20, 32};
    is_left_alone(&rig);
    set_up(&rig);
    rig.quantized.bits = 8;
    is_left_alone(&rig);
    set_up(&rig);
    static float scales[ROWS][GROUPS] = {{1.0f, 1.0001f}}; /* the second is not a half */
    rig.quantized.pieces[MR_QUANTIZED_SCALE] = (struct mr_quantized_piece){
        MR_STORAGE_F32, (const unsigned char *)scales, sizeof scales, NULL};
    is_left_alone(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_blocks_with_the_same_numbers),
        cmocka_unit_test(a_layer_that_cannot_be_blocks_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
