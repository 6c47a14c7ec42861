/* decode_split - the split pass of decode attention in floats, and the parts that it shares with
 * the one in 16 bits (decode_tiles.cuh): the tokens of a split, and the place of its result. */
#ifndef MR_OPS_CUDA_DECODE_SPLIT_CUH
#define MR_OPS_CUDA_DECODE_SPLIT_CUH

#include "ops/cuda/device.cuh"

#define HEADS_MAX    8u   /* query heads of a kv head that one thread block handles */
#define SPLIT_TOKENS 512u /* most tokens of a split */

/* ---- the work of a thread block ---- */

struct token_range {
    unsigned begin, end;  /* tokens of the split that the row attends to; none if end <= begin */
    unsigned split_begin; /* first token of the split, a multiple of split_tokens */
};

/* First token that the row attends to. */
__device__ inline unsigned oldest_token(const struct mr_cuda_decode &decode, unsigned length)
{
    return decode.window > 0 && length > decode.window ? length - decode.window : 0;
}

/* The index-th split of a row, counted from the split of the oldest token. */
__device__ inline struct token_range split_range(const struct mr_cuda_decode &decode,
                                                 unsigned length, unsigned split_tokens,
                                                 unsigned index)
{
    const unsigned oldest = oldest_token(decode, length);
    struct token_range range;
    range.split_begin = (oldest / split_tokens + index) * split_tokens;
    range.begin = max(range.split_begin, oldest);
    range.end = min(range.split_begin + split_tokens, length);
    return range;
}

template <typename T> struct split_work {
    const T *keys, *values; /* of the kv head */
    const T *q;             /* of the first query head; the others follow */
    const int32_t *blocks;  /* of the row */
    struct token_range range;
    unsigned row, head, heads; /* first query head, number of query heads */
    unsigned block_shift;      /* log2 of block_tokens */
};

/* The work of this thread block. Grid: rows, kv heads times tiles of HEADS_MAX query heads, splits.
 */
template <typename T>
__device__ inline struct split_work<T> work_here(const struct mr_cuda_decode &decode,
                                                 unsigned split_tokens) {
    const unsigned group = decode.head_count / decode.kv.kv_head_count;
    const unsigned tiles = (group + HEADS_MAX - 1) / HEADS_MAX;
    const unsigned kv_head = blockIdx.y / tiles, first = blockIdx.y % tiles * HEADS_MAX;
    struct split_work<T> work;
    work.row = blockIdx.x;
    work.range = split_range(decode, static_cast<unsigned>(decode.lengths[work.row]), split_tokens,
                             blockIdx.z);
    work.keys = static_cast<const T *>(decode.kv.keys) + kv_head * decode.kv.head_stride;
    work.values = static_cast<const T *>(decode.kv.values) + kv_head * decode.kv.head_stride;
    work.blocks = decode.blocks + work.row * decode.blocks_stride;
    work.head = kv_head * group + first;
    work.heads = min(HEADS_MAX, group - first);
    work.block_shift = static_cast<unsigned>(__ffs(static_cast<int>(decode.kv.block_tokens))) - 1;
    work.q = static_cast<const T *>(decode.q) + work.row * decode.q_stride +
             static_cast<size_t>(work.head) * decode.kv.head_dim;
    return work;
}

/* ---- results ---- */

/* The scratch memory: head_dim sums of weighted values for each (row, head, split); after all of
 * these, the largest score and the sum of weights for each (row, head, split). */
__device__ inline size_t
part_index(const struct mr_cuda_decode &decode, unsigned row, unsigned head, unsigned split,
           unsigned splits)
{
    return (static_cast<size_t>(row) * decode.head_count + head) * splits + split;
}
__device__ inline float *part_stats(const struct mr_cuda_decode &decode, unsigned splits,
                                    size_t part)
{
    const size_t parts = static_cast<size_t>(decode.row_count) * decode.head_count * splits;
    return decode.scratch + parts * decode.kv.head_dim + part * 2;
}

