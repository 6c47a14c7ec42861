#include "ops/numbers/quantized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Every format with real shapes is compared with its reference by golden_test_quantized. */

static struct mr_quantized_piece piece(enum mr_storage storage, const void *bytes)
{
    return (struct mr_quantized_piece){.storage = storage, .bytes = bytes};
}

static void a_group_of_another_row_is_not_read(void **state)
{
    (void)state;
    static const signed char numbers[2][5] = {{1, 2, 3, 4, 5}, {-1, -2, -3, -4, -5}};
    static const float scales[2][3] = {{1, 10, 100}, {2, 20, 200}};
    static const signed char zeros[2][3] = {{0, 1, 0}, {0, 0, -1}};
    struct mr_quantized_piece weight = piece(MR_STORAGE_I8, numbers);
    struct mr_quantized_piece scale = piece(MR_STORAGE_F32, scales);
    struct mr_quantized_piece zero = piece(MR_STORAGE_I8, zeros);
    struct mr_quantized q = {.format = MR_QUANTIZED_SCALED,
                             .rows = 2,
                             .width = 5,
                             .row_block = 1,
                             .group_width = 2,
                             .group_count = 3,
                             .pieces = {weight, scale, zero}};
    float row[5];
    mr_quantized_row(&q, 0, row);
    assert_memory_equal(row, ((const float[]){1, 2, 20, 30, 500}), sizeof(row));
    mr_quantized_row(&q, 1, row);
    assert_memory_equal(row, ((const float[]){-2, -4, -60, -80, -800}), sizeof(row));
    expect_assert_failure(mr_quantized_row(&q, 2, row));
}

static void a_zero_point_stored_minus_one_wraps(void **state)
{
    (void)state;
    static const uint32_t words[8] = {0x76543210, 0x76543210, 0, 0, 0, 0, 0, 0};
    static const uint32_t zeros[1] = {0x0000000f | 0x00000020}; /* 15 and 2, plus one: 0 and 3 */
    static const uint16_t scales[8] = {0x3c00, 0x4000};         /* 1 and 2 */
    struct mr_quantized_piece weight = piece(MR_STORAGE_I32, words);
    struct mr_quantized_piece scale = piece(MR_STORAGE_F16, scales);
    struct mr_quantized_piece zero = piece(MR_STORAGE_I32, zeros);
    struct mr_quantized q = {.format = MR_QUANTIZED_GPTQ,
                             .bits = 4,
                             .rows = 8,
                             .width = 8,
                             .row_block = 1,
                             .group_width = 8,
                             .group_count = 1,
                             .zero_less_one = true,
                             .pieces = {weight, scale, zero}};
    float row[8];
    mr_quantized_row(&q, 0, row);
    assert_memory_equal(row, ((const float[]){0, 1, 2, 3, 4, 5, 6, 7}), sizeof(row));
    mr_quantized_row(&q, 1, row);
    assert_memory_equal(row, ((const float[]){-6, -4, -2, 0, 2, 4, 6, 8}), sizeof(row));
    q.zero_less_one = false;
    mr_quantized_row(&q, 1, row);
    assert_memory_equal(row, ((const float[]){-4, -2, 0, 2, 4, 6, 8, 10}), sizeof(row));
}

static void a_group_that_does_not_exist_is_misuse(void **state)
{
    (void)state;
    static const uint32_t words[1] = {0}, order[8] = {0, 0, 0, 0, 0, 0, 0, 1}, zeros[1] = {0};
    static const float scales[1] = {1};
    struct mr_quantized_piece weight = piece(MR_STORAGE_I32, words);
    struct mr_quantized_piece scale = piece(MR_STORAGE_F32, scales);
    struct mr_quantized_piece zero = piece(MR_STORAGE_I32, zeros);
    struct mr_quantized_piece groups = piece(MR_STORAGE_I32, order);
    struct mr_quantized q = {.format = MR_QUANTIZED_PACKED,
                             .bits = 4,
                             .rows = 1,
                             .width = 8,
                             .row_block = 1,
                             .group_width = 8,
                             .group_count = 1,
                             .pieces = {weight, scale, zero, groups}};
    float row[8];
    expect_assert_failure(mr_quantized_row(&q, 0, row));
}

static void a_scale_that_is_no_half_makes_no_block(void **state)
{
    (void)state;
    static const uint32_t words[8] = {0x76543210};
    static const uint16_t scales[2] = {0x3e80, 0x2f00}; /* 2^-2, 2^-33 */
    struct mr_quantized q = {
        .format = MR_QUANTIZED_PACKED,
        .bits = 4,
        .rows = 1,
        .width = 32,
        .row_block = 1,
        .group_width = 128,
        .group_count = 1,
        .pieces = {piece(MR_STORAGE_I32, words), piece(MR_STORAGE_BF16, scales)}};
    float numbers[32], found[32];
    unsigned char block[20];
    assert_true(mr_quantized_fits_q4_1(&q));
    assert_true(mr_quantized_row_q4_1(&q, 0, numbers, block));
    mr_dequant(MR_STORAGE_Q4_1, block, 32, found);
    assert_true(found[0] == -2.0f && found[7] == -0.25f && found[8] == -2.0f);
    q.pieces[MR_QUANTIZED_SCALE] = piece(MR_STORAGE_BF16, scales + 1);
    assert_false(mr_quantized_row_q4_1(&q, 0, numbers, block));
    q.group_width = 16;
    assert_false(mr_quantized_fits_q4_1(&q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_of_another_row_is_not_read),
        cmocka_unit_test(a_zero_point_stored_minus_one_wraps),
        cmocka_unit_test(a_group_that_does_not_exist_is_misuse),
        cmocka_unit_test(a_scale_that_is_no_half_makes_no_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
