/* Compares latent attention in the absorbed form to the expanded one in double: keys and values of
 * every head computed from the latents. Also checks that the bits of a row do not depend on chunks,
 * and that exported and copied blocks are equal to the block. */
#include "ops/cpu_kernels/latent.h"
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

enum { RANK = 40, PADDED = 48, ROPE = 12, NOPE = 10, VALUE = 6, QUERY = 4, HEADS_MAX = 70 };
enum { HEAD = NOPE + ROPE, EACH = NOPE + VALUE, ROW = QUERY + RANK + ROPE, TOKENS = 45 };
enum { KEY = PADDED + 16 };

struct kind {
    uint32_t heads, window;
    bool bf16, int8, pairs;
    enum mr_cpu_level level;
};

struct fixture {
    struct kind kind;
    struct mr_cpu_kv *kv;
    struct mr_cpu_linear *keys, *values;
    struct mr_cpu_latent latent;
    struct mr_cpu_rope rope;
    float cos[TOKENS * ROPE / 2], sin[TOKENS * ROPE / 2], norm[RANK];
    float *heads; /* [heads][NOPE, then VALUE][RANK] */
    float q[TOKENS * HEADS_MAX * HEAD], latents[TOKENS * ROW];
    uint32_t blocks[TOKENS / MR_BLOCK_TOKENS + 1];
};

static void key_row(void *context, uint32_t row, float *out)
{
    const struct fixture *fixture = context;
    const uint32_t head = row / PADDED, column = row % PADDED;
    for (uint32_t i = 0; i < NOPE; i++)
        out[i] = column < RANK ? fixture->heads[(head * EACH + i) * RANK + column] : 0.0f;
}

static void value_row(void *context, uint32_t row, float *out)
{
    const struct fixture *fixture = context;
    const uint32_t head = row / 16, index = row % 16;
    for (uint32_t i = 0; i < PADDED; i++)
        out[i] = index < VALUE && i < RANK ? fixture->heads[(head * EACH + NOPE + index) * RANK + i]
                                           : 0.0f;
}

static struct mr_cpu_linear *linear_of(struct fixture *fixture, uint32_t out, uint32_t in,
                                       mr_cpu_row_source source)
{
    struct mr_cpu_linear *linear;
    const struct mr_cpu_linear_spec spec = {.out_size = out,
                                            .in_size = in,
                                            .bf16 = fixture->kind.bf16,
                                            .source = source,
                                            .source_context = fixture,
                                            .level = fixture->kind.level};
    assert_int_equal(mr_cpu_linear_create(&linear, &spec, NULL), MR_OK);
    return linear;
}

static float number(uint64_t *seed, float range)
{
    return number_from_bf16(number_to_bf16(range * number_next(seed)));
}

static void fill(struct fixture *fixture)
{
    uint64_t seed = 11;
    for (uint32_t i = 0; i < RANK; i++)
        fixture->norm[i] = 1.0f + number(&seed, 0.25f);
    for (uint32_t i = 0; i < fixture->kind.heads * EACH * RANK; i++)
        fixture->heads[i] = number(&seed, 0.5f);
    for (uint32_t i = 0; i < TOKENS * fixture->kind.heads * HEAD; i++)
        fixture->q[i] = number(&seed, 1.0f);
    for (uint32_t i = 0; i < TOKENS * ROW; i++)
        fixture->latents[i] = number(&seed, 1.0f);
    for (uint32_t i = 0; i < TOKENS * ROPE / 2; i++) {
        const float angle = 0.3f * (float)(i / (ROPE / 2)) / (1.0f + (float)(i % (ROPE / 2)));
        fixture->cos[i] = cosf(angle);
        fixture->sin[i] = sinf(angle);
    }
    for (uint32_t i = 0; i < TOKENS / MR_BLOCK_TOKENS + 1; i++)
        fixture->blocks[i] = TOKENS / MR_BLOCK_TOKENS + 1 - i;
}

static struct fixture *fixture_create(struct kind kind)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    const struct mr_cpu_kv_spec spec = {.layer_count = 2,
                                        .kv_head_count = 1,
                                        .head_dim = KEY,
                                        .value_dim = PADDED,
                                        .block_count = TOKENS / MR_BLOCK_TOKENS + 3,
                                        .bf16 = kind.bf16,
                                        .int8 = kind.int8,
                                        .level = kind.level};
    fixture->kind = kind;
    fixture->heads = calloc(kind.heads * EACH * RANK, sizeof(float));
    fill(fixture);
    assert_int_equal(mr_cpu_kv_create(&fixture->kv, &spec, NULL), MR_OK);
    const size_t element = kind.int8 ? 1 : kind.bf16 ? 2 : 4;
    assert_int_equal(mr_cpu_kv_block_bytes(&spec),
                     2 * MR_BLOCK_TOKENS * (KEY * element + (kind.int8 ? 2 : 0)));
    fixture->keys = linear_of(fixture, kind.heads * PADDED, NOPE, key_row);
    fixture->values = linear_of(fixture, kind.heads * 16, PADDED, value_row);
    fixture->rope = (struct mr_cpu_rope){fixture->cos, fixture->sin, NULL, ROPE};
    fixture->latent = (struct mr_cpu_latent){.shape = {.rank = RANK,
                                                       .rope_dim = ROPE,
                                                       .nope_dim = NOPE,
                                                       .value_dim = VALUE,
                                                       .query_rank = QUERY,
                                                       .norm_epsilon = 1e-6f,
                                                       .pairs = kind.pairs},
                                             .head_count = kind.heads,
                                             .rope = &fixture->rope,
                                             .norm = fixture->norm,
                                             .keys = fixture->keys,
                                             .values = fixture->values};
    return fixture;
}

