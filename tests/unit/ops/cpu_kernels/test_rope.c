#include "ops/cpu_kernels/kv_kernels.h"
#include "ops/cpu_kernels/kv_pool.h"
#include "tests/unit/ops/levels.h"
#include "tests/unit/ops/numbers.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define HEADS     4u
#define KV_HEADS  2u
#define DIM       32u
#define WIDTH     ((HEADS + 2 * KV_HEADS) * DIM)
#define POSITIONS 600u

struct tables {
    float cos[POSITIONS * DIM / 2], sin[POSITIONS * DIM / 2], q_scales[POSITIONS];
};

static struct tables *tables_make(uint32_t rotary_dim)
{
    struct tables *tables = malloc(sizeof *tables);
    for (uint32_t p = 0; p < POSITIONS; p++)
        tables->q_scales[p] = 1.0f + 0.25f * (float)(p % 5);
    for (uint32_t p = 0; p < POSITIONS; p++)
        for (uint32_t i = 0; i < rotary_dim / 2; i++) {
            const double angle = p * pow(10000.0, -2.0 * i / rotary_dim);
            tables->cos[p * (rotary_dim / 2) + i] = (float)cos(angle);
            tables->sin[p * (rotary_dim / 2) + i] = (float)sin(angle);
        }
    return tables;
}

/* A case: the norm and rotation of q and k, and the real size of a head, whose other numbers are
 * zero. */
struct shape {
    uint32_t head_size, rotary_dim;
    enum { NO_NORM, EACH_HEAD, WHOLE_ROW, CENTERED, AFTER_ROTATION } norm;
    float clip;
};

static void norm_expected(uint32_t heads, const float *weight, const struct mr_cpu_rope_args *args,
                          double *out)
{
    const uint32_t size = args->norm_width, all = heads * DIM;
    for (uint32_t from = 0; weight && from < all; from += args->norm_whole ? all : DIM) {
        const uint32_t to = args->norm_whole ? all : from + DIM;
        const double count = (double)(to - from) / DIM * size;
        double mean = 0.0, squares = 0.0;
        for (uint32_t d = from; args->norm_centered && d < to; d++)
            mean += out[d] / count;
        for (uint32_t d = from; d < to; d++)
            if (d % DIM < size) squares += (out[d] - mean) * (out[d] - mean);
        for (uint32_t d = from; d < to; d++)
            out[d] = d % DIM < size
                         ? (out[d] - mean) / sqrt(squares / count + 1e-6) * (double)weight[d]
                         : 0.0;
    }
}

/* The expected heads of q or k of one row, in double: norm, limit and rotation. */
static void expect_heads(const float *in, uint32_t heads, const float *weight,
                         const struct mr_cpu_rope_args *args, uint32_t position, double *out)
{
    const double limit = args->clip > 0.0f ? (double)args->clip : 1e30;
    for (uint32_t d = 0; d < heads * DIM; d++)
        out[d] = (double)in[d];
    if (!args->norm_after) norm_expected(heads, weight, args, out);
    for (uint32_t d = 0; d < heads * DIM; d++)
        out[d] = out[d] > limit ? limit : out[d] < -limit ? -limit : out[d];
    const struct mr_cpu_rope *rope = args->rope;
    const uint32_t half = rope ? rope->rotary_dim / 2 : 0;
    for (uint32_t head = 0; head < heads; head++)
        for (uint32_t i = 0; i < half; i++) {
            double *x = out + head * DIM + i, *y = x + half, before = *x;
            const double c = (double)rope->cos[position * half + i];
            const double s = (double)rope->sin[position * half + i];
            *x = before * c - *y * s;
            *y = before * s + *y * c;
        }
    if (args->norm_after) norm_expected(heads, weight, args, out);
}

/* The number of an int8 pool at `at`, a byte offset in the K or V that begins at `half`. */
static double int8_at(const struct mr_cpu_kv *kv, unsigned char *half, size_t at, uint32_t token)
{
    const float scale = number_from_bf16(mr_cpu_kv_scales(kv, half)[token]);
    return (double)(int8_t)half[at] * (double)scale;
}

/* A number is off by at most half a scale, which is the largest magnitude of the head / 127,
 * rounded up to bf16; K is also off by the rounding of the rotation to floats. */
static void check_int8_token(const struct mr_cpu_kv *kv, uint32_t block, uint32_t token,
                             uint32_t head, const double *key, const float *value)
{
    unsigned char *keys = mr_cpu_kv_keys(kv, block, 1, head);
    unsigned char *values = mr_cpu_kv_values(kv, block, 1, head);
    double key_top = 0, value_top = 0;
    for (uint32_t d = 0; d < DIM; d++) { /* not fmax, with which GCC 12 for arm64 crashes */
        key_top = fabs(key[d]) > key_top ? fabs(key[d]) : key_top;
        const double of_value = fabs((double)value[d]);
        value_top = of_value > value_top ? of_value : value_top;
    }
    for (uint32_t d = 0; d < DIM; d++) {
        const double k = int8_at(kv, keys, mr_cpu_kv_key_at(kv, token, d), token);
        const double v = int8_at(kv, values, mr_cpu_kv_value_at(kv, token, d), token);
        assert_true(fabs(k - key[d]) <= 1e-5 + key_top * 1.01 / 254);
        assert_true(fabs(v - (double)value[d]) <= value_top * 1.01 / 254);
    }
}

