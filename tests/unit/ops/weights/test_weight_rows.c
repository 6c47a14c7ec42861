#include "ops/weights/weight_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>

/* Storage of the tensors that matrix() makes: [rows, 2], row r is (r + base, -r). */
static float numbers[3][16];

static struct mr_stored_tensor matrix(size_t slot, uint32_t rows, float base)
{
    for (uint32_t row = 0; row < rows; row++) {
        numbers[slot][2 * row] = (float)row + base;
        numbers[slot][2 * row + 1] = -(float)row;
    }
    return (struct mr_stored_tensor){.storage = MR_STORAGE_F32,
                                     .dim_count = 2,
                                     .dims = {rows, 2},
                                     .bytes = (const unsigned char *)numbers[slot],
                                     .size_bytes = rows * 2 * sizeof(float)};
}

static struct mr_stored_tensor vector(const float *values, uint32_t count)
{
    return (struct mr_stored_tensor){.storage = MR_STORAGE_F32,
                                     .dim_count = 1,
                                     .dims = {count},
                                     .bytes = (const unsigned char *)values,
                                     .size_bytes = count * sizeof(float)};
}

static void assert_rows(struct mr_weight_rows *rows, const float *first, uint32_t count)
{
    assert_int_equal(mr_weight_rows_count(rows), count);
    for (uint32_t row = 0; row < count; row++) {
        float out[2];
        mr_weight_rows_read(rows, row, out);
        assert_true(out[0] == first[row]);
    }
}

static void shares_follow_each_other(void **state)
{
    (void)state;
    struct mr_stored_tensor q = matrix(0, 3, 0), k = matrix(1, 2, 10), v = matrix(2, 1, 20);
    struct mr_weight_rows rows = {
        .shares = {{&q, NULL, 3, 0, 0}, {&k, NULL, 2, 0, 0}, {&v, NULL, 1, 0, 0}},
        .share_count = 3};
    assert_rows(&rows, (const float[]){0, 1, 2, 10, 11, 20}, 6);
    float out[2];
    expect_assert_failure(mr_weight_rows_read(&rows, 6, out));
}

static void scales_multiply_weights_and_biases(void **state)
{
    (void)state;
    struct mr_stored_tensor q = matrix(0, 3, 0), k = matrix(1, 2, 10);
    const float stored[] = {1, 2};
    struct mr_stored_tensor bias = vector(stored, 2);
    struct mr_weight_rows rows = {
        .shares = {{&q, NULL, 3, 0, 0}, {&k, &bias, 2, 0, 0, .scale = 3, .bias_scale = 0.5f}},
        .share_count = 2,
        .width = 2};
    assert_rows(&rows, (const float[]){0, 1, 2, 30, 33}, 5);
    float *biases;
    assert_int_equal(mr_weight_rows_bias(&rows, &biases, NULL), MR_OK);
    assert_true(biases[2] == 0 && biases[3] == 0.5f && biases[4] == 1);
    free(biases);
}

static void alternating_shares_give_rows_in_turn(void **state)
{
    (void)state;
    struct mr_stored_tensor gate = matrix(0, 3, 0), up = matrix(1, 3, 10);
    struct mr_weight_rows rows = {.shares = {{&gate, NULL, 3, 0, 0}, {&up, NULL, 3, 0, 0}},
                                  .share_count = 2,
                                  .alternate = true};
    assert_rows(&rows, (const float[]){0, 10, 1, 11, 2, 12}, 6);
    rows.shares[1].row_count = 2;
    expect_assert_failure(mr_weight_rows_count(&rows));
}

static void pair_order_is_converted_to_halves(void **state)
{
    (void)state;
    struct mr_stored_tensor q = matrix(0, 8, 0); /* two heads of four */
    struct mr_weight_rows rows = {.shares = {{&q, NULL, 8, 4, 4}}, .share_count = 1};
    assert_rows(&rows, (const float[]){0, 2, 1, 3, 4, 6, 5, 7}, 8);
}

static void biases_follow_their_rows(void **state)
{
    (void)state;
    const float q_bias[] = {1, 2, 3, 4}, v_bias[] = {9};
    struct mr_stored_tensor q = matrix(0, 4, 0), k = matrix(1, 2, 0), v = matrix(2, 1, 0);
    struct mr_stored_tensor qb = vector(q_bias, 4), vb = vector(v_bias, 1);
    struct mr_weight_rows rows = {
        .shares = {{&q, &qb, 4, 4, 4}, {&k, NULL, 2, 0, 0}, {&v, &vb, 1, 0, 0}}, .share_count = 3};
    float *bias;
    assert_int_equal(mr_weight_rows_bias(&rows, &bias, NULL), MR_OK);
    assert_memory_equal(bias, ((const float[]){1, 3, 2, 4, 0, 0, 9}), 7 * sizeof(float));
    free(bias);
}

static void without_biases_the_array_is_null(void **state)
{
    (void)state;
    struct mr_stored_tensor q = matrix(0, 3, 0);
    struct mr_weight_rows rows = {.shares = {{&q, NULL, 3, 0, 0}}, .share_count = 1};
    float *bias = numbers[0];
    assert_int_equal(mr_weight_rows_bias(&rows, &bias, NULL), MR_OK);
    assert_null(bias);
}

static void heads_are_padded_with_rows_of_zeros(void **state)
{
    (void)state;
    const float q_bias[] = {1, 2, 3, 4};
    struct mr_stored_tensor q = matrix(0, 4, 5), qb = vector(q_bias, 4); /* two heads of two */
    struct mr_weight_rows rows = {
        .shares = {{&q, &qb, 6, 2, 2, .rows = {2, 3}}}, .share_count = 1, .width = 2};
    assert_rows(&rows, (const float[]){5, 6, 0, 7, 8, 0}, 6);
    float *bias;
    assert_int_equal(mr_weight_rows_bias(&rows, &bias, NULL), MR_OK);
    assert_memory_equal(bias, ((const float[]){1, 2, 0, 3, 4, 0}), 6 * sizeof(float));
    free(bias);
}

