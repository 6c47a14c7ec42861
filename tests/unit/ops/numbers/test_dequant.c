#include "ops/numbers/dequant.h"

#include "codec/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

/* The numbers that the reference reader of GGUF computes for a block with d = 0.5 (and m = -1.25)
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

/* Printed by tests/golden/make_dequant.py: the offsets of a block's half-precision scales (-1:
 * none), and the SHA-256 of the floats to which the reference reader converts REFERENCE_BLOCKS
 * blocks. */
#define REFERENCE_BLOCKS 64u
static const struct {
    enum mr_storage storage;
    int scales[2];
    const char *sha256;
} references[] = {
    {MR_STORAGE_Q4_0, {0, -1}, "1b1d7030566af3e4859e07eea5b918b2d8428beb7173ba0c7a38d89a05de2538"},
    {MR_STORAGE_Q4_1, {0, 2}, "fcd20e32f22601607c3be82d5a72c7879d7f6bfecd5538f081710c0f7e99222b"},
    {MR_STORAGE_Q5_0, {0, -1}, "607bef2c6e185caa76bad55c5bf7e8159f82f1331e2cc6db7dd610914705cfdb"},
    {MR_STORAGE_Q5_1, {0, 2}, "2c12bcd1bb76f7ceb11575991ca99b710f3ed93de6f0d4e62cd25272bbc1e176"},
    {MR_STORAGE_Q8_0, {0, -1}, "545c185035a5d4864e59ffde3605bacae9cc827aae9ccc89584d1db6796709d0"},
    {MR_STORAGE_Q2_K, {80, 82}, "591b8a05570e4af5b1745345b1fbacd764764d56ac50b4c879fa3c1fd1d98c45"},
    {MR_STORAGE_Q3_K,
     {108, -1},
     "8bbd96a9820f5ae99daec5c23aa9ccb0cb62e5649bbceecc46d1dbebff3ac010"},
    {MR_STORAGE_Q4_K, {0, 2}, "40b1803e7ed1d2baaa17aedb24a506543bd7ae57baced2414ac087893a6f6b27"},
    {MR_STORAGE_Q5_K, {0, 2}, "008f9e5cb0cc95ab1785c0cdee4a242e1af6d82e22ac1f95dd34f9371ca771c6"},
    {MR_STORAGE_Q6_K,
     {208, -1},
     "ffae19d693e216c21f7cb821be73109cdb581655ddbe549baf5a44cc63f1003a"},
    {MR_STORAGE_IQ4_NL,
     {0, -1},
     "83aaecef81b93ba5b3465783fd292f9ecbc56a266baacc886e2b1c1b3d259ef1"},
    {MR_STORAGE_IQ4_XS,
     {0, -1},
     "8e01aeedd3e40c13154cde040f7513dc881686f95ba62f2db736f73a588ee292"},
    {MR_STORAGE_MXFP4,
     {-1, -1},
     "4656f911005885cccbd77b258db5d315d42761ca4bdd258e1acd5042b6de6be0"},
};

static void fill_block(unsigned char *block, size_t size, const int scales[2], uint32_t *state)
{
    for (size_t i = 0; i < size; i++) {
        *state = *state * 1664525u + 1013904223u;
        block[i] = (unsigned char)(*state >> 24);
    }
    for (size_t i = 0; i < 2; i++)
        if (scales[i] >= 0) block[scales[i] + 1] &= 0xbf;
}

static void random_blocks_give_the_bits_of_the_reference(void **state)
{
    (void)state;
    static unsigned char bytes[REFERENCE_BLOCKS * 256];
    static float out[REFERENCE_BLOCKS * 256];
    struct mr_sha256 *hash = mr_sha256_create();
    for (size_t r = 0; r < sizeof references / sizeof references[0]; r++) {
        size_t size = mr_storage_block_bytes(references[r].storage);
        size_t count = REFERENCE_BLOCKS * mr_storage_block_numbers(references[r].storage);
        uint32_t random = 12345;
        for (size_t block = 0; block < REFERENCE_BLOCKS; block++)
            fill_block(bytes + block * size, size, references[r].scales, &random);
        mr_dequant(references[r].storage, bytes, count, out);
        unsigned char digest[MR_SHA256_BYTES];
        char text[2 * MR_SHA256_BYTES + 1] = "";
        mr_sha256_begin(hash);
        mr_sha256_add(hash, out, count * sizeof(float));
        mr_sha256_end(hash, digest);
        mr_sha256_hex(digest, MR_SHA256_BYTES, text);
        if (strcmp(text, references[r].sha256) != 0)
            fail_msg("%s: the floats are not those of the reference",
                     mr_storage_name(references[r].storage));
    }
    mr_sha256_destroy(hash);
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

/* The 256 numbers of e4m3 by their definition, and integers. */
static void eight_bit_floats_and_integers_are_converted_exactly(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 256; bits++) {
        unsigned char byte = (unsigned char)bits;
        int exponent = (int)(bits >> 3 & 15), fraction = (int)(bits & 7);
        float wanted = exponent > 0 ? ldexpf((float)(8 + fraction), exponent - 10)
                                    : ldexpf((float)fraction, -9);
        float out;
        mr_dequant(MR_STORAGE_F8_E4M3, &byte, 1, &out);
        if ((bits & 127) == 127)
            assert_true(isnan(out));
        else
            assert_true(out == (bits < 128 ? wanted : -wanted));
        assert_int_equal(signbit(out) != 0, bits >> 7);
        mr_dequant(MR_STORAGE_I8, &byte, 1, &out);
        assert_true(out == (float)(signed char)byte);
        mr_dequant(MR_STORAGE_U8, &byte, 1, &out);
        assert_true(out == (float)bits);
    }
    float out[2];
    mr_dequant(MR_STORAGE_I32, (const int32_t[]){-7, 1 << 30}, 2, out);
    assert_true(out[0] == -7.0f && out[1] == 0x1p30f);
    mr_dequant(MR_STORAGE_I64, (const int64_t[]){-1, (int64_t)1 << 40}, 2, out);
    assert_true(out[0] == -1.0f && out[1] == 0x1p40f);
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
        cmocka_unit_test(random_blocks_give_the_bits_of_the_reference),
        cmocka_unit_test(every_half_is_converted_exactly),
        cmocka_unit_test(eight_bit_floats_and_integers_are_converted_exactly),
        cmocka_unit_test(f32_and_bf16_keep_their_bits),
        cmocka_unit_test(a_count_that_is_not_whole_blocks_is_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
