/* Paged decode attention against softmax over all tokens in double. Numbers of the pool that a row
 * must not read are NaN, and block ids that it must not read are invalid. */
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 6u

struct decode_case {
    struct mr_cuda_decode decode;
    int32_t lengths[ROWS_MAX];
    unsigned char *pool; /* keys and values */
    size_t value_offset; /* in numbers */
    uint32_t block_count;
};

/* Shapes at the edges; 0: random. */
static const struct edge {
    uint32_t heads, kv_heads, dim, block_tokens, length, window;
} edges[] = {
    {1, 1, 16, 16, 1, 0},      {1, 1, 64, 256, 256, 0},    {2, 1, 64, 256, 257, 0},
    {4, 1, 128, 16, 16, 0},    {4, 1, 128, 16, 17, 0},     {8, 1, 256, 32, 33, 0},
    {9, 1, 80, 64, 65, 0},     {16, 1, 96, 128, 129, 0},   {64, 1, 16, 16, 40, 0},
    {256, 256, 16, 16, 20, 0}, {256, 32, 16, 16, 18, 0},   {256, 4, 16, 16, 5, 0},
    {4, 2, 64, 16, 512, 0},    {4, 2, 64, 16, 513, 0},     {4, 2, 64, 16, 511, 0},
    {2, 1, 64, 16, 300, 1},    {2, 1, 64, 16, 300, 300},   {2, 1, 64, 16, 300, 299},
    {2, 1, 64, 16, 300, 301},  {2, 1, 64, 256, 512, 256},  {2, 1, 64, 256, 513, 256},
    {2, 1, 64, 32, 513, 257},  {2, 1, 64, 32, 600, 255},   {2, 1, 64, 32, 768, 512},
    {3, 1, 112, 64, 100, 64},  {5, 1, 240, 128, 130, 128}, {1, 1, 256, 256, 1100, 0},
    {12, 4, 48, 16, 48, 16},   {7, 7, 176, 64, 64, 63},    {32, 8, 128, 16, 31, 0},
};
#define EDGE_COUNT (sizeof edges / sizeof *edges)

static uint32_t pick_length(struct cases *cases, uint32_t tokens_max)
{
    const uint32_t step = 1u << (4 + cases_pick(cases, 5));
    const uint32_t any = 1 + cases_pick(cases, tokens_max);
    if (cases_pick(cases, 2)) return any;
    const uint32_t edge = (any + step - 1) / step * step + cases_pick(cases, 3); /* and 1, 2 less */
    return edge > 2 ? edge - 2 : 1;
}

static void pick_shape(struct cases *cases, struct mr_cuda_decode *decode)
{
    static const uint32_t groups[] = {1, 1, 2, 3, 4, 4, 5, 7, 8, 8, 9, 16};
    static const uint32_t dims[] = {64, 64, 80, 96, 112, 128, 128, 128, 192, 256, 256, 16, 32, 240};
    const uint32_t kv_heads = 1 + cases_pick(cases, 3);
    decode->head_count = kv_heads * cases_choose(cases, groups, sizeof groups / sizeof *groups);
    decode->kv = (struct mr_cuda_kv){
        .kv_head_count = kv_heads,
        .head_dim = cases_choose(cases, dims, sizeof dims / sizeof *dims),
        .block_tokens = 16u << cases_pick(cases, 5),
        .type = cases_type(cases),
    };
    decode->row_count = 1 + cases_pick(cases, 3) * cases_pick(cases, 3) / 2;
    if (cases_pick(cases, 3) == 0) decode->window = pick_length(cases, 400);
    if (cases->number < EDGE_COUNT) {
        const struct edge *edge = &edges[cases->number];
        decode->head_count = edge->heads;
        decode->kv.kv_head_count = edge->kv_heads;
        decode->kv.head_dim = edge->dim;
        decode->kv.block_tokens = edge->block_tokens;
        decode->window = edge->window;
        decode->row_count = 1;
    }
    decode->scale = (float)(1.0 / sqrt((double)decode->kv.head_dim));
    if (cases_pick(cases, 3) == 0)
        decode->softcap = (float)(1.0 + 30.0 * fabs(cases_uniform(cases)));
}

