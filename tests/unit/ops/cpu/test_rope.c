#include "ops/cpu/kv_kernels.h"
#include "ops/cpu/kv_pool.h"
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
    float cos[POSITIONS * DIM / 2], sin[POSITIONS * DIM / 2];
};

static struct tables *tables_make(uint32_t rotary_dim)
{
    struct tables *tables = malloc(sizeof *tables);
    for (uint32_t p = 0; p < POSITIONS; p++)
        for (uint32_t i = 0; i < rotary_dim / 2; i++) {
            const double angle = p * pow(10000.0, -2.0 * i / rotary_dim);
            tables->cos[p * rotary_dim / 2 + i] = (float)cos(angle);
            tables->sin[p * rotary_dim / 2 + i] = (float)sin(angle);
        }
    return tables;
}

/* The expected head: norm, then rotation, in double. */
static void expect_head(const float *in, const float *norm, const struct mr_cpu_rope *rope,
                        uint32_t position, double *out)
{
    double squares = 0.0;
    for (uint32_t d = 0; d < DIM; d++)
        squares += (double)in[d] * (double)in[d];
    for (uint32_t d = 0; d < DIM; d++)
        out[d] =
            norm ? (double)in[d] / sqrt(squares / DIM + 1e-6) * (double)norm[d] : (double)in[d];
    const uint32_t half = rope->rotary_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        const double c = (double)rope->cos[position * half + i];
        const double s = (double)rope->sin[position * half + i], x = out[i], y = out[i + half];
        out[i] = x * c - y * s;
        out[i + half] = x * s + y * c;
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
static void check_write(const struct mr_cpu_rope_args *args, enum mr_cpu_level level, bool bf16,
                        uint32_t context, uint32_t rows)
{
    const struct mr_cpu_kv_spec spec = {.layer_count = 2,
                                        .kv_head_count = KV_HEADS,
                                        .head_dim = DIM,
                                        .block_count = 8,
                                        .bf16 = bf16,
                                        .level = level};
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
        before[i] = qkv[i] = number_next(&seed);
    mr_cpu_rope_write(kv, &attention, args, qkv);

    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t position = context + r;
        const float *row = before + r * WIDTH;
        double want[DIM];
        for (uint32_t head = 0; head < HEADS; head++) {
            expect_head(row + head * DIM, args->q_norm, args->rope, position, want);
            for (uint32_t d = 0; d < DIM; d++)
                check_number((double)qkv[r * WIDTH + head * DIM + d], want[d], false);
        }
        for (uint32_t head = 0; head < KV_HEADS; head++) {
            expect_head(row + (HEADS + head) * DIM, args->k_norm, args->rope, position, want);
            check_token(kv, blocks[position / MR_BLOCK_TOKENS], position % MR_BLOCK_TOKENS, head,
                        want, row + (HEADS + KV_HEADS + head) * DIM);
        }
    }
    free(qkv);
    free(before);
    mr_cpu_kv_destroy(kv);
}

static void keys_and_values_are_written_to_their_places(void **state)
{
    (void)state;
    float norm[DIM];
    for (uint32_t d = 0; d < DIM; d++)
        norm[d] = 0.5f + (float)d * 0.1f;
    for (int kind = 0; kind < 4; kind++) {
        const uint32_t rotary_dim = kind & 1 ? DIM : DIM / 2;
        struct tables *tables = tables_make(rotary_dim);
        const struct mr_cpu_rope rope = {
            .cos = tables->cos, .sin = tables->sin, .rotary_dim = rotary_dim};
        const struct mr_cpu_rope_args args = {.rope = &rope,
                                              .q_norm = kind & 2 ? norm : NULL,
                                              .k_norm = kind & 2 ? norm : NULL,
                                              .norm_epsilon = 1e-6f};
        for (int level = MR_CPU_SCALAR; level <= MR_CPU_AMX; level++)
            for (int bf16 = 0; bf16 < 2; bf16++) {
                check_write(&args, (enum mr_cpu_level)level, bf16 != 0, 0, 1);
                check_write(&args, (enum mr_cpu_level)level, bf16 != 0, MR_BLOCK_TOKENS - 3, 21);
            }
        free(tables);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_values_are_written_to_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
