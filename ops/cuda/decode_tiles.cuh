/* decode_tiles - the split pass of decode attention in 16 bits, on tensor cores. The warps of a
 * thread block take tiles of 16 tokens in turn and do not wait for each other. While a warp
 * computes a tile, its next one is copied to shared memory. With heads as rows, the scores of a
 * tile are queries * keys^T; they leave the product as the fragments that values^T * weights^T
 * needs (Dao, "FlashAttention-2", 2023), whose sums are kept relative to the largest score so far.
 * A weight enters this product as the sum of two 16-bit numbers, so that no result is rounded to
 * less than a float. Heads of other sizes than 64, 128 or 256 numbers are padded with zeros in
 * shared memory. */
#ifndef MR_OPS_CUDA_DECODE_TILES_CUH
#define MR_OPS_CUDA_DECODE_TILES_CUH

#include "ops/cuda/decode_split.cuh"
#include "ops/cuda/tensor_core.cuh"

#define TILE_TOKENS 16u
#define TILE_STAGES 2u /* one is computed, one is copied */
#define LOG2_E      1.4426950408889634f
#define LN_2        0.6931471805599453f

/* Warps of a thread block: with heads of DIM numbers the block takes about 36 KiB of shared
 * memory. */
template <unsigned DIM> constexpr unsigned tile_warps = 256 / DIM;
/* Bytes of a row of a tile in shared memory: 16 more than the numbers take, so that eight rows lie
 * in different banks. */
template <unsigned DIM> constexpr unsigned tile_row_bytes = DIM * 2 + 16;
/* Of one warp: K and V of each stage. */
template <unsigned DIM>
constexpr unsigned tile_warp_bytes = TILE_STAGES * 2 * TILE_TOKENS *tile_row_bytes<DIM>;

/* The memory and block ids of a warp. */
struct tile_warp {
    unsigned char *stages; /* [stage][K, V][token] rows in shared memory */
    unsigned lane;
    int32_t block; /* lane i: the id of the i-th block of the split, if it has one */
};

/* Sums over the tokens so far of each lane's fragments. */
template <unsigned DIM> struct tile_sums {
    float values[DIM / 16][4]; /* c fragments: [head_dim][head] */
    float top, sum;            /* of head lane / 4; the sum is that of the lane's tokens */
};

template <unsigned DIM>
__device__ inline unsigned char *tile_rows(const struct tile_warp &warp, unsigned stage,
                                           unsigned half)
{
    return warp.stages + (stage * 2 + half) * TILE_TOKENS * tile_row_bytes<DIM>;
}

/* Starts to copy K or V of the tile that begins with `token`, as one batch. Tokens outside the
 * range, and numbers beyond the head, become zeros. Eight lanes copy a row. */
template <typename T, unsigned DIM>
__device__ inline void copy_half(const struct mr_cuda_kv &kv, const struct split_work<T> &work,
                                 unsigned lane, unsigned token, const T *from, unsigned char *to)
{
    const unsigned row = lane / 8, column = lane % 8 * PACK;
    from += row * kv.token_stride + column;
    to += row * tile_row_bytes<DIM> + column * 2;
#pragma unroll
    for (unsigned i = 0; i < TILE_TOKENS; i += WARP / 8) {
        const unsigned at_token = token + row + i;
        const bool live = at_token >= work.range.begin && at_token < work.range.end;
#pragma unroll
        for (unsigned at = 0; at < DIM; at += 8 * PACK)
            copy_later(to + at * 2, from + at, live && column + at < kv.head_dim ? 16 : 0);
        from += WARP / 8 * kv.token_stride;
        to += WARP / 8 * tile_row_bytes<DIM>;
    }
    end_batch();
}

/* Starts two batches: K, then V. Both are empty when the tile does not exist. */
template <typename T, unsigned DIM>
__device__ inline void copy_tile(const struct mr_cuda_decode &decode,
                                 const struct split_work<T> &work, const struct tile_warp &warp,
                                 unsigned token, unsigned stage)
{
    const struct mr_cuda_kv &kv = decode.kv;
    if (token >= work.range.end) {
        end_batch();
        end_batch();
        return;
    }
    const unsigned index =
        (token >> work.block_shift) - (work.range.split_begin >> work.block_shift);
    const int64_t block = __shfl_sync(ALL_LANES, warp.block, static_cast<int>(index));
    const int64_t from =
        block * kv.block_stride + (token & (kv.block_tokens - 1)) * kv.token_stride;
    copy_half<T, DIM>(kv, work, warp.lane, token, work.keys + from, tile_rows<DIM>(warp, stage, 0));
    copy_half<T, DIM>(kv, work, warp.lane, token, work.values + from,
                      tile_rows<DIM>(warp, stage, 1));
}

/* ---- one tile ---- */

/* Returns the address that a lane passes to load four matrices: tokens 0 to 7 at numbers 0 and 8,
 * then tokens 8 to 15. */
