/* Paged attention of decode rows: see cuda_kernels.h.
 *
 * Split pass, one thread block for each (row, up to HEADS query heads of one kv head, split):
 *   1. scores: eight lanes share a token and read its K in packs; a warp reads four tokens;
 *   2. one warp for each head: largest score, weights exp(score - largest), sum of weights;
 *   3. weighted values: a thread owns one pack of the head and adds up every so many tokens; the
 *      sums of the threads with the same pack are added at the end.
 * K and V are read once for all heads of the block. Combine pass: one thread block for each (row,
 * query head). */
#include "ops/cuda/device.cuh"

#define SPLIT_THREADS 128u
#define SPLIT_WARPS   (SPLIT_THREADS / WARP)
#define TOKEN_LANES   8u /* lanes that share a token's K */
#define WARP_TOKENS   (WARP / TOKEN_LANES)
#define SPLIT_BLOCKS  (MR_CUDA_SPLIT_TOKENS / 16u) /* most blocks of a split */
#define HEADS_MAX     8u
#define GRID_LIMIT    65535u /* of the second and third dimension of a grid */

/* ---- places ---- */

struct token_range {
    unsigned begin, end;  /* tokens of the split that the row attends to; none if end <= begin */
    unsigned split_begin; /* first token of the split, a multiple of MR_CUDA_SPLIT_TOKENS */
};

/* First token that the row attends to. */
__device__ inline unsigned oldest_token(const struct mr_cuda_decode &decode, unsigned length)
{
    return decode.window > 0 && length > decode.window ? length - decode.window : 0;
}

/* The index-th split of a row, counted from the split of the oldest token. */
__device__ inline struct token_range split_range(const struct mr_cuda_decode &decode,
                                                 unsigned length, unsigned index)
{
    const unsigned oldest = oldest_token(decode, length);
    struct token_range range;
    range.split_begin = (oldest / MR_CUDA_SPLIT_TOKENS + index) * MR_CUDA_SPLIT_TOKENS;
    range.begin = max(range.split_begin, oldest);
    range.end = min(range.split_begin + MR_CUDA_SPLIT_TOKENS, length);
    return range;
}

/* The scratch memory: for each (row, head, split) head_dim sums of weighted values; after all of
 * those, for each the largest score and the sum of weights. */
__device__ inline size_t part_index(const struct mr_cuda_decode &decode, unsigned row,
                                    unsigned head, unsigned split, unsigned splits)
{
    return (static_cast<size_t>(row) * decode.head_count + head) * splits + split;
}
__device__ inline float *part_stats(const struct mr_cuda_decode &decode, unsigned splits,
                                    size_t part)
{
    const size_t parts = static_cast<size_t>(decode.row_count) * decode.head_count * splits;
    return decode.scratch + parts * decode.kv.head_dim + part * 2;
}

/* ---- split pass ---- */

/* One number for each query head, read at once. */
template <unsigned HEADS> struct alignas(HEADS < 4 ? HEADS * 4 : 16) heads_pack {
    float head[HEADS];
};

/* Shared memory of the split pass. */
template <unsigned HEADS> struct split_memory {
    float q[HEADS * 256u];                                  /* [head][head_dim], scaled */
    struct heads_pack<HEADS> weights[MR_CUDA_SPLIT_TOKENS]; /* scores, then weights */
    float sums[SPLIT_THREADS * PACK];                       /* [thread][pack], one head at a time */
    float top[HEADS], sum[HEADS];
    int32_t blocks[SPLIT_BLOCKS];
};

/* What one thread block of the split pass works on. */
template <typename T> struct split_work {
    const T *keys, *values; /* of the kv head */
    struct token_range range;
    unsigned row, head, heads; /* first query head, number of query heads */
    unsigned block_shift;      /* log2 of block_tokens */
};

template <typename T>
__device__ inline int64_t token_offset(const struct mr_cuda_kv &kv, const int32_t *blocks,
                                       const struct split_work<T> &work, unsigned token)
{
    const int32_t block = blocks[(token - work.range.split_begin) >> work.block_shift];
    const unsigned inside = token & (kv.block_tokens - 1);
    return block * kv.block_stride + inside * kv.token_stride;
}

/* Loads the scaled queries and the block ids of the split. */
template <typename T, unsigned HEADS>
__device__ inline void load_split(const struct mr_cuda_decode &decode,
                                  const struct split_work<T> &work,
                                  struct split_memory<HEADS> *memory)
{
    const unsigned dim = decode.kv.head_dim;
    const T *q = static_cast<const T *>(decode.q) + work.row * decode.q_stride +
                 static_cast<size_t>(work.head) * dim;
    for (unsigned i = threadIdx.x; i < HEADS * dim; i += SPLIT_THREADS)
        memory->q[i] = i < work.heads * dim ? to_float(q[i]) * decode.scale : 0.0f;
    const unsigned first = work.range.begin >> work.block_shift;
    const unsigned last = (work.range.end - 1) >> work.block_shift;
    const unsigned split_first = work.range.split_begin >> work.block_shift;
    const int32_t *blocks = decode.blocks + work.row * decode.blocks_stride;
    if (first + threadIdx.x <= last)
        memory->blocks[first - split_first + threadIdx.x] = blocks[first + threadIdx.x];
    __syncthreads();
}