/* ---- split pass in floats ----
 *   1. scores: eight lanes share a token and read its K in packs; a warp reads four tokens;
 *   2. one warp for each head: largest score, weights exp(score - largest), sum of weights;
 *   3. weighted values: a thread owns one pack of the head and adds up some of the tokens; the sums
 *   of the threads with the same pack are added at the end.
 * K and V are read once for all heads of the block. */
#define SPLIT_THREADS 128u
#define SPLIT_WARPS   (SPLIT_THREADS / WARP)
#define TOKEN_LANES   8u /* lanes that share a token's K */
#define WARP_TOKENS   (WARP / TOKEN_LANES)
#define SPLIT_BLOCKS  (SPLIT_TOKENS / 16u) /* most blocks of a split */

/* One number for each query head. */
struct alignas(16) heads_pack {
    float head[HEADS_MAX];
};

/* Shared memory. */
struct split_memory {
    float q[HEADS_MAX * 256u];               /* [head][head_dim], scaled */
    struct heads_pack weights[SPLIT_TOKENS]; /* scores, then weights */
    float sums[SPLIT_THREADS * PACK];        /* [thread][pack], one head at a time */
    float top[HEADS_MAX], sum[HEADS_MAX];
    int32_t blocks[SPLIT_BLOCKS];
};

__device__ inline int64_t token_offset(const struct mr_cuda_kv &kv, const int32_t *blocks,
                                       const struct split_work<float> &work, unsigned token)
{
    const int32_t block = blocks[(token - work.range.split_begin) >> work.block_shift];
    const unsigned inside = token & (kv.block_tokens - 1);
    return block * kv.block_stride + inside * kv.token_stride;
}

/* Loads the scaled queries and the block ids of the split. */
__device__ inline void load_split(const struct mr_cuda_decode &decode,
                                  const struct split_work<float> &work, struct split_memory *memory)
{
    const unsigned dim = decode.kv.head_dim;
    for (unsigned i = threadIdx.x; i < HEADS_MAX * dim; i += SPLIT_THREADS)
        memory->q[i] = i < work.heads * dim ? work.q[i] * decode.scale : 0.0f;
    const unsigned first = work.range.begin >> work.block_shift;
    const unsigned last = (work.range.end - 1) >> work.block_shift;
    const unsigned split_first = work.range.split_begin >> work.block_shift;
    if (first + threadIdx.x <= last)
        memory->blocks[first - split_first + threadIdx.x] = work.blocks[first + threadIdx.x];
    __syncthreads();
}

/* The scores of all tokens of the split, into memory->weights. */
__device__ inline void score_tokens(const struct mr_cuda_decode &decode,
                                    const struct split_work<float> &work,
                                    struct split_memory *memory)
{
    const unsigned dim = decode.kv.head_dim;
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned part = lane % TOKEN_LANES;
    for (unsigned base = work.range.begin + warp * WARP_TOKENS; base < work.range.end;
         base += SPLIT_WARPS * WARP_TOKENS) {
        const unsigned token = base + lane / TOKEN_LANES;
        const bool live = token < work.range.end;
        float scores[HEADS_MAX] = {};
        if (live) {
            const float *key = work.keys + token_offset(decode.kv, memory->blocks, work, token);
            for (unsigned i = part * PACK; i < dim; i += TOKEN_LANES * PACK) {
                float numbers[PACK], query[PACK];
                load_pack(key + i, numbers);
#pragma unroll
                for (unsigned head = 0; head < HEADS_MAX; head++) {
                    load_pack(memory->q + head * dim + i, query);
#pragma unroll
                    for (unsigned k = 0; k < PACK; k++)
                        scores[head] += numbers[k] * query[k];
                }
            }
        }
#pragma unroll
        for (unsigned head = 0; head < HEADS_MAX; head++) {
            float score = scores[head];
            for (int lanes = TOKEN_LANES / 2; lanes > 0; lanes /= 2)
                score += __shfl_xor_sync(ALL_LANES, score, lanes);
            if (decode.softcap > 0.0f) score = decode.softcap * tanhf(score / decode.softcap);
            if (live && part == 0) memory->weights[token - work.range.begin].head[head] = score;
        }
    }
    __syncthreads();
}

