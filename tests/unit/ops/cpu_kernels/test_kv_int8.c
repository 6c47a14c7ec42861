#include "ops/cpu_kernels/kv_pool.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LAYERS 2u
#define HEADS  3u
#define TOKENS (MR_BLOCK_TOKENS / 4 * 3 + 1) /* an odd number */

static struct mr_cpu_kv *make(bool bf16, uint32_t head_dim, enum mr_cpu_level level)
{
    const struct mr_cpu_kv_spec spec = {.layer_count = LAYERS,
                                        .kv_head_count = HEADS,
                                        .head_dim = head_dim,
                                        .block_count = 4,
                                        .bf16 = bf16,
                                        .level = level};
    struct mr_cpu_kv *kv;
    struct mr_error err;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_OK);
    return kv;
}

/* Address of one number of the key (half 0) or value (half 1) of a token. */
static unsigned char *place(const struct mr_cpu_kv *kv, uint32_t block, uint32_t slot,
                            uint32_t half, uint32_t token, uint32_t dim)
{
    unsigned char *keys = mr_cpu_kv_keys(kv, block, 0, slot);
    return half == 0 ? keys + mr_cpu_kv_key_at(kv, token, dim)
                     : keys + kv->half_bytes + mr_cpu_kv_value_at(kv, token, dim);
}

static float read_at(const struct mr_cpu_kv *kv, uint32_t block, uint32_t slot, uint32_t half,
                     uint32_t token, uint32_t dim)
{
    return number_at(place(kv, block, slot, half, token, dim), 0, kv->spec.bf16);
}

/* Fills tokens [begin, end) of all heads; magnitudes of tokens range from 2^-20 to 2^20. */
static void fill(const struct mr_cpu_kv *kv, uint32_t block, uint32_t begin, uint32_t end,
                 uint64_t seed)
{
    for (uint32_t slot = 0; slot < LAYERS * HEADS; slot++)
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t token = begin; token < end; token++) {
                int power = (int)((token * 7 + slot * 3 + half) % 41) - 20;
                for (uint32_t dim = 0; dim < kv->spec.head_dim; dim++)
                    number_set(place(kv, block, slot, half, token, dim), 0,
                               ldexpf(number_next(&seed), power), kv->spec.bf16);
            }
}

/* The expected scale of a token: its largest magnitude over 127, rounded up to bf16. */
static float scale_of(const struct mr_cpu_kv *kv, uint32_t slot, uint32_t half, uint32_t token)
{
    float top = 0;
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim++)
        top = fmaxf(top, fabsf(read_at(kv, 0, slot, half, token, dim)));
    uint16_t scale = number_to_bf16(top / 127.0f);
    return number_from_bf16(number_from_bf16(scale) < top / 127.0f ? (uint16_t)(scale + 1) : scale);
}

static void check_token(const struct mr_cpu_kv *kv, uint32_t slot, uint32_t half, uint32_t token)
{
    float scale = scale_of(kv, slot, half, token);
    for (uint32_t dim = 0; dim < kv->spec.head_dim; dim++) {
        float before = read_at(kv, 0, slot, half, token, dim);
        float after = read_at(kv, 1, slot, half, token, dim);
        float own = kv->spec.bf16 ? fabsf(after) / 256.0f : 0; /* rounding of the result to bf16 */
        if (!(fabsf(after - before) <= scale / 2 * 1.0001f + own))
            fail_msg("token %u: %g became %g, scale %g", token, (double)before, (double)after,
                     (double)scale);
    }
}

static void the_error_of_a_number_is_at_most_half_a_scale(void **state)
{
    static const uint32_t dims[] = {16, 32, 48, 64, 80, 128, 256};
    static const uint32_t counts[] = {1, 2, 3, 15, 16, 17, 31, 33, 255, 256};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof dims / sizeof *dims; i++) {
        struct mr_cpu_kv *kv = make(i % 2, dims[i / 2], MR_CPU_BEST);
        unsigned char *bytes = malloc(mr_cpu_kv_int8_bytes(kv, MR_BLOCK_TOKENS));
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            uint32_t count = counts[k] < MR_BLOCK_TOKENS ? counts[k] : MR_BLOCK_TOKENS;
            fill(kv, 0, 0, count, 1 + i + k);
            assert_true(mr_cpu_kv_int8_export(kv, 0, 0, count, bytes));
            mr_cpu_kv_int8_import(kv, 1, 0, count, bytes);
            for (uint32_t slot = 0; slot < LAYERS * HEADS; slot++)
                for (uint32_t token = 0; token < count; token++) {
                    check_token(kv, slot, 0, token);
                    check_token(kv, slot, 1, token);
                }
        }
        free(bytes);
        mr_cpu_kv_destroy(kv);
    }
}