/* Limits the total work, because long sequences with many heads are slow. */
static void pick_lengths(struct cases *cases, struct decode_case *at)
{
    struct mr_cuda_decode *decode = &at->decode;
    const uint32_t cost = decode->head_count * decode->row_count;
    const uint32_t most = cost <= 4 ? 1100 : cost <= 16 ? 600 : cost <= 48 ? 300 : 60;
    for (uint32_t row = 0; row < decode->row_count; row++) {
        at->lengths[row] = (int32_t)pick_length(cases, most);
        if (decode->row_count > 1 && cases_pick(cases, 5) == 0) at->lengths[row] = 0;
        if (cases->number < EDGE_COUNT) at->lengths[row] = (int32_t)edges[cases->number].length;
        if ((uint32_t)at->lengths[row] > decode->length_max)
            decode->length_max = (uint32_t)at->lengths[row];
    }
    decode->length_max += cases_pick(cases, 2) * cases_pick(cases, 400);
    decode->lengths = at->lengths;
}

static uint32_t oldest_of(const struct mr_cuda_decode *decode, uint32_t length)
{
    return decode->window > 0 && length > decode->window ? length - decode->window : 0;
}

/* Returns the index in the pool of the K of a token of the sequence. */
static size_t pool_index(const struct mr_cuda_decode *decode, uint32_t row, uint32_t kv_head,
                         uint32_t token)
{
    const struct mr_cuda_kv *kv = &decode->kv;
    const int32_t block =
        decode->blocks[row * (size_t)decode->blocks_stride + token / kv->block_tokens];
    return (size_t)(block * kv->block_stride + kv_head * kv->head_stride +
                    token % kv->block_tokens * kv->token_stride);
}

/* Assigns every row the blocks that it reads, none shared, in random order. */
static void make_tables(struct cases *cases, struct decode_case *at)
{
    struct mr_cuda_decode *decode = &at->decode;
    const uint32_t tokens = decode->kv.block_tokens;
    decode->blocks_stride = (decode->length_max + tokens - 1) / tokens + cases_pick(cases, 2);
    const size_t entries = (size_t)decode->blocks_stride * decode->row_count;
    int32_t *blocks = malloc((entries + 1) * sizeof *blocks);
    if (!blocks) abort();
    for (size_t i = 0; i < entries; i++)
        blocks[i] = INT32_MAX;
    at->block_count = 1; /* no row uses block 0 */
    for (uint32_t row = 0; row < decode->row_count; row++) {
        const uint32_t length = (uint32_t)at->lengths[row];
        for (uint32_t block = oldest_of(decode, length) / tokens; block * tokens < length; block++)
            blocks[row * (size_t)decode->blocks_stride + block] = (int32_t)at->block_count++;
    }
    for (size_t i = 0; i < entries; i++) { /* swaps with another block in use */
        const size_t other = cases_pick(cases, (uint32_t)entries);
        if (blocks[i] == INT32_MAX || blocks[other] == INT32_MAX) continue;
        const int32_t block = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = block;
    }
    decode->blocks = blocks;
}

/* One of the layouts [block][head][token], [block][token][head], with K and V in one array or K
 * before all V. */
static void make_pool(struct cases *cases, struct decode_case *at)
{
    struct mr_cuda_decode *decode = &at->decode;
    struct mr_cuda_kv *kv = &decode->kv;
    const int64_t dim = kv->head_dim, padding = 8 * cases_pick(cases, 2);
    const bool by_head = cases_pick(cases, 2) == 0;
    kv->token_stride = by_head ? dim + padding : (dim + padding) * kv->kv_head_count;
    kv->head_stride = by_head ? kv->token_stride * kv->block_tokens : dim + padding;
    const int64_t half = (dim + padding) * kv->block_tokens * kv->kv_head_count;
    const bool together = cases_pick(cases, 2) == 0;
    kv->block_stride = together ? 2 * half : half;
    at->value_offset = (size_t)(together ? half : half * at->block_count);
    at->pool = numbers_nan(kv->type, (size_t)(2 * half) * at->block_count);
    kv->keys = at->pool;
    kv->values = at->pool + at->value_offset * numbers_bytes(kv->type);
    for (uint32_t row = 0; row < decode->row_count; row++)
        for (uint32_t length = (uint32_t)at->lengths[row], token = oldest_of(decode, length);
             token < length; token++)
            for (uint32_t head = 0; head < kv->kv_head_count; head++)
                for (uint32_t i = 0; i < kv->head_dim; i++) {
                    const size_t index = pool_index(decode, row, head, token) + i;
                    numbers_set(kv->type, kv->keys, index, cases_uniform(cases) * 3.0);
                    numbers_set(kv->type, kv->values, index, cases_uniform(cases));
                }
}

