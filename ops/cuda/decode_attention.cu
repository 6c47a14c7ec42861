/* Paged attention of decode rows: see cuda_kernels.h. Split pass, one thread block for each (row,
 * up to HEADS_MAX query heads of one kv head, split): decode_tiles.cuh in 16 bits, decode_split.cuh
 * in floats. Combine pass: one warp for each (row, query head). */
#include "ops/cuda/decode_split.cuh"
#include "ops/cuda/decode_tiles.cuh"

#define GRID_LIMIT 65535u /* of the second and third dimension of a grid */

/* ---- combine pass ---- */

#define COMBINE_HEADS 4u /* a warp each */
#define QUAD          4u /* numbers that a lane computes at once */
#define QUADS_MAX     (256u / (QUAD * WARP))

struct alignas(16) quad {
    float numbers[QUAD];
};

/* Grid: rows, query heads by COMBINE_HEADS. */
template <typename T>
__global__ __launch_bounds__(COMBINE_HEADS *WARP) void decode_combine(struct mr_cuda_decode decode,
                                                                      unsigned split_tokens,
                                                                      unsigned splits)
{
    const unsigned row = blockIdx.x, head = blockIdx.y * COMBINE_HEADS + threadIdx.x / WARP;
    const unsigned lane = threadIdx.x % WARP, dim = decode.kv.head_dim;
    if (head >= decode.head_count) return;
    const unsigned length = static_cast<unsigned>(decode.lengths[row]);
    const size_t part = part_index(decode, row, head, 0, splits);
    const float *stats = part_stats(decode, splits, part);
    const unsigned used =
        length > 0 ? (length - 1) / split_tokens - oldest_token(decode, length) / split_tokens + 1
                   : 0;
    const float sink = decode.sinks ? decode.sinks[head] : -INFINITY;
    float top = sink, sum = 0.0f;
    struct quad totals[QUADS_MAX] = {};
    for (unsigned split = lane; split < used; split += WARP)
        top = fmaxf(top, stats[split * 2]);
    top = warp_max(top);
    for (unsigned first = 0; first < used; first += WARP) {
        const unsigned mine = first + lane;
        const float weight = mine < used ? expf(stats[mine * 2] - top) : 0.0f;
        sum += mine < used ? stats[mine * 2 + 1] * weight : 0.0f;
#pragma unroll 4
        for (unsigned i = 0; i < min(WARP, used - first); i++) {
            const float factor = __shfl_sync(ALL_LANES, weight, static_cast<int>(i));
            const float *values = decode.scratch + (part + first + i) * dim;
#pragma unroll
            for (unsigned k = 0; k < QUADS_MAX; k++) {
                const unsigned at = (k * WARP + lane) * QUAD;
                if (at >= dim) break;
                const struct quad added = *reinterpret_cast<const struct quad *>(values + at);
#pragma unroll
                for (unsigned n = 0; n < QUAD; n++)
                    totals[k].numbers[n] += added.numbers[n] * factor;
            }
        }
    }
    sum = warp_sum(sum) + (decode.sinks ? expf(sink - top) : 0.0f);
    T *out =
        static_cast<T *>(decode.out) + (static_cast<size_t>(row) * decode.head_count + head) * dim;
#pragma unroll
    for (unsigned k = 0; k < QUADS_MAX; k++)
        for (unsigned n = 0, at = (k * WARP + lane) * QUAD; n < QUAD && at < dim; n++)
            out[at + n] = from_float<T>(used > 0 ? totals[k].numbers[n] / sum : 0.0f);
}

/* ---- host ---- */

/* Returns the tokens of a split. Few rows get short splits, so that the thread blocks fill a card,
 * unless the rows are so long that combining the splits would take longer. */
static unsigned choose_split(const struct mr_cuda_decode *decode)
{
    const unsigned group = decode->head_count / decode->kv.kv_head_count;
    const unsigned blocks = /* of one split */
        decode->row_count * decode->kv.kv_head_count * ceil_div(group, HEADS_MAX);
    unsigned tokens = blocks <= 16 ? 64 : blocks <= 64 ? 128 : blocks <= 256 ? 256 : SPLIT_TOKENS;
    while (tokens < SPLIT_TOKENS && decode->length_max > tokens * 64)
        tokens *= 2;
    return tokens;
}

/* Returns the most splits of a row. A window that starts inside a split touches one more. */
static unsigned split_count(const struct mr_cuda_decode *decode, unsigned tokens)
{
    const unsigned all = ceil_div(decode->length_max, tokens);
    const unsigned window = ceil_div(decode->window, tokens) + 1;
    return decode->window > 0 && window < all ? window : all;
}

size_t mr_cuda_decode_scratch_bytes(const struct mr_cuda_decode *decode)
{
    return static_cast<size_t>(decode->row_count) * decode->head_count *
           split_count(decode, choose_split(decode)) * (decode->kv.head_dim + 2) * sizeof(float);
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
    if (split_count(decode, choose_split(decode)) > GRID_LIMIT)
        return mr_fail(err, MR_UNSUPPORTED, "length_max %u has more than %u splits",
                       decode->length_max, GRID_LIMIT);
    return MR_OK;
}

/* Enqueues the split pass. */
static enum mr_status run_splits(const struct mr_cuda_decode *decode, float, dim3 grid,
                                 void *stream, struct mr_error *err)
{
    return launch("decode_split",
                  launch_shape(grid, SPLIT_THREADS, sizeof(struct split_memory), stream),
                  decode_split, err, *decode, choose_split(decode));
}

template <typename T, unsigned DIM>
static enum mr_status run_tiles(const struct mr_cuda_decode *decode, dim3 grid, void *stream,
                                struct mr_error *err)
{
    return launch(
        "decode_tiles",
        launch_shape(grid, tile_warps<DIM> * WARP, tile_warps<DIM> * tile_warp_bytes<DIM>, stream),
        decode_tiles<T, DIM>, err, *decode, choose_split(decode));
}

template <typename T>
static enum mr_status run_splits(const struct mr_cuda_decode *decode, T, dim3 grid, void *stream,
                                 struct mr_error *err)
{
    if (decode->kv.head_dim <= 64) return run_tiles<T, 64>(decode, grid, stream, err);
    if (decode->kv.head_dim <= 128) return run_tiles<T, 128>(decode, grid, stream, err);
    return run_tiles<T, 256>(decode, grid, stream, err);
}

enum mr_status mr_cuda_decode_attention(const struct mr_cuda_decode *decode, void *stream,
                                        struct mr_error *err)
{
    if (decode->row_count == 0) return MR_OK;
    if (check_decode(decode, err) != MR_OK) return MR_UNSUPPORTED;
    const unsigned group = decode->head_count / decode->kv.kv_head_count;
    const unsigned tokens = choose_split(decode), splits = split_count(decode, tokens);
    const dim3 split_grid(decode->row_count, decode->kv.kv_head_count * ceil_div(group, HEADS_MAX),
                          splits);
    const dim3 grid(decode->row_count, ceil_div(decode->head_count, COMBINE_HEADS));
    return with_type(decode->kv.type, [&](auto number) {
        using T = decltype(number);
        const enum mr_status status =
            splits > 0 ? run_splits(decode, number, split_grid, stream, err) : MR_OK;
        if (status != MR_OK) return status;
        return launch("decode_combine", launch_shape(grid, COMBINE_HEADS * WARP, 0, stream),
                      decode_combine<T>, err, *decode, tokens, splits);
    });
}