static void a_block_can_be_exported_and_imported_in_pieces(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct mr_cpu_kv *kv = make(bf16, 64, MR_CPU_BEST);
        unsigned char *bytes = malloc(mr_cpu_kv_int8_bytes(kv, MR_BLOCK_TOKENS));
        fill(kv, 0, 0, MR_BLOCK_TOKENS, 5);
        assert_true(mr_cpu_kv_int8_export(kv, 0, 0, MR_BLOCK_TOKENS, bytes));
        mr_cpu_kv_int8_import(kv, 1, 0, MR_BLOCK_TOKENS, bytes);
        for (uint32_t first = 0; first < MR_BLOCK_TOKENS; first += 16) {
            assert_true(mr_cpu_kv_int8_export(kv, 0, first, 16, bytes));
            mr_cpu_kv_int8_import(kv, 2, first, 16, bytes);
        }
        assert_memory_equal(mr_cpu_kv_bytes_of(kv, 2), mr_cpu_kv_bytes_of(kv, 1), kv->block_bytes);
        free(bytes);
        mr_cpu_kv_destroy(kv);
    }
}

static void a_token_takes_one_byte_per_number_and_two_per_scale(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct mr_cpu_kv *kv = make(bf16, 64, MR_CPU_BEST);
        const size_t token = 2 * LAYERS * HEADS * (64 + 2);
        assert_int_equal(mr_cpu_kv_int8_bytes(kv, MR_BLOCK_TOKENS), MR_BLOCK_TOKENS * token);
        assert_in_range(mr_cpu_kv_int8_bytes(kv, 7), 7 * token, 16 * token);
        mr_cpu_kv_destroy(kv);
    }
}

static void zeros_are_stored_exactly(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct mr_cpu_kv *kv = make(bf16, 48, MR_CPU_BEST);
        unsigned char *bytes = malloc(mr_cpu_kv_int8_bytes(kv, MR_BLOCK_TOKENS));
        fill(kv, 1, 0, MR_BLOCK_TOKENS, 3); /* import must overwrite these */
        number_set(place(kv, 0, 2, 1, 5, 9), 0, -0.0f, bf16);
        assert_true(mr_cpu_kv_int8_export(kv, 0, 0, MR_BLOCK_TOKENS, bytes));
        mr_cpu_kv_int8_import(kv, 1, 0, MR_BLOCK_TOKENS, bytes);
        assert_memory_equal(mr_cpu_kv_bytes_of(kv, 1), mr_cpu_kv_bytes_of(kv, 2), kv->block_bytes);
        free(bytes);
        mr_cpu_kv_destroy(kv);
    }
}

/* The smallest and the largest magnitudes that can be stored. */
static void very_small_and_large_numbers_stay_finite(void **state)
{
    static const float ends[] = {1e-45f, 1e-38f, 1e-30f, 1e30f, 1.6e38f};
    (void)state;
    struct mr_cpu_kv *kv = make(false, 16, MR_CPU_BEST);
    unsigned char *bytes = malloc(mr_cpu_kv_int8_bytes(kv, 1));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        number_set(place(kv, 0, 0, 0, 0, 0), 0, ends[i], false);
        number_set(place(kv, 0, 0, 0, 0, 1), 0, -ends[i], false);
        assert_true(mr_cpu_kv_int8_export(kv, 0, 0, 1, bytes));
        mr_cpu_kv_int8_import(kv, 1, 0, 1, bytes);
        float after = read_at(kv, 1, 0, 0, 0, 0);
        assert_true(isfinite(after) && fabsf(after - ends[i]) <= ends[i] / 100 + 1e-38f);
        assert_true(read_at(kv, 1, 0, 0, 0, 1) == -after);
    }
    free(bytes);
    mr_cpu_kv_destroy(kv);
}