static void fixture_destroy(struct fixture *fixture)
{
    mr_cpu_kv_destroy(fixture->kv);
    mr_cpu_linear_destroy(fixture->keys);
    mr_cpu_linear_destroy(fixture->values);
    free(fixture->heads);
    free(fixture);
}

/* Computes the rows of tokens [from, to) and writes them to out, [TOKENS, heads * VALUE] numbers,
 * and writes their latents to the pool. */
static void step(struct fixture *fixture, uint32_t from, uint32_t to, void *out)
{
    const uint32_t heads = fixture->kind.heads, rows = to - from;
    const size_t number = fixture->kind.bf16 ? 2 : 4;
    const struct mr_cpu_attention_sequence sequence = {
        .row_count = rows, .context_tokens = from, .blocks = fixture->blocks};
    const struct mr_cpu_attention_args attention = {.layer = 1,
                                                    .head_count = heads,
                                                    .window = fixture->kind.window,
                                                    .scale = 0.4f,
                                                    .sequences = &sequence,
                                                    .sequence_count = 1};
    float *q = calloc((size_t)rows * heads * HEAD, sizeof(float));
    float *latents = calloc((size_t)rows * ROW, sizeof(float));
    float *absorbed = calloc((size_t)rows * heads * KEY, sizeof(float));
    void *attended = calloc((size_t)rows * heads * PADDED, number);
    memcpy(q, fixture->q + (size_t)from * heads * HEAD, (size_t)rows * heads * HEAD * sizeof *q);
    memcpy(latents, fixture->latents + (size_t)from * ROW, (size_t)rows * ROW * sizeof *q);
    mr_cpu_latent_write(fixture->kv, &attention, &fixture->latent, q, latents);
    mr_cpu_latent_absorb(&fixture->latent, q, rows, absorbed);
    mr_cpu_attention(fixture->kv, &attention, absorbed, attended);
    mr_cpu_latent_values(&fixture->latent, attended, rows,
                         (char *)out + (size_t)from * heads * VALUE * number);
    free(q);
    free(latents);
    free(absorbed);
    free(attended);
}

/* ---- the expanded form in double ---- */

static void rotate(const struct fixture *fixture, uint32_t token, const float *x, double *out)
{
    for (uint32_t i = 0; i < ROPE / 2; i++) {
        const uint32_t first = fixture->kind.pairs ? 2 * i : i;
        const uint32_t second = fixture->kind.pairs ? 2 * i + 1 : i + ROPE / 2;
        const double c = (double)fixture->cos[token * ROPE / 2 + i];
        const double s = (double)fixture->sin[token * ROPE / 2 + i];
        out[first] = (double)x[first] * c - (double)x[second] * s;
        out[second] = (double)x[second] * c + (double)x[first] * s;
    }
}

static void normed_latent(const struct fixture *fixture, uint32_t token, double *out)
{
    const float *x = fixture->latents + (size_t)token * ROW + QUERY;
    double mean = 0;
    for (uint32_t i = 0; i < RANK; i++)
        mean += (double)x[i] * (double)x[i] / RANK;
    for (uint32_t i = 0; i < RANK; i++)
        out[i] = (double)x[i] / sqrt(mean + 1e-6) * (double)fixture->norm[i];
}

static void expected_head(const struct fixture *fixture, uint32_t token, uint32_t head,
                          double out[VALUE])
{
    const float *q = fixture->q + ((size_t)token * fixture->kind.heads + head) * HEAD;
    const float *matrix = fixture->heads + (size_t)head * EACH * RANK;
    const uint32_t window = fixture->kind.window;
    double turned[ROPE], key[ROPE], latent[RANK], sum = 0;
    memset(out, 0, VALUE * sizeof *out);
    rotate(fixture, token, q + NOPE, turned);
    for (uint32_t k = window > 0 && token >= window ? token - window + 1 : 0; k <= token; k++) {
        double score = 0;
        normed_latent(fixture, k, latent);
        rotate(fixture, k, fixture->latents + (size_t)k * ROW + QUERY + RANK, key);
        for (uint32_t i = 0; i < ROPE; i++)
            score += turned[i] * key[i];
        for (uint32_t i = 0; i < NOPE; i++)
            for (uint32_t j = 0; j < RANK; j++)
                score += (double)q[i] * (double)matrix[i * RANK + j] * latent[j];
        const double weight = exp(0.4 * score);
        sum += weight;
        for (uint32_t i = 0; i < VALUE; i++)
            for (uint32_t j = 0; j < RANK; j++)
                out[i] += weight * (double)matrix[(NOPE + i) * RANK + j] * latent[j];
    }
    for (uint32_t i = 0; i < VALUE; i++)
        out[i] /= sum;
}