template <unsigned DIM>
__device__ inline const unsigned char *matrix_row(const struct tile_warp &warp,
                                                  const unsigned char *rows)
{
    const unsigned matrix = warp.lane / 8, token = matrix / 2 * 8 + warp.lane % 8;
    return rows + token * tile_row_bytes<DIM> + matrix % 2 * 16;
}

/* scores[i][0] and [1]: of head lane / 4 and the pair of tokens i * 8 + lane % 4 * 2. */
template <typename T, unsigned DIM>
__device__ inline void score_tile(const struct tile_warp &warp, const unsigned char *rows,
                                  const unsigned q[DIM / 16][2], float scores[2][4])
{
    const unsigned char *row = matrix_row<DIM>(warp, rows);
    float sums[2][2][4] = {}; /* of even and odd i, so that consecutive products do not depend on
                               * each other */
#pragma unroll
    for (unsigned i = 0; i < DIM / 16; i++) {
        const unsigned heads[4] = {q[i][0], 0, q[i][1], 0}; /* heads 8 to 15 do not exist */
        unsigned keys[4];
        load_matrices(row + i * 32, keys);
        multiply_add<T>(sums[i % 2][0], heads, keys);
        multiply_add<T>(sums[i % 2][1], heads, keys + 2);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        scores[i / 2][i % 2] = sums[0][i / 2][i % 2] + sums[1][i / 2][i % 2];
}

/* Turns the scores into weights and makes the sums relative to the new largest score. Returns the
 * factor by which the sums were scaled. */
template <typename T, unsigned DIM>
__device__ inline float weigh_tile(const struct mr_cuda_decode &decode,
                                   const struct split_work<T> &work, unsigned first_token,
                                   float scores[2][4], struct tile_sums<DIM> *sums)
{
    float top = sums->top, sum = 0.0f;
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        scores[i / 2][i % 2] *= decode.scale;
    if (decode.softcap > 0.0f)
        for (unsigned i = 0; i < 4; i++)
            scores[i / 2][i % 2] = decode.softcap * tanhf(scores[i / 2][i % 2] / decode.softcap);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const unsigned token = first_token + i / 2 * 8 + i % 2;
        const bool live = token >= work.range.begin && token < work.range.end;
        scores[i / 2][i % 2] = live ? scores[i / 2][i % 2] * LOG2_E : -INFINITY;
        top = fmaxf(top, scores[i / 2][i % 2]);
    }
    top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 1));
    top = fmaxf(top, __shfl_xor_sync(ALL_LANES, top, 2));
    const float factor = exp2f(sums->top - top);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        scores[i / 2][i % 2] = exp2f(scores[i / 2][i % 2] - top);
        sum += scores[i / 2][i % 2];
    }
    sums->top = top;
    sums->sum = sums->sum * factor + sum;
    return factor;
}

/* Adds the weighted values of a tile. factor: of head lane / 4. */
template <typename T, unsigned DIM>
__device__ inline void add_tile(const struct tile_warp &warp, const unsigned char *rows,
                                const float weights[2][4], float factor,
                                struct tile_sums<DIM> *sums)
{
    const unsigned char *row = matrix_row<DIM>(warp, rows);
    unsigned high[2], low[2]; /* fragments of weights^T */
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        const T first = from_float<T>(weights[i][0]), second = from_float<T>(weights[i][1]);
        high[i] = pair_bits(first, second);
        low[i] = pair_bits(from_float<T>(weights[i][0] - to_float(first)),
                           from_float<T>(weights[i][1] - to_float(second)));
    }
    const int head = static_cast<int>(warp.lane % 4 * 2); /* the sums are of this head and the next
                                                           * one */
    const float factors[2] = {__shfl_sync(ALL_LANES, factor, head * 4),
                              __shfl_sync(ALL_LANES, factor, head * 4 + 4)};
#pragma unroll
    for (unsigned i = 0; i < DIM / 16; i++) {
        unsigned values[4];
        load_transposed(row + i * 32, values);
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
            sums->values[i][k] *= factors[k % 2];
        multiply_add<T>(sums->values[i], values, high);
        multiply_add<T>(sums->values[i], values, low);
    }
}

/* ---- the split ---- */