static void numbers_that_are_not_finite_are_not_stored(void **state)
{
    static const float wrong[] = {NAN, -NAN, INFINITY, -INFINITY, 3e38f};
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 0; i < 2 * sizeof wrong / sizeof *wrong; i++) {
            struct mr_cpu_kv *kv = make(bf16, 32, MR_CPU_BEST);
            unsigned char *bytes = malloc(mr_cpu_kv_int8_bytes(kv, 3));
            fill(kv, 0, 0, 3, 1 + i);
            unsigned char *at = place(kv, 0, LAYERS * HEADS - 1, i % 2, 2, 31);
            number_set(at, 0, wrong[i / 2], bf16);
            assert_false(mr_cpu_kv_int8_export(kv, 0, 0, 3, bytes));
            assert_true(mr_cpu_kv_int8_export(kv, 0, 0, 2, bytes));
            free(bytes);
            mr_cpu_kv_destroy(kv);
        }
}

/* Numbers after the last token belong to another request and may be NaN. */
static void numbers_after_the_last_token_are_not_exported(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (uint32_t count = 1; count < MR_BLOCK_TOKENS; count += count < 20 ? 1 : 59) {
            struct mr_cpu_kv *kv = make(bf16, 32, MR_CPU_BEST);
            const size_t bytes = mr_cpu_kv_int8_bytes(kv, count);
            unsigned char *clean = malloc(bytes), *out = malloc(bytes);
            fill(kv, 0, 0, count, 5);
            assert_true(mr_cpu_kv_int8_export(kv, 0, 0, count, clean));
            mr_cpu_kv_int8_import(kv, 2, 0, count, clean);
            fill(kv, 0, count, MR_BLOCK_TOKENS, 6);
            number_set(place(kv, 0, 0, 1, count, 3), 0, NAN, bf16);
            assert_true(mr_cpu_kv_int8_export(kv, 0, 0, count, out));
            assert_memory_equal(out, clean, bytes);
            /* the token after the last one is zero where it shares a word with it */
            for (uint32_t dim = 0; dim < 32; dim++) {
                assert_true(read_at(kv, 2, 1, 0, count, dim) == 0);
                assert_true(read_at(kv, 2, 1, 1, count, dim) == 0);
            }
            free(out);
            free(clean);
            mr_cpu_kv_destroy(kv);
        }
}

static void every_level_gives_the_same_bytes(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        unsigned char *first = NULL;
        EACH_LEVEL (level) {
            struct mr_cpu_kv *kv = make(bf16, 80, level);
            const size_t bytes = mr_cpu_kv_int8_bytes(kv, TOKENS);
            unsigned char *out = malloc(bytes + kv->block_bytes);
            fill(kv, 0, 0, TOKENS, 11);
            assert_true(mr_cpu_kv_int8_export(kv, 0, 0, TOKENS, out));
            mr_cpu_kv_int8_import(kv, 1, 0, TOKENS, out);
            memcpy(out + bytes, mr_cpu_kv_bytes_of(kv, 1), kv->block_bytes);
            if (first) assert_memory_equal(out, first, bytes + kv->block_bytes);
            if (first) free(out);
            first = first ? first : out;
            mr_cpu_kv_destroy(kv);
        }
        free(first);
    }
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_cpu_kv *kv = make(true, 16, MR_CPU_BEST);
    unsigned char byte = 0;
    expect_assert_failure(mr_cpu_kv_int8_export(kv, 4, 0, 1, &byte));
    expect_assert_failure(mr_cpu_kv_int8_import(kv, 0, 0, MR_BLOCK_TOKENS + 1, &byte));
    mr_cpu_kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_of_a_number_is_at_most_half_a_scale),
        cmocka_unit_test(a_block_can_be_exported_and_imported_in_pieces),
        cmocka_unit_test(a_token_takes_one_byte_per_number_and_two_per_scale),
        cmocka_unit_test(zeros_are_stored_exactly),
        cmocka_unit_test(very_small_and_large_numbers_stay_finite),
        cmocka_unit_test(numbers_that_are_not_finite_are_not_stored),
        cmocka_unit_test(numbers_after_the_last_token_are_not_exported),
        cmocka_unit_test(every_level_gives_the_same_bytes),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