static void check_number(double got, double want, bool bf16)
{
    assert_true(fabs(want - got) <= 1e-5 + (bf16 ? fabs(want) / 256 : 0.0));
}

/* Checks the key and the value of one token and head in the pool. */
static void check_token(const struct mr_cpu_kv *kv, uint32_t block, uint32_t token, uint32_t head,
                        const double *key, const float *value)
{
    if (kv->spec.int8) {
        check_int8_token(kv, block, token, head, key, value);
        return;
    }
    const bool bf16 = kv->spec.bf16;
    const size_t size = mr_cpu_kv_element_bytes(kv);
    const unsigned char *keys = mr_cpu_kv_keys(kv, block, 1, head);
    const unsigned char *values = mr_cpu_kv_values(kv, block, 1, head);
    for (uint32_t d = 0; d < DIM; d++) {
        const size_t k = mr_cpu_kv_key_at(kv, token, d) / size;
        const size_t v = mr_cpu_kv_value_at(kv, token, d) / size;
        check_number((double)number_at(keys, k, bf16), key[d], bf16);
        check_number((double)number_at(values, v, bf16), (double)value[d], bf16);
    }
}

/* Writes `rows` tokens from position `context` on; checks every q in place, and every k and v in
 * the pool. */
static void check_write(const struct mr_cpu_rope_args *args, struct mr_cpu_kv_spec spec,
                        uint32_t context, uint32_t rows)
{
    spec.layer_count = 2;
    spec.kv_head_count = KV_HEADS;
    spec.head_dim = DIM;
    spec.block_count = 8;
    struct mr_cpu_kv *kv;
    struct mr_error err;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_OK);
    uint32_t blocks[POSITIONS / MR_BLOCK_TOKENS + 1];
    for (uint32_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        blocks[i] = (i + 3) % 8;
    const struct mr_cpu_attention_sequence sequence = {
        .row_begin = 0, .row_count = rows, .context_tokens = context, .blocks = blocks};
    const struct mr_cpu_attention_args attention = {
        .layer = 1, .head_count = HEADS, .sequences = &sequence, .sequence_count = 1};
    float *before = malloc(rows * WIDTH * sizeof *before),
          *qkv = malloc(rows * WIDTH * sizeof *qkv);
    uint64_t seed = 3;
    for (uint32_t i = 0; i < rows * WIDTH; i++)
        before[i] = qkv[i] = i % DIM < args->norm_width ? number_next(&seed) + 0.3f : 0.0f;
    mr_cpu_rope_write(kv, &attention, args, qkv);

    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t position = context + r;
        const float *row = before + r * WIDTH;
        double want[HEADS * DIM];
        expect_heads(row, HEADS, args->q_norm, args, position, want);
        const double factor =
            args->rope && args->rope->q_scales ? (double)args->rope->q_scales[position] : 1.0;
        for (uint32_t d = 0; d < HEADS * DIM; d++)
            check_number((double)qkv[r * WIDTH + d], want[d] * factor, false);
        expect_heads(row + HEADS * DIM, KV_HEADS, args->k_norm, args, position, want);
        for (uint32_t head = 0; head < KV_HEADS; head++)
            check_token(kv, blocks[position / MR_BLOCK_TOKENS], position % MR_BLOCK_TOKENS, head,
                        want + head * DIM, qkv + r * WIDTH + (HEADS + KV_HEADS + head) * DIM);
        for (uint32_t d = (HEADS + KV_HEADS) * DIM; d < WIDTH; d++)
            check_number((double)qkv[r * WIDTH + d],
                         args->clip > 0.0f && fabs((double)row[d]) > (double)args->clip
                             ? copysign((double)args->clip, (double)row[d])
                             : (double)row[d],
                         false);
    }
    free(qkv);
    free(before);
    mr_cpu_kv_destroy(kv);
}