static void check_values(const struct fixture *fixture, const void *out)
{
    const double tolerance = fixture->kind.int8 ? 0.06 : fixture->kind.bf16 ? 0.03 : 2e-5;
    for (uint32_t token = 0; token < TOKENS; token += 11)
        for (uint32_t head = 0; head < fixture->kind.heads; head++) {
            double expected[VALUE];
            expected_head(fixture, token, head, expected);
            for (uint32_t i = 0; i < VALUE; i++) {
                const size_t at = ((size_t)token * fixture->kind.heads + head) * VALUE + i;
                const double got = (double)number_at(out, at, fixture->kind.bf16);
                if (!(fabs(got - expected[i]) < tolerance))
                    fail_msg("token %u, head %u, number %u: %f, not %f", token, head, i, got,
                             expected[i]);
            }
        }
}

/* The rows of the last block, computed with a copy of its bytes in another block, are equal. */
static void check_copies(struct fixture *fixture, const void *out, size_t bytes)
{
    const uint32_t last = (TOKENS - 1) / MR_BLOCK_TOKENS, block = fixture->blocks[last];
    const uint32_t first = last * MR_BLOCK_TOKENS, count = TOKENS - first;
    const size_t stored = mr_cpu_kv_export_bytes(fixture->kv, count);
    unsigned char *exported = malloc(stored), *again = malloc(stored);
    void *other = calloc(1, bytes);
    memcpy(other, out, bytes);
    mr_cpu_kv_export(fixture->kv, block, 0, count, exported);
    mr_cpu_kv_import(fixture->kv, 0, 0, count, exported);
    mr_cpu_kv_export(fixture->kv, 0, 0, count, again);
    assert_memory_equal(exported, again, stored);
    fixture->blocks[last] = 0;
    step(fixture, TOKENS - 1, TOKENS, other);
    assert_memory_equal(other, out, bytes);
    mr_cpu_kv_copy(fixture->kv, block, TOKENS / MR_BLOCK_TOKENS + 2, count);
    mr_cpu_kv_export(fixture->kv, TOKENS / MR_BLOCK_TOKENS + 2, 0, count, again);
    assert_memory_equal(exported, again, stored);
    if (!fixture->kind.int8) {
        unsigned char *small = malloc(mr_cpu_kv_int8_bytes(fixture->kv, count));
        assert_true(mr_cpu_kv_int8_export(fixture->kv, block, 0, count, small));
        mr_cpu_kv_int8_import(fixture->kv, 0, 0, count, small);
        step(fixture, TOKENS - 1, TOKENS, other);
        for (size_t i = 0; i < bytes / (fixture->kind.bf16 ? 2 : 4); i++)
            assert_true(fabsf(number_at(other, i, fixture->kind.bf16) -
                              number_at(out, i, fixture->kind.bf16)) < 0.06f);
        free(small);
    }
    free(exported);
    free(again);
    free(other);
}

static void check_kind(struct kind kind)
{
    struct fixture *fixture = fixture_create(kind);
    const size_t bytes = (size_t)TOKENS * kind.heads * VALUE * (kind.bf16 ? 2 : 4);
    void *whole = calloc(1, bytes), *parts = calloc(1, bytes);
    step(fixture, 0, TOKENS, whole);
    check_values(fixture, whole);
    for (uint32_t from = 0; from < TOKENS; from += 7)
        step(fixture, from, from + 7 < TOKENS ? from + 7 : TOKENS, parts);
    assert_memory_equal(whole, parts, bytes);
    check_copies(fixture, whole, bytes);
    free(whole);
    free(parts);
    fixture_destroy(fixture);
}

static void the_absorbed_form_equals_the_expanded_one(void **state)
{
    (void)state;
    EACH_LEVEL (level)
        for (uint32_t numbers = 0; numbers < 4; numbers++) {
            const bool bf16 = numbers % 2 == 1, int8 = numbers >= 2;
            check_kind((struct kind){5, 0, bf16, int8, true, level});
            check_kind((struct kind){3, 20, bf16, int8, false, level});
        }
}

/* 70 heads do not fit a tile of query rows, so they are divided into groups of 35. */
static void many_heads_are_divided_into_groups(void **state)
{
    (void)state;
    check_kind((struct kind){HEADS_MAX, 0, true, false, true, MR_CPU_BEST});
    check_kind((struct kind){HEADS_MAX, 0, false, false, true, MR_CPU_BEST});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_absorbed_form_equals_the_expanded_one),
        cmocka_unit_test(many_heads_are_divided_into_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