static void heads_are_padded_with_columns_of_zeros(void **state)
{
    (void)state;
    const float stored[] = {1, 2, 3, 4, 5, 6};
    struct mr_stored_tensor out = vector(stored, 6); /* one row: three heads of two */
    struct mr_weight_rows rows = {
        .shares = {{&out, NULL, 1, 0, 0}}, .share_count = 1, .width = 12, .columns = {2, 4}};
    float row[12];
    mr_weight_rows_read(&rows, 0, row);
    assert_memory_equal(row, ((const float[]){1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0}), sizeof row);
}

/* The tensor has gate above up; the layer is the second of two in it. */
static void shares_may_be_parts_of_one_tensor(void **state)
{
    (void)state;
    const float biases[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct mr_stored_tensor both = matrix(0, 8, 0), bias = vector(biases, 8);
    bias.dim_count = 2;
    bias.dims[0] = 2;
    bias.dims[1] = 4;
    struct mr_weight_rows rows = {.shares = {{&both, &bias, 2, 0, 0, .first_row = 4},
                                             {&both, &bias, 2, 0, 0, .first_row = 6}},
                                  .share_count = 2,
                                  .alternate = true};
    assert_rows(&rows, (const float[]){4, 6, 5, 7}, 4);
    float *merged;
    assert_int_equal(mr_weight_rows_bias(&rows, &merged, NULL), MR_OK);
    assert_memory_equal(merged, ((const float[]){4, 6, 5, 7}), 4 * sizeof(float));
    free(merged);
}

/* ---- rows as they are stored ---- */

static unsigned char blocks[64 * 34];

static struct mr_stored_tensor stored(enum mr_storage storage, uint32_t rows)
{
    return (struct mr_stored_tensor){
        .storage = storage, .dim_count = 2, .dims = {rows, 32}, .bytes = blocks};
}

static void shares_of_one_storage_each_are_bands(void **state)
{
    (void)state;
    struct mr_stored_tensor q = stored(MR_STORAGE_Q4_0, 32), k = stored(MR_STORAGE_Q4_0, 16);
    struct mr_stored_tensor v = stored(MR_STORAGE_Q8_0, 16);
    struct mr_weight_rows rows = {
        .shares = {{&q, NULL, 32, 4, 4}, {&k, NULL, 16, 0, 0}, {.weight = &v, .row_count = 16}},
        .share_count = 3,
        .width = 32};
    struct mr_quant_band bands[MR_QUANT_BANDS_MAX];
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 2);
    assert_int_equal(bands[0].rows, 48);
    assert_int_equal(bands[0].format, MR_QUANT_Q4_0);
    assert_int_equal(bands[1].rows, 16);
    assert_int_equal(bands[1].format, MR_QUANT_Q8_0);
    /* row 1 of a head of 4 in halves is row 2 in pairs */
    assert_ptr_equal(mr_weight_rows_bytes(&rows, 1), blocks + 2 * 18);
    assert_ptr_equal(mr_weight_rows_bytes(&rows, 33), blocks + 18);
    assert_ptr_equal(mr_weight_rows_bytes(&rows, 49), blocks + 34);
    rows.shares[2].first_row = 5;
    assert_ptr_equal(mr_weight_rows_bytes(&rows, 49), blocks + 6 * 34);
    rows.shares[0].rows = (struct mr_head_padding){12, 16};
    assert_null(mr_weight_rows_bytes(&rows, 13));
}

static void rows_that_cannot_be_bands_have_none(void **state)
{
    (void)state;
    struct mr_stored_tensor a = stored(MR_STORAGE_Q4_0, 24), b = stored(MR_STORAGE_Q8_0, 24);
    struct mr_stored_tensor floats = stored(MR_STORAGE_BF16, 24), k2 = stored(MR_STORAGE_Q2_K, 24);
    struct mr_weight_rows rows = {
        .shares = {{&a, NULL, 24, 0, 0}, {&b, NULL, 24, 0, 0}}, .share_count = 2, .width = 32};
    struct mr_quant_band bands[MR_QUANT_BANDS_MAX];
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 0); /* 24 rows are one and a half panels */
    rows.shares[1].weight = &a;
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 1);
    assert_int_equal(bands[0].rows, 48);
    rows.alternate = true;
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 1);
    rows.shares[1].weight = &b;
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 0);
    rows.share_count = 1;
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 1);
    rows.columns = (struct mr_head_padding){12, 16};
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 0);
    rows.columns = (struct mr_head_padding){0, 0};
    rows.shares[0].transposed = numbers[0];
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 0);
    rows.shares[0].transposed = NULL;
    rows.shares[0].weight = &floats;
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 0);
    rows.shares[0].weight = &k2;
    assert_int_equal(mr_weight_rows_bands(&rows, bands), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_follow_each_other),
        cmocka_unit_test(scales_multiply_weights_and_biases),
        cmocka_unit_test(alternating_shares_give_rows_in_turn),
        cmocka_unit_test(pair_order_is_converted_to_halves),
        cmocka_unit_test(biases_follow_their_rows),
        cmocka_unit_test(without_biases_the_array_is_null),
        cmocka_unit_test(heads_are_padded_with_rows_of_zeros),
        cmocka_unit_test(heads_are_padded_with_columns_of_zeros),
        cmocka_unit_test(shares_may_be_parts_of_one_tensor),
        cmocka_unit_test(shares_of_one_storage_each_are_bands),
        cmocka_unit_test(rows_that_cannot_be_bands_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
