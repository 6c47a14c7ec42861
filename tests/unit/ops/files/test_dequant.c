#include "ops/files/dequant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

/* The numbers that the reference reader of GGUF gives for a block with d = 0.5 (and m = -1.25)
 * whose remaining byte i is (37 i + 11) mod 256. */
static const struct {
    enum mr_storage storage;
    size_t head_bytes;
    float numbers[32];
} blocks[] = {
    {MR_STORAGE_Q4_0, 2, {1.5f,  -4.0f, -1.5f, 1.0f,  3.5f,  -2.0f, 0.5f,  3.0f,  -2.5f, 0.0f, 2.5f,
                          -3.0f, -0.5f, 2.0f,  -3.5f, -1.0f, -4.0f, -2.5f, -1.5f, -0.5f, 0.5f, 2.0f,
                          3.0f,  -4.0f, -2.5f, -1.5f, -0.5f, 1.0f,  2.0f,  3.0f,  -3.5f, -2.5f}},
    {MR_STORAGE_Q4_1, 4, {4.25f,  -1.25f, 1.25f, 3.75f,  6.25f, 0.75f, 3.25f,  5.75f,
                          0.25f,  2.75f,  5.25f, -0.25f, 2.25f, 4.75f, -0.75f, 1.75f,
                          -1.25f, 0.25f,  1.25f, 2.25f,  3.25f, 4.75f, 5.75f,  -1.25f,
                          0.25f,  1.25f,  2.25f, 3.75f,  4.75f, 5.75f, -0.75f, 0.25f}},
    {MR_STORAGE_Q5_0, 2, {7.5f,  2.0f,  -3.5f, 7.0f,  -6.5f, -4.0f, -1.5f, -7.0f,
                          -4.5f, -2.0f, -7.5f, -5.0f, 5.5f,  0.0f,  -5.5f, -3.0f,
                          4.5f,  -2.0f, 7.0f,  -8.0f, 1.5f,  -5.5f, 3.5f,  -3.0f,
                          -2.0f, 7.0f,  -7.5f, 1.5f,  2.5f,  4.0f,  5.0f,  -2.0f}},
    {MR_STORAGE_Q5_1, 4, {14.25f, 8.75f,  3.25f,  13.75f, 0.25f,  2.75f,  5.25f,  -0.25f,
                          2.25f,  4.75f,  -0.75f, 1.75f,  12.25f, 6.75f,  1.25f,  3.75f,
                          11.25f, 4.75f,  13.75f, -1.25f, 8.25f,  1.25f,  10.25f, 3.75f,
                          4.75f,  13.75f, -0.75f, 8.25f,  9.25f,  10.75f, 11.75f, 4.75f}},
    {MR_STORAGE_Q8_0, 2, {5.5f,   24.0f,  42.5f,  61.0f,  -48.5f, -30.0f, -11.5f, 7.0f,
                          25.5f,  44.0f,  62.5f,  -47.0f, -28.5f, -10.0f, 8.5f,   27.0f,
                          45.5f,  -64.0f, -45.5f, -27.0f, -8.5f,  10.0f,  28.5f,  47.0f,
                          -62.5f, -44.0f, -25.5f, -7.0f,  11.5f,  30.0f,  48.5f,  -61.0f}},
};

static void blocks_are_converted_as_by_the_reference(void **state)
{
    (void)state;
    static const unsigned char head[4] = {0x00, 0x38, 0x00, 0xbd};
    for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
        unsigned char bytes[81]; /* two blocks, at an odd address */
        size_t size = mr_storage_block_bytes(blocks[b].storage);
        for (size_t block = 0; block < 2; block++) {
            unsigned char *at = bytes + 1 + block * size;
            memcpy(at, head, blocks[b].head_bytes);
            for (size_t i = 0; i < size - blocks[b].head_bytes; i++)
                at[blocks[b].head_bytes + i] = (unsigned char)(i * 37 + 11);
        }
        float out[64];
        assert_int_equal(mr_storage_block_numbers(blocks[b].storage), 32);
        mr_dequant(blocks[b].storage, bytes + 1, 64, out);
        assert_memory_equal(out, blocks[b].numbers, sizeof blocks[b].numbers);
        assert_memory_equal(out + 32, blocks[b].numbers, sizeof blocks[b].numbers);
    }
}

static void every_half_is_converted_exactly(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= 0xffff; bits++) {
        uint16_t half = (uint16_t)bits;
        int exponent = (int)(bits >> 10 & 31);
        float fraction = (float)(bits & 1023), out;
        float expected =
            exponent == 0 ? ldexpf(fraction, -24) : ldexpf(fraction + 1024.0f, exponent - 25);
        if (exponent == 31) expected = fraction > 0.0f ? NAN : INFINITY;
        mr_dequant(MR_STORAGE_F16, &half, 1, &out);
        assert_int_equal(signbit(out) != 0, bits >> 15);
        if (isnan(expected))
            assert_true(isnan(out));
        else
            assert_true(fabsf(out) == expected);
    }
}

static void f32_and_bf16_keep_their_bits(void **state)
{
    (void)state;
    const float wide[] = {1.0f, -0.0f, 3.4e38f};
    const uint16_t upper[] = {0x3f80, 0xc040, 0x0001};
    float out[3];
    mr_dequant(MR_STORAGE_F32, wide, 3, out);
    assert_memory_equal(out, wide, sizeof wide);
    mr_dequant(MR_STORAGE_BF16, upper, 3, out);
    assert_true(out[0] == 1.0f && out[1] == -3.0f);
    uint32_t bits;
    memcpy(&bits, &out[2], sizeof bits);
    assert_int_equal(bits, 0x00010000);
}

static void a_count_that_is_not_whole_blocks_is_misuse(void **state)
{
    (void)state;
    float out[32];
    expect_assert_failure(mr_dequant(MR_STORAGE_Q8_0, "", 16, out));
    expect_assert_failure(mr_dequant(MR_STORAGE_OTHER, "", 0, out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_converted_as_by_the_reference),
        cmocka_unit_test(every_half_is_converted_exactly),
        cmocka_unit_test(f32_and_bf16_keep_their_bits),
        cmocka_unit_test(a_count_that_is_not_whole_blocks_is_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