/* The result of one row and head in double. */
static void attend(const struct mr_cuda_decode *decode, uint32_t row, uint32_t head, double *out)
{
    const struct mr_cuda_kv *kv = &decode->kv;
    const uint32_t length = (uint32_t)decode->lengths[row], dim = kv->head_dim;
    const uint32_t kv_head = head / (decode->head_count / kv->kv_head_count);
    const size_t q = row * (size_t)decode->q_stride + (size_t)head * dim;
    double sum = 0.0, top = -1e300, *scores = calloc(length + 1, sizeof *scores);
    if (!scores) abort();
    for (uint32_t token = oldest_of(decode, length); token < length; token++) {
        const size_t at = pool_index(decode, row, kv_head, token);
        for (uint32_t i = 0; i < dim; i++)
            scores[token] +=
                numbers_get(kv->type, decode->q, q + i) * numbers_get(kv->type, kv->keys, at + i);
        scores[token] *= (double)decode->scale;
        if (decode->softcap > 0.0f)
            scores[token] = (double)decode->softcap * tanh(scores[token] / (double)decode->softcap);
        top = fmax(top, scores[token]);
    }
    if (decode->sinks) top = fmax(top, (double)decode->sinks[head]);
    memset(out, 0, dim * sizeof *out);
    for (uint32_t token = oldest_of(decode, length); token < length; token++) {
        const double weight = exp(scores[token] - top);
        const size_t at = pool_index(decode, row, kv_head, token);
        sum += weight;
        for (uint32_t i = 0; i < dim; i++)
            out[i] += weight * numbers_get(kv->type, kv->values, at + i);
    }
    if (decode->sinks) sum += exp((double)decode->sinks[head] - top);
    for (uint32_t i = 0; i < dim && length > 0; i++)
        out[i] /= sum;
    free(scores);
}

static void compare(struct cases *cases, const struct mr_cuda_decode *decode)
{
    double expected[256];
    const uint32_t dim = decode->kv.head_dim;
    for (uint32_t row = 0; row < decode->row_count; row++)
        for (uint32_t head = 0; head < decode->head_count; head++) {
            attend(decode, row, head, expected);
            for (uint32_t i = 0; i < dim; i++)
                numbers_compare(cases, (struct numbers){"out", decode->kv.type, decode->out},
                                ((size_t)row * decode->head_count + head) * dim + i, expected[i],
                                2e-5);
        }
}

static void run_case(struct cases *cases)
{
    struct decode_case at = {.block_count = 0};
    struct mr_cuda_decode *decode = &at.decode;
    pick_shape(cases, decode);
    pick_lengths(cases, &at);
    make_tables(cases, &at);
    make_pool(cases, &at);
    const enum mr_cuda_type type = decode->kv.type;
    const size_t width = (size_t)decode->head_count * decode->kv.head_dim;
    decode->q_stride = (int64_t)width + 8 * cases_pick(cases, 3);
    void *q = numbers_random(cases, type, (size_t)decode->q_stride * decode->row_count, 2.0);
    float *sinks = floats_random(cases, decode->head_count, 4.0);
    decode->q = q;
    decode->sinks = cases_pick(cases, 3) == 0 ? sinks : NULL;
    decode->out = numbers_nan(type, width * decode->row_count);
    decode->scratch = numbers_nan(MR_CUDA_F32, mr_cuda_decode_scratch_bytes(decode) / 4);
    struct mr_error err = {.status = MR_OK};
    if (mr_cuda_decode_attention(decode, NULL, &err) == MR_OK)
        compare(cases, decode);
    else
        cases_fail(cases, "%s", err.detail);
    if (cases->failure[0] != 0) {
        const size_t used = strlen(cases->failure);
        snprintf(cases->failure + used, sizeof cases->failure - used,
                 "; rows %u heads %u/%u dim %u block %u window %u length_max %u type %d",
                 decode->row_count, decode->head_count, decode->kv.kv_head_count,
                 decode->kv.head_dim, decode->kv.block_tokens, decode->window, decode->length_max,
                 (int)type);
    }
    free(decode->scratch);
    free(decode->out);
    free(sinks);
    free(q);
    free(at.pool);
    free((void *)(uintptr_t)decode->blocks);
}

int main(int argc, char **argv)
{
    return cases_run(argc, argv, 100, run_case);
}