/* Turns the scores into weights relative to the largest score of each head. */
__device__ inline void weigh_tokens(unsigned tokens, struct split_memory *memory)
{
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned head = threadIdx.x / WARP; head < HEADS_MAX; head += SPLIT_WARPS) {
        float top = -INFINITY, sum = 0.0f;
        for (unsigned token = lane; token < tokens; token += WARP)
            top = fmaxf(top, memory->weights[token].head[head]);
        top = warp_max(top);
        for (unsigned token = lane; token < tokens; token += WARP) {
            const float weight = expf(memory->weights[token].head[head] - top);
            memory->weights[token].head[head] = weight;
            sum += weight;
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            memory->top[head] = top;
            memory->sum[head] = sum;
        }
    }
    __syncthreads();
}

/* Adds up the weighted values of the thread's pack over its tokens. */
__device__ inline void add_values(const struct mr_cuda_decode &decode,
                                  const struct split_work<float> &work,
                                  const struct split_memory *memory, float sums[HEADS_MAX][PACK])
{
    const unsigned packs = decode.kv.head_dim / PACK, groups = SPLIT_THREADS / packs;
    const unsigned group = threadIdx.x / packs, at = threadIdx.x % packs * PACK;
    if (group >= groups) return;
    for (unsigned token = work.range.begin + group; token < work.range.end; token += groups) {
        float numbers[PACK];
        load_pack(work.values + token_offset(decode.kv, memory->blocks, work, token) + at, numbers);
        const struct heads_pack weights = memory->weights[token - work.range.begin];
#pragma unroll
        for (unsigned head = 0; head < HEADS_MAX; head++)
#pragma unroll
            for (unsigned k = 0; k < PACK; k++)
                sums[head][k] += weights.head[head] * numbers[k];
    }
}

/* Adds the threads' sums of each head and writes the split's result to the scratch memory. */
__device__ inline void store_split(const struct mr_cuda_decode &decode,
                                   const struct split_work<float> &work,
                                   struct split_memory *memory, const float sums[HEADS_MAX][PACK])
{
    const unsigned dim = decode.kv.head_dim, groups = SPLIT_THREADS / (dim / PACK);
#pragma unroll
    for (unsigned head = 0; head < HEADS_MAX; head++) {
#pragma unroll
        for (unsigned k = 0; k < PACK; k++)
            memory->sums[threadIdx.x * PACK + k] = sums[head][k];
        __syncthreads();
        const size_t part = part_index(decode, work.row, work.head + head, blockIdx.z, gridDim.z);
        for (unsigned i = threadIdx.x; i < dim && head < work.heads; i += SPLIT_THREADS) {
            float sum = 0.0f;
            for (unsigned group = 0; group < groups; group++)
                sum += memory->sums[group * dim + i];
            decode.scratch[part * dim + i] = sum;
        }
        if (threadIdx.x == 0 && head < work.heads) {
            part_stats(decode, gridDim.z, part)[0] = memory->top[head];
            part_stats(decode, gridDim.z, part)[1] = memory->sum[head];
        }
        __syncthreads();
    }
}

__global__ __launch_bounds__(SPLIT_THREADS, 4) void decode_split(struct mr_cuda_decode decode,
                                                                 unsigned split_tokens)
{
    struct split_memory *memory = reinterpret_cast<struct split_memory *>(mr_cuda_shared);
    const struct split_work<float> work = work_here<float>(decode, split_tokens);
    if (work.range.end <= work.range.begin) return;
    float sums[HEADS_MAX][PACK] = {};
    load_split(decode, work, memory);
    score_tokens(decode, work, memory);
    weigh_tokens(work.range.end - work.range.begin, memory);
    add_values(decode, work, memory, sums);
    store_split(decode, work, memory, sums);
}

#endif
