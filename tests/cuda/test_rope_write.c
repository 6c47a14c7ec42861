/* Compares norm of q and k, rotary embedding and KV write with double, and checks that no other
 * number of the pool changes. */
#include "cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POSITIONS 50u

struct rope_case {
    struct mr_cuda_rope_write write;
    int32_t positions[4];
    int64_t slots[4];
    uint32_t block_count;
    size_t pool_numbers;   /* of K, and of V */
    unsigned char *before; /* K and V before the launch */
};

static void pick_shape(struct cases *cases, struct mr_cuda_rope_write *write)
{
    static const uint32_t dims[] = {16, 64, 80, 96, 112, 128, 176, 240, 256};
    write->row_count = 1 + cases_pick(cases, 4);
    write->kv.kv_head_count = 1 + cases_pick(cases, 4);
    write->head_count = write->kv.kv_head_count * (1 + cases_pick(cases, 5));
    write->kv.head_dim = cases_choose(cases, dims, sizeof dims / sizeof *dims);
    write->kv.block_tokens = 16u << cases_pick(cases, 5);
    write->kv.type = cases_type(cases);
    if (cases->number == 0) write->head_count = 256, write->kv.kv_head_count = 256;
    const uint32_t dim = write->kv.head_dim;
    write->rotary_dim = cases_pick(cases, 3) ? dim : 2 * cases_pick(cases, dim / 2 + 1);
    write->norm_width = cases_pick(cases, 3) ? dim : dim - cases_pick(cases, 16);
    write->norm_whole = cases_pick(cases, 4) == 0;
    write->norm_epsilon = cases_pick(cases, 2) ? 1e-6f : 1e-2f;
    write->qkv_stride =
        (int64_t)dim * (write->head_count + 2 * write->kv.kv_head_count) + 8 * cases_pick(cases, 2);
}

/* Every row writes to a block of its own, so that no two rows share a slot. */
static void make_pool(struct cases *cases, struct rope_case *at)
{
    struct mr_cuda_kv *kv = &at->write.kv;
    const int64_t dim = kv->head_dim + 8 * cases_pick(cases, 2);
    const bool by_head = cases_pick(cases, 2) == 0;
    kv->token_stride = by_head ? dim : dim * kv->kv_head_count;
    kv->head_stride = by_head ? dim * kv->block_tokens : dim;
    kv->block_stride = dim * kv->block_tokens * kv->kv_head_count;
    at->block_count = at->write.row_count;
    at->pool_numbers = (size_t)kv->block_stride * at->block_count;
    kv->keys = numbers_random(cases, kv->type, at->pool_numbers, 1.0);
    kv->values = numbers_random(cases, kv->type, at->pool_numbers, 1.0);
    const size_t bytes = at->pool_numbers * numbers_bytes(kv->type);
    at->before = malloc(2 * bytes);
    if (!at->before) abort();
    memcpy(at->before, kv->keys, bytes);
    memcpy(at->before + bytes, kv->values, bytes);
    for (uint32_t row = 0; row < at->write.row_count; row++) {
        const uint32_t last = kv->block_tokens - 1;
        const uint32_t token =
            cases_pick(cases, 2) ? cases_pick(cases, last + 1) : last * cases_pick(cases, 2);
        at->positions[row] = (int32_t)cases_pick(cases, POSITIONS);
        at->slots[row] = cases_pick(cases, 6) ? (int64_t)row * kv->block_tokens + token : -1;
    }
    at->write.positions = at->positions;
    at->write.slots = at->slots;
}

/* A head after norm and rotation in double. kind: 0 q, 1 k, 2 v. */
static void expect_head(const struct mr_cuda_rope_write *write, uint32_t row, uint32_t kind,
                        uint32_t head, double *out)
{
    const uint32_t dim = write->kv.head_dim, kv_heads = write->kv.kv_head_count;
    const uint32_t heads = kind == 0 ? write->head_count : kv_heads;
    const size_t first = row * (size_t)write->qkv_stride +
                         (size_t)dim * (kind == 0   ? 0
                                        : kind == 1 ? write->head_count
                                                    : write->head_count + kv_heads);
    const float *weights = kind == 0 ? write->q_norm : kind == 1 ? write->k_norm : NULL;
    double squares = 0.0, x[256];
    for (uint32_t i = 0; i < dim; i++)
        x[i] = numbers_get(write->kv.type, write->qkv, first + (size_t)head * dim + i);
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t i = 0; i < write->norm_width && (write->norm_whole || h == head); i++)
            squares += pow(numbers_get(write->kv.type, write->qkv, first + (size_t)h * dim + i), 2);
    const double count = (double)write->norm_width * (write->norm_whole ? heads : 1);
    for (uint32_t i = 0; weights && i < write->norm_width; i++)
        x[i] *=
            (double)weights[head * dim + i] / sqrt(squares / count + (double)write->norm_epsilon);
    memcpy(out, x, dim * sizeof *x);
    const uint32_t half = write->rotary_dim / 2;
    for (uint32_t i = 0; kind < 2 && i < half; i++) {
        const size_t angle = (size_t)write->positions[row] * half + i;
        const double c = (double)write->cos[angle], s = (double)write->sin[angle];
        out[i] = x[i] * c - x[i + half] * s;
        out[i + half] = x[i + half] * c + x[i] * s;
    }
}