static void check_shape(const struct shape *shape)
{
    float norm[HEADS * DIM];
    for (uint32_t d = 0; d < HEADS * DIM; d++)
        norm[d] = 0.5f + (float)(d % 37) * 0.1f; /* each head has its own weights */
    struct tables *tables = tables_make(shape->rotary_dim);
    /* q has factors of its own where a part of a head is rotated */
    const struct mr_cpu_rope rope = {.cos = tables->cos,
                                     .sin = tables->sin,
                                     .q_scales = shape->rotary_dim < DIM ? tables->q_scales : NULL,
                                     .rotary_dim = shape->rotary_dim};
    const struct mr_cpu_rope_args args = {.rope = shape->rotary_dim > 0 ? &rope : NULL,
                                          .q_norm = shape->norm ? norm : NULL,
                                          .k_norm = shape->norm ? norm + 5 : NULL,
                                          .norm_epsilon = 1e-6f,
                                          .norm_width = shape->head_size,
                                          .norm_whole = shape->norm == WHOLE_ROW,
                                          .norm_centered = shape->norm == CENTERED,
                                          .norm_after = shape->norm == AFTER_ROTATION,
                                          .clip = shape->clip};
    EACH_LEVEL (level)
        for (int i = 0; i < 4; i++) {
            const struct mr_cpu_kv_spec spec = {.bf16 = i % 2 == 1, .int8 = i >= 2, .level = level};
            check_write(&args, spec, 0, 1);
            check_write(&args, spec, MR_BLOCK_TOKENS - 3, 21);
        }
    free(tables);
}

static void keys_and_values_are_written_to_their_places(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {DIM, DIM, NO_NORM, 0},       {DIM, DIM / 2, NO_NORM, 0},  {DIM, 0, NO_NORM, 0},
        {DIM, DIM, EACH_HEAD, 0},     {DIM, 10, EACH_HEAD, 0},     {DIM, 0, EACH_HEAD, 0},
        {DIM, DIM, WHOLE_ROW, 0},     {DIM, DIM, CENTERED, 0},     {DIM, 8, CENTERED, 0},
        {20, 20, NO_NORM, 0},         {20, 20, EACH_HEAD, 0},      {20, 6, WHOLE_ROW, 0},
        {20, 20, CENTERED, 0},        {1, 0, WHOLE_ROW, 0},        {20, 20, AFTER_ROTATION, 0},
        {DIM, 10, AFTER_ROTATION, 0}, {DIM, DIM, WHOLE_ROW, 0.5f}, {20, 20, NO_NORM, 0.25f},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        check_shape(&shapes[s]);
}

/* All levels write the same integers and scales; a token with a number that int8 cannot store gets
 * zeros, and a scale of NaN, which makes every result that needs the token NaN. */
static void every_level_quantizes_to_the_same_bytes(void **state)
{
    (void)state;
    static const float unfit[] = {INFINITY, -INFINITY, NAN, 0x1p127f};
    float x[DIM];
    uint64_t seed = 11;
    for (uint32_t round = 0; round < 200; round++) {
        int8_t want[DIM], got[DIM];
        for (uint32_t d = 0; d < DIM; d++)
            x[d] = ldexpf(number_next(&seed), (int)(round * 17 % 250) - 126);
        if (round % 10 == 0) x[round % DIM] = unfit[round / 10 % 4];
        const uint16_t scale = mr_cpu_ops_get(MR_CPU_SCALAR)->quantize(x, DIM, want);
        assert_int_equal(isnan(number_from_bf16(scale)) != 0, round % 10 == 0);
        EACH_LEVEL (level) {
            assert_int_equal(mr_cpu_ops_get(level)->quantize(x, DIM, got), scale);
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

static void misuse_is_caught(void **state)
{
    (void)state;
    const struct mr_cpu_kv_spec spec = {
        .layer_count = 1, .kv_head_count = 1, .head_dim = 16, .block_count = 1};
    struct mr_cpu_kv *kv;
    struct mr_error err;
    assert_int_equal(mr_cpu_kv_create(&kv, &spec, &err), MR_OK);
    const float norm[16] = {0};
    float qkv[48] = {0};
    const uint32_t block = 0;
    const struct mr_cpu_attention_sequence sequence = {.row_count = 1, .blocks = &block};
    const struct mr_cpu_attention_args attention = {
        .head_count = 1, .sequences = &sequence, .sequence_count = 1};
    struct mr_cpu_rope_args args = {.q_norm = norm, .k_norm = norm};
    expect_assert_failure(mr_cpu_rope_write(kv, &attention, &args, qkv)); /* no width */
    args.norm_width = 17;
    expect_assert_failure(mr_cpu_rope_write(kv, &attention, &args, qkv));
    args.norm_width = 16;
    args.norm_whole = args.norm_centered = true;
    expect_assert_failure(mr_cpu_rope_write(kv, &attention, &args, qkv));
    const struct mr_cpu_rope rope = {.rotary_dim = 18};
    args = (struct mr_cpu_rope_args){.rope = &rope};
    expect_assert_failure(mr_cpu_rope_write(kv, &attention, &args, qkv));
    mr_cpu_kv_destroy(kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_values_are_written_to_their_places),
        cmocka_unit_test(every_level_quantizes_to_the_same_bytes),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