/* Computes every tile_warps-th tile of the split. */
template <typename T, unsigned DIM>
__device__ inline void sum_tiles(const struct mr_cuda_decode &decode,
                                 const struct split_work<T> &work, const struct tile_warp &warp,
                                 const unsigned q[DIM / 16][2], struct tile_sums<DIM> *sums)
{
    const unsigned step = tile_warps<DIM> * TILE_TOKENS, ahead = TILE_STAGES - 1;
    const unsigned begin =
        work.range.begin / TILE_TOKENS * TILE_TOKENS + threadIdx.x / WARP * TILE_TOKENS;
    for (unsigned i = 0; i < ahead; i++)
        copy_tile<T, DIM>(decode, work, warp, begin + i * step, i);
    for (unsigned i = 0, token = begin; token < work.range.end; i++, token += step) {
        const unsigned stage = i % TILE_STAGES;
        float scores[2][4];
        copy_tile<T, DIM>(decode, work, warp, token + ahead * step, (i + ahead) % TILE_STAGES);
        wait_batches<2 * ahead + 1>(); /* for K */
        __syncwarp();
        score_tile<T, DIM>(warp, tile_rows<DIM>(warp, stage, 0), q, scores);
        const float factor =
            weigh_tile<T, DIM>(decode, work, token + warp.lane % 4 * 2, scores, sums);
        wait_batches<2 * ahead>(); /* for V */
        __syncwarp();
        add_tile<T, DIM>(warp, tile_rows<DIM>(warp, stage, 1), scores, factor, sums);
        __syncwarp();
    }
}

/* The result of a warp in shared memory, which replaces its tiles; the block adds the results
 * up. */
template <unsigned DIM> struct warp_result {
    float values[HEADS_MAX][DIM];
    float top[HEADS_MAX], sum[HEADS_MAX];
};

template <unsigned DIM>
__device__ inline void store_warp(unsigned lane, struct tile_sums<DIM> sums,
                                  struct warp_result<DIM> *result)
{
    sums.sum += __shfl_xor_sync(ALL_LANES, sums.sum, 1);
    sums.sum += __shfl_xor_sync(ALL_LANES, sums.sum, 2);
    result->top[lane / 4] = sums.top;
    result->sum[lane / 4] = sums.sum;
#pragma unroll
    for (unsigned i = 0; i < DIM / 4; i++)
        result->values[lane % 4 * 2 + i % 2][i / 4 * 16 + lane / 4 + i % 4 / 2 * 8] =
            sums.values[i / 4][i % 4];
}

/* Adds up the warps and writes the split's result to the scratch memory. */
template <typename T, unsigned DIM>
__device__ inline void store_tiles(const struct mr_cuda_decode &decode,
                                   const struct split_work<T> &work,
                                   const struct warp_result<DIM> *results)
{
    const unsigned dim = decode.kv.head_dim;
    for (unsigned i = threadIdx.x; i < work.heads * DIM; i += tile_warps<DIM> * WARP) {
        const unsigned head = i / DIM, at = i % DIM;
        const size_t part = part_index(decode, work.row, work.head + head, blockIdx.z, gridDim.z);
        float top = -INFINITY, sum = 0.0f, total = 0.0f;
#pragma unroll
        for (unsigned warp = 0; warp < tile_warps<DIM>; warp++)
            top = fmaxf(top, results[warp].top[head]);
#pragma unroll
        for (unsigned warp = 0; warp < tile_warps<DIM>; warp++) {
            const float factor = exp2f(results[warp].top[head] - top);
            sum += results[warp].sum[head] * factor;
            total += results[warp].values[head][at] * factor;
        }
        if (at < dim) decode.scratch[part * dim + at] = total;
        if (at == 0) {
            part_stats(decode, gridDim.z, part)[0] = top * LN_2;
            part_stats(decode, gridDim.z, part)[1] = sum;
        }
    }
}

/* DIM: 64, 128 or 256, no less than head_dim. The shared memory of a multiprocessor has room for
 * six thread blocks. A launch bound of five lets the compiler use the registers that it needs
 * without spilling. */
template <typename T, unsigned DIM>
__global__ __launch_bounds__(tile_warps<DIM> *WARP,
                             5) void decode_tiles(struct mr_cuda_decode decode,
                                                  unsigned split_tokens)
{
    const struct split_work<T> work = work_here<T>(decode, split_tokens);
    if (work.range.end <= work.range.begin) return;
    const unsigned dim = decode.kv.head_dim, lane = threadIdx.x % WARP;
    const unsigned first = work.range.begin >> work.block_shift;
    const unsigned last = (work.range.end - 1) >> work.block_shift;
    const unsigned block = (work.range.split_begin >> work.block_shift) + lane;
    const struct tile_warp warp = {mr_cuda_shared + threadIdx.x / WARP * tile_warp_bytes<DIM>, lane,
                                   block >= first && block <= last ? work.blocks[block] : 0};
    unsigned q[DIM / 16][2];
    const T *head = work.q + lane / 4 * dim + lane % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < DIM / 8; i++)
        q[i / 2][i % 2] = lane / 4 < work.heads && i * 8 < dim
                              ? *reinterpret_cast<const unsigned *>(head + i * 8)
                              : 0;
    struct tile_sums<DIM> sums = {
    };
    sums.top = -INFINITY;
    sum_tiles<T, DIM>(decode, work, warp, q, &sums);
    __syncthreads();
    struct warp_result<DIM> *results = reinterpret_cast<struct warp_result<DIM> *>(mr_cuda_shared);
    store_warp<DIM>(lane, sums, &results[threadIdx.x / WARP]);
    __syncthreads();
    store_tiles<T, DIM>(decode, work, results);
}

#endif