/* Compares the pool's K or V with the expected rows, and elsewhere with its former content. */
static void compare_pool(struct cases *cases, const struct rope_case *at, uint32_t kind)
{
    const struct mr_cuda_kv *kv = &at->write.kv;
    const size_t size = numbers_bytes(kv->type), bytes = at->pool_numbers * size;
    unsigned char *pool = kind == 1 ? kv->keys : kv->values;
    const unsigned char *before = at->before + (kind == 1 ? 0 : bytes);
    double expected[256];
    for (uint32_t row = 0; row < at->write.row_count; row++) {
        if (at->slots[row] < 0) continue;
        for (uint32_t head = 0; head < kv->kv_head_count; head++) {
            const size_t place = (size_t)(at->slots[row] / kv->block_tokens * kv->block_stride +
                                          head * kv->head_stride +
                                          at->slots[row] % kv->block_tokens * kv->token_stride);
            expect_head(&at->write, row, kind, head, expected);
            for (uint32_t i = 0; i < kv->head_dim; i++)
                numbers_compare(cases, (struct numbers){kind == 1 ? "K" : "V", kv->type, pool},
                                place + i, expected[i], kind == 1 ? 2e-5 : 0.0);
            memcpy(pool + place * size, before + place * size, kv->head_dim * size);
        }
    }
    if (memcmp(pool, before, bytes) != 0)
        cases_fail(cases, "%s of another token changed", kind == 1 ? "K" : "V");
}

static void compare(struct cases *cases, const struct rope_case *at)
{
    const struct mr_cuda_rope_write *write = &at->write;
    const uint32_t dim = write->kv.head_dim;
    double expected[256];
    for (uint32_t row = 0; row < write->row_count; row++)
        for (uint32_t head = 0; head < write->head_count; head++) {
            expect_head(write, row, 0, head, expected);
            for (uint32_t i = 0; i < dim; i++)
                numbers_compare(cases, (struct numbers){"q", write->kv.type, write->q},
                                ((size_t)row * write->head_count + head) * dim + i, expected[i],
                                2e-5);
        }
    compare_pool(cases, at, 1);
    compare_pool(cases, at, 2);
}

static void run_case(struct cases *cases)
{
    struct rope_case at = {.block_count = 0};
    struct mr_cuda_rope_write *write = &at.write;
    pick_shape(cases, write);
    make_pool(cases, &at);
    const enum mr_cuda_type type = write->kv.type;
    const size_t heads = write->head_count, dim = write->kv.head_dim;
    void *qkv = numbers_random(cases, type, (size_t)write->qkv_stride * write->row_count, 2.0);
    float *q_norm = floats_random(cases, heads * dim, 2.0);
    float *k_norm = floats_random(cases, write->kv.kv_head_count * dim, 2.0);
    float *cosines = floats_random(cases, (size_t)POSITIONS * (write->rotary_dim / 2), 1.0);
    float *sines = floats_random(cases, (size_t)POSITIONS * (write->rotary_dim / 2), 1.0);
    write->qkv = qkv;
    write->q_norm = cases_pick(cases, 2) ? q_norm : NULL;
    write->k_norm = cases_pick(cases, 2) ? k_norm : NULL;
    write->cos = cosines;
    write->sin = sines;
    write->q = numbers_nan(type, write->row_count * heads * dim);
    struct mr_error err = {.status = MR_OK};
    if (mr_cuda_rope_kv_write(write, NULL, &err) == MR_OK)
        compare(cases, &at);
    else
        cases_fail(cases, "%s", err.detail);
    free(write->q);
    free(sines);
    free(cosines);
    free(k_norm);
    free(q_norm);
    free(qkv);
    free(at.before);
    free(write->kv.keys);
    free(write->kv.values);
}

int main(int argc, char **argv)
{
    return cases_run(argc, argv, 100, run_case);
}