/* The scores of all tokens of the split, into memory->weights. */
template <typename T, unsigned HEADS>
__device__ inline void score_tokens(const struct mr_cuda_decode &decode,
                                    const struct split_work<T> &work,
                                    struct split_memory<HEADS> *memory)
{
    const unsigned dim = decode.kv.head_dim;
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const unsigned part = lane % TOKEN_LANES;
    for (unsigned base = work.range.begin + warp * WARP_TOKENS; base < work.range.end;
         base += SPLIT_WARPS * WARP_TOKENS) {
        const unsigned token = base + lane / TOKEN_LANES;
        const bool live = token < work.range.end;
        float scores[HEADS] = {};
        if (live) {
            const T *key = work.keys + token_offset(decode.kv, memory->blocks, work, token);
            for (unsigned i = part * PACK; i < dim; i += TOKEN_LANES * PACK) {
                float numbers[PACK], query[PACK];
                load_pack(key + i, numbers);
#pragma unroll
                for (unsigned head = 0; head < HEADS; head++) {
                    load_pack(memory->q + head * dim + i, query);
#pragma unroll
                    for (unsigned k = 0; k < PACK; k++)
                        scores[head] += numbers[k] * query[k];
                }
            }
        }
#pragma unroll
        for (unsigned head = 0; head < HEADS; head++) {
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
template <unsigned HEADS>
__device__ inline void weigh_tokens(unsigned tokens, struct split_memory<HEADS> *memory)
{
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned head = threadIdx.x / WARP; head < HEADS; head += SPLIT_WARPS) {
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
template <typename T, unsigned HEADS>
__device__ inline void add_values(const struct mr_cuda_decode &decode,
                                  const struct split_work<T> &work,
                                  const struct split_memory<HEADS> *memory, float sums[HEADS][PACK])
{
    const unsigned packs = decode.kv.head_dim / PACK, groups = SPLIT_THREADS / packs;
    const unsigned group = threadIdx.x / packs, at = threadIdx.x % packs * PACK;
    if (group >= groups) return;
#pragma unroll 4
    for (unsigned token = work.range.begin + group; token < work.range.end; token += groups) {
        float numbers[PACK];
        load_pack(work.values + token_offset(decode.kv, memory->blocks, work, token) + at, numbers);
        const struct heads_pack<HEADS> weights = memory->weights[token - work.range.begin];
#pragma unroll
        for (unsigned head = 0; head < HEADS; head++)
#pragma unroll
            for (unsigned k = 0; k < PACK; k++)
                sums[head][k] += weights.head[head] * numbers[k];
    }
}

/* Adds the threads' sums of each head and writes the split's result to the scratch memory. */
template <typename T, unsigned HEADS>
__device__ inline void
store_split(const struct mr_cuda_decode &decode, const struct split_work<T> &work,
            struct split_memory<HEADS> *memory, const float sums[HEADS][PACK])
{
    const unsigned dim = decode.kv.head_dim, groups = SPLIT_THREADS / (dim / PACK);
#pragma unroll
    for (unsigned head = 0; head < HEADS; head++) {
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

/* Grid: rows, kv heads times tiles of HEADS query heads, splits. */
template <typename T, unsigned HEADS>
__global__ __launch_bounds__(SPLIT_THREADS, 4) void decode_split(struct mr_cuda_decode decode)
{
    struct split_memory<HEADS> *memory =
        reinterpret_cast<struct split_memory<HEADS> *>(mr_cuda_shared);
    const unsigned group = decode.head_count / decode.kv.kv_head_count;
    const unsigned tiles = (group + HEADS - 1) / HEADS;
    const unsigned kv_head = blockIdx.y / tiles, first = blockIdx.y % tiles * HEADS;
    struct split_work<T> work;
    work.row = blockIdx.x;
    work.range = split_range(decode, static_cast<unsigned>(decode.lengths[work.row]), blockIdx.z);
    if (work.range.end <= work.range.begin) return;
    work.keys = static_cast<const T *>(decode.kv.keys) + kv_head * decode.kv.head_stride;
    work.values = static_cast<const T *>(decode.kv.values) + kv_head * decode.kv.head_stride;
    work.head = kv_head * group + first;
    work.heads = min(HEADS, group - first);
    work.block_shift = static_cast<unsigned>(__ffs(static_cast<int>(decode.kv.block_tokens))) - 1;
    float sums[HEADS][PACK] = {};
    load_split(decode, work, memory);
    score_tokens(decode, work, memory);
    weigh_tokens<HEADS>(work.range.end - work.range.begin, memory);
    add_values(decode, work, memory, sums);
    store_split(decode, work, memory, sums);
}

/* ---- combine pass ---- */

/* Grid: rows, query heads. A thread computes every blockDim-th number of the head. */
template <typename T>
__global__ __launch_bounds__(256) void decode_combine(struct mr_cuda_decode decode, unsigned splits)
{
    const unsigned row = blockIdx.x, head = blockIdx.y, dim = decode.kv.head_dim;
    const unsigned length = static_cast<unsigned>(decode.lengths[row]);
    const size_t part = part_index(decode, row, head, 0, splits);
    const float *stats = part_stats(decode, splits, part);
    T *out =
        static_cast<T *>(decode.out) + (static_cast<size_t>(row) * decode.head_count + head) * dim;
    unsigned used = 0;
    float top = decode.sinks ? decode.sinks[head] : -INFINITY;
    if (length > 0)
        used = (length - 1) / MR_CUDA_SPLIT_TOKENS -
               oldest_token(decode, length) / MR_CUDA_SPLIT_TOKENS + 1;
    for (unsigned split = 0; split < used; split++)
        top = fmaxf(top, stats[split * 2]);
    float sum = decode.sinks ? expf(decode.sinks[head] - top) : 0.0f;
    for (unsigned split = 0; split < used; split++)
        sum += stats[split * 2 + 1] * expf(stats[split * 2] - top);
    for (unsigned i = threadIdx.x; i < dim; i += blockDim.x) {
        float total = 0.0f;
        for (unsigned split = 0; split < used; split++)
            total += decode.scratch[(part + split) * dim + i] * expf(stats[split * 2] - top);
        out[i] = from_float<T>(used > 0 ? total / sum : 0.0f);
    }
}

/* ---- host ---- */

/* Most splits of a row: a window that starts inside a split touches one more. */
static unsigned split_count(const struct mr_cuda_decode *decode)
{
    const unsigned all = ceil_div(decode->length_max, MR_CUDA_SPLIT_TOKENS);
    const unsigned window = ceil_div(decode->window, MR_CUDA_SPLIT_TOKENS) + 1;
    return decode->window > 0 && window < all ? window : all;
}

size_t mr_cuda_decode_scratch_bytes(const struct mr_cuda_decode *decode)
{
    return static_cast<size_t>(decode->row_count) * decode->head_count * split_count(decode) *
           (decode->kv.head_dim + 2) * sizeof(float);
}

static enum mr_status check_decode(const struct mr_cuda_decode *decode, struct mr_error *err)
{
    const struct mr_cuda_kv *kv = &decode->kv;
    if (check_kv(kv, err) != MR_OK) return MR_UNSUPPORTED;
    if (kv->kv_head_count == 0 || decode->head_count % kv->kv_head_count != 0 ||
        decode->head_count == 0 || decode->head_count > GRID_LIMIT)
        return mr_fail(err, MR_UNSUPPORTED, "head_count %u is not a multiple of kv_head_count %u",
                       decode->head_count, kv->kv_head_count);
    if (decode->q_stride % PACK || !is_aligned(decode->q) || !is_aligned(decode->out))
        return mr_fail(err, MR_UNSUPPORTED, "q, out or q_stride is not aligned");
    if (split_count(decode) > GRID_LIMIT)
        return mr_fail(err, MR_UNSUPPORTED, "length_max %u has more than %u splits",
                       decode->length_max, GRID_LIMIT);
    return MR_OK;
}

template <typename T, unsigned HEADS>
static enum mr_status run_decode(const struct mr_cuda_decode *decode, void *stream,
                                 struct mr_error *err)
{
    const unsigned group = decode->head_count / decode->kv.kv_head_count;
    const unsigned splits = split_count(decode), tiles = ceil_div(group, HEADS);
    const dim3 split_grid(decode->row_count, decode->kv.kv_head_count * tiles, splits);
    if (splits > 0) {
        const enum mr_status status = launch(
            "decode_split",
            launch_shape(split_grid, SPLIT_THREADS, sizeof(struct split_memory<HEADS>), stream),
            decode_split<T, HEADS>, err, *decode);
        if (status != MR_OK) return status;
    }
    const dim3 grid(decode->row_count, decode->head_count);
    const unsigned threads = ceil_div(decode->kv.head_dim, WARP) * WARP;
    return launch("decode_combine", launch_shape(grid, threads, 0, stream), decode_combine<T>, err,
                  *decode, splits);
}

enum mr_status mr_cuda_decode_attention(const struct mr_cuda_decode *decode, void *stream,
                                        struct mr_error *err)
{
    if (decode->row_count == 0) return MR_OK;
    if (check_decode(decode, err) != MR_OK) return MR_UNSUPPORTED;
    const unsigned group = decode->head_count / decode->kv.kv_head_count;
    return with_type(decode->kv.type, [&](auto number) {
        using T = decltype(number);
        if (group == 1) return run_decode<T, 1>(decode, stream, err);
        if (group == 2) return run_decode<T, 2>(decode, stream, err);
        if (group <= 4) return run_decode<T, 4>(decode, stream, err);
        return run_decode<T, HEADS_MAX>(decode, stream, err);
    });
}
