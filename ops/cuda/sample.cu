/* The draw of a token: see sampling_kernels.h. One thread block for each row:
 *   1. the largest logit, and a check that the logits can be sampled from;
 *   2. the last token that each cut keeps, see find_last;
 *   3. for every TILE ids the sum of the weights exp((logit - largest) / temperature) of the tokens
 *      that remain;
 *   4. the first warp finds the tile, and in it the id, at which the sum exceeds uniform * total.
 */
#include "ops/cuda/device.cuh"
#include "ops/cuda/philox.cuh"

extern "C" {
#include "ops/cuda/sampling_kernels.h"
}

#define SAMPLE_THREADS 512u
#define SAMPLE_WARPS   (SAMPLE_THREADS / WARP)
#define TILE           1024u
#define VOCAB_MAX      (4u << 20) /* largest vocabulary of a model (ops/README.md) */
#define DIGITS         3u         /* digits above 0 of a key, which has 16 digits of two bits */

/* The largest logit of some ids; the lowest id among equals. */
struct best_logit {
    float logit;
    unsigned id;
    bool broken; /* one of the logits is NaN or +infinity */
};

/* Shared memory, followed by the sums of all tiles. */
struct sample_memory {
    struct best_logit best[SAMPLE_WARPS];
    double sums[DIGITS][SAMPLE_WARPS];
    unsigned found;
};

/* A place in the order of a cut: larger keys first, then lower ids. Key 0: no token. */
struct rank {
    unsigned key, id;
};

/* A row, and the bounds of the tokens that remain. */
template <typename T> struct sample_row {
    const T *logits;
    unsigned vocab_size;
    float top, factor;
    struct rank last; /* by logit: the last token that remains; {0, 0}: all */
    float weight_min; /* of those that remain */
    struct rank
        typical; /* by distance from the entropy: the last token that remains; {0, 0}: all */
    double information_mean; /* mean of information_of, weighted */
};

__device__ inline bool is_until(struct rank rank, struct rank last)
{
    return rank.key > last.key || (rank.key == last.key && rank.id <= last.id);
}

/* A number that orders floats, above 0. x is not NaN. */
__device__ inline unsigned key_of(float x)
{
    const unsigned bits = __float_as_uint(x + 0.0f); /* one zero */
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

template <typename T>
__device__ inline float weight_of(const struct sample_row<T> &row, unsigned id)
{
    return expf((to_float(row.logits[id]) - row.top) * row.factor);
}

/* Returns the information content of a token, less that of the token with the largest logit. */
template <typename T>
__device__ inline double information_of(const struct sample_row<T> &row, unsigned id)
{
    return static_cast<double>((row.top - to_float(row.logits[id])) * row.factor);
}

/* Returns the distance of a token's information content from the entropy of the remaining
 * tokens. */
template <typename T>
__device__ inline float typical_distance(const struct sample_row<T> &row, unsigned id)
{
    return static_cast<float>(fabs(information_of(row, id) - row.information_mean));
}

/* Returns the key of a token by logit; 0: the token does not remain. */
template <typename T>
__device__ inline unsigned logit_key(const struct sample_row<T> &row, unsigned id)
{
    const float logit = to_float(row.logits[id]);
    const struct rank rank = {logit == -INFINITY ? 0 : key_of(logit), id};
    if (!is_until(rank, row.last)) return 0;
    return row.weight_min > 0.0f && weight_of(row, id) < row.weight_min ? 0 : rank.key;
}

/* Returns the key of a token by distance from the entropy; 0: the token does not remain. */
template <typename T>
__device__ inline unsigned typical_key(const struct sample_row<T> &row, unsigned id)
{
    const struct rank rank = {key_of(-typical_distance(row, id)), id};
    return logit_key(row, id) > 0 && is_until(rank, row.typical) ? rank.key : 0;
}

/* Returns the weight of a token; 0 if the token does not remain. */
template <typename T>
__device__ inline double remaining_weight(const struct sample_row<T> &row, unsigned id)
{
    const bool remains = row.typical.key > 0 ? typical_key(row, id) > 0 : logit_key(row, id) > 0;
    return remains ? static_cast<double>(weight_of(row, id)) : 0.0;
}

__device__ inline struct best_logit better(struct best_logit a, struct best_logit b)
{
    const bool second = b.logit > a.logit || (b.logit == a.logit && b.id < a.id);
    struct best_logit best = second ? b : a;
    best.broken = a.broken || b.broken;
    return best;
}

__device__ inline struct best_logit warp_best(struct best_logit best)
{
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        struct best_logit other;
        other.logit = __shfl_xor_sync(ALL_LANES, best.logit, lanes);
        other.id = __shfl_xor_sync(ALL_LANES, best.id, lanes);
        other.broken = __shfl_xor_sync(ALL_LANES, static_cast<int>(best.broken), lanes) != 0;
        best = better(best, other);
    }
    return best;
}

/* The largest logit of the row, known to every thread. */
template <typename T>
__device__ inline struct best_logit find_best(const T *logits, unsigned vocab_size,
                                              struct sample_memory *memory)
{
    struct best_logit best = {-INFINITY, vocab_size, false};
    for (unsigned id = threadIdx.x; id < vocab_size; id += SAMPLE_THREADS) {
        const float logit = to_float(logits[id]);
        best = better(best, {logit, id, !(logit < INFINITY)});
    }
    best = warp_best(best);
    if (threadIdx.x % WARP == 0) memory->best[threadIdx.x / WARP] = best;
    __syncthreads();
    return warp_best(memory->best[threadIdx.x % WARP % SAMPLE_WARPS]);
}

/* Returns the sum over the lanes up to and including this one. */
__device__ inline double warp_prefix(double x)
{
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned lanes = 1; lanes < WARP; lanes *= 2) {
        const double below = __shfl_up_sync(ALL_LANES, x, lanes);
        if (lane >= lanes) x += below;
    }
    return x;
}

/* Returns the first of `count` numbers at which their sum exceeds *target, and subtracts the sum of
 * the numbers before it from *target; if rounding leaves no such number, the last number above 0,
 * or 0. The whole warp calls it. number(i) is the i-th number. */
template <typename F>
__device__ inline unsigned find_in_sum(unsigned count, const F &number, double *target)
{
    const unsigned lane = threadIdx.x % WARP;
    unsigned last = 0;
    for (unsigned begin = 0; begin < count; begin += WARP) {
        const double x = begin + lane < count ? number(begin + lane) : 0.0;
        const double sum = warp_prefix(x);
        const unsigned found = __ballot_sync(ALL_LANES, x > 0.0 && sum > *target);
        const unsigned positive = __ballot_sync(ALL_LANES, x > 0.0);
        if (found) {
            const int first = __ffs(static_cast<int>(found)) - 1;
            *target -= __shfl_sync(ALL_LANES, sum - x, first);
            return begin + static_cast<unsigned>(first);
        }
        if (positive)
            last = begin + WARP - 1 - static_cast<unsigned>(__clz(static_cast<int>(positive)));
        *target -= __shfl_sync(ALL_LANES, sum, WARP - 1);
    }
    return last;
}

/* Writes the sum of number(id) of every tile, in a fixed order within a tile. Returns the sum of
 * all tiles. Every thread of the block calls it. */
template <typename F>
__device__ inline double sum_tiles(unsigned count, const F &number, double *tiles)
{
    const unsigned lane = threadIdx.x % WARP;
    __syncthreads();
    for (unsigned tile = threadIdx.x / WARP; tile * TILE < count; tile += SAMPLE_WARPS) {
        double sum = 0.0;
        const unsigned end = min(tile * TILE + TILE, count);
        for (unsigned id = tile * TILE + lane; id < end; id += WARP)
            sum += number(id);
        sum = warp_sum(sum);
        if (lane == 0) tiles[tile] = sum;
    }
    __syncthreads();
    double total = 0.0;
    for (unsigned tile = lane; tile * TILE < count; tile += WARP)
        total += tiles[tile];
    return warp_sum(total);
}

/* Called after sum_tiles of the same numbers. Returns the first id at which their sum exceeds
 * `target`, or the last id with a number above 0. */
template <typename F>
__device__ inline unsigned find_id(unsigned count, const F &number, const double *tiles,
                                   double target, struct sample_memory *memory)
{
    if (threadIdx.x < WARP) {
        const unsigned tile_count = (count + TILE - 1) / TILE;
        const unsigned begin =
            TILE * find_in_sum(
                       tile_count, [&](unsigned i) { return tiles[i]; }, &target);
        const unsigned id = begin + find_in_sum(
                                        min(TILE, count - begin),
                                        [&](unsigned i) { return number(begin + i); }, &target);
        if (threadIdx.x == 0) memory->found = id;
    }
    __syncthreads();
    return memory->found;
}

struct digit_sums {
    double from[DIGITS]; /* of the ids with this digit + 1 or a larger one */
};

/* Sums of number(id) of the ids whose key is at least prefix + (1, 2 and 3) << shift. */
template <typename K, typename F>
__device__ inline struct digit_sums sum_digits(unsigned count, const K &key, const F &number,
                                               unsigned prefix, int shift,
                                               struct sample_memory *memory)
{
    struct digit_sums sums = {};
    for (unsigned id = threadIdx.x; id < count; id += SAMPLE_THREADS) {
        const unsigned place = key(id);
        if (place <= prefix) continue;
        const double x = number(id);
        for (unsigned digit = 0; digit < DIGITS; digit++)
            if (place >= (prefix | (digit + 1) << shift)) sums.from[digit] += x;
    }
    const unsigned lane = threadIdx.x % WARP;
    __syncthreads();
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        const double sum = warp_sum(sums.from[digit]);
        if (lane == 0) memory->sums[digit][threadIdx.x / WARP] = sum;
    }
    __syncthreads();
    for (unsigned digit = 0; digit < DIGITS; digit++)
        sums.from[digit] = warp_sum(lane < SAMPLE_WARPS ? memory->sums[digit][lane] : 0.0);
    return sums;
}

/* Returns the first token, in the order of the keys, at which the sum of number(id) reaches
 * `quota`; {0, 0}: the sum stays below. Finds the key digit by digit, the most significant first,
 * and then the id among equal keys. Every thread of the block calls it. */
template <typename K, typename F>
__device__ inline struct rank find_last(unsigned count, const K &key, const F &number, double quota,
                                        double *tiles, struct sample_memory *memory)
{
    struct rank last = {0, 0};
    double above = 0.0; /* sum of the tokens with larger keys */
    for (int shift = 30; shift >= 0; shift -= 2) {
        const struct digit_sums sums = sum_digits(count, key, number, last.key, shift, memory);
        unsigned digit = DIGITS;
        for (; digit > 0 && !(sums.from[digit - 1] > 0.0 && sums.from[digit - 1] >= quota); digit--)
            above = sums.from[digit - 1];
        last.key |= digit << shift;
    }
    if (last.key == 0) return last;
    const unsigned found = last.key;
    const auto equal = [&](unsigned id) { return key(id) == found ? number(id) : 0.0; };
    (void)sum_tiles(count, equal, tiles);
    /* find_id stops at a larger sum, not at an equal one */
    last.id = find_id(count, equal, tiles, quota - above - 1e-9 * quota, memory);
    return last;
}

/* ---- the cuts ---- */

/* Keeps the largest logits until the sum of their numbers reaches the quota. */
template <typename T, typename F>
__device__ inline void cut_by_logit(struct sample_row<T> *row, const F &number, double quota,
                                    double *tiles, struct sample_memory *memory)
{
    const struct rank last = find_last(
        row->vocab_size, [&](unsigned id) { return logit_key(*row, id); }, number, quota, tiles,
        memory);
    if (last.key > 0) row->last = last;
}

template <typename T>
__device__ inline void cut_typical(struct sample_row<T> *row, float typical_p, double *tiles,
                                   struct sample_memory *memory)
{
    const auto weight = [&](unsigned id) { return remaining_weight(*row, id); };
    const auto information = [&](unsigned id) {
        const double remaining = weight(id);
        return remaining > 0.0 ? remaining * information_of(*row, id) : 0.0;
    };
    const double total = sum_tiles(row->vocab_size, weight, tiles);
    row->information_mean = sum_tiles(row->vocab_size, information, tiles) / total;
    row->typical = find_last(
        row->vocab_size, [&](unsigned id) { return typical_key(*row, id); }, weight,
        static_cast<double>(typical_p) * total, tiles, memory);
}

template <typename T>
__device__ inline void cut(struct sample_row<T> *row, const struct mr_cuda_draw &draw,
                           double *tiles, struct sample_memory *memory)
{
    const auto weight = [&](unsigned id) { return remaining_weight(*row, id); };
    if (draw.top_k > 0)
        cut_by_logit(
            row, [](unsigned) { return 1.0; }, static_cast<double>(draw.top_k), tiles, memory);
    if (draw.top_p < 1.0f) {
        const double total = sum_tiles(row->vocab_size, weight, tiles);
        cut_by_logit(row, weight, static_cast<double>(draw.top_p) * total, tiles, memory);
    }
    row->weight_min = draw.min_p;
    if (draw.typical_p < 1.0f) cut_typical(row, draw.typical_p, tiles, memory);
}

/* Grid: rows. */
template <typename T>
__global__ __launch_bounds__(SAMPLE_THREADS, 2) void sample(struct mr_cuda_sampling sampling)
{
    struct sample_memory *memory = reinterpret_cast<struct sample_memory *>(mr_cuda_shared);
    double *tiles = reinterpret_cast<double *>(memory + 1);
    const struct mr_cuda_draw draw = sampling.draws[blockIdx.x];
    const bool greedy = !(draw.temperature > 0.0f);
    struct sample_row<T> row = {
    };
    row.logits = static_cast<const T *>(sampling.logits) + blockIdx.x * sampling.logits_stride;
    row.vocab_size = sampling.vocab_size;
    const struct best_logit best = find_best(row.logits, row.vocab_size, memory);
    if (best.broken || best.logit == -INFINITY) {
        if (threadIdx.x == 0) {
            sampling.tokens[blockIdx.x] = -1;
            sampling.probabilities[blockIdx.x] = 0.0f;
        }
        return;
    }
    row.top = best.logit;
    row.factor = greedy ? 1.0f : 1.0f / draw.temperature;
    if (!greedy) cut(&row, draw, tiles, memory);
    const auto weight = [&](unsigned id) { return remaining_weight(row, id); };
    const double total = sum_tiles(row.vocab_size, weight, tiles);
    unsigned id = best.id;
    if (!greedy)
        id = find_id(row.vocab_size, weight, tiles,
                     static_cast<double>(philox_uniform(draw.seed, draw.position)) * total, memory);
    if (threadIdx.x == 0) {
        sampling.tokens[blockIdx.x] = static_cast<int32_t>(id);
        sampling.probabilities[blockIdx.x] = static_cast<float>(weight(id) / total);
    }
}

enum mr_status mr_cuda_sample(const struct mr_cuda_sampling *sampling, void *stream,
                              struct mr_error *err)
{
    if (sampling->row_count == 0) return MR_OK;
    if (sampling->vocab_size == 0 || sampling->vocab_size > VOCAB_MAX)
        return mr_fail(err, MR_UNSUPPORTED, "vocab_size %u is 0 or above %u", sampling->vocab_size,
                       VOCAB_MAX);
    const size_t shared_bytes =
        sizeof(struct sample_memory) + ceil_div(sampling->vocab_size, TILE) * sizeof(double);
    return with_type(sampling->type, [&](auto number) {
        return launch("sample",
                      launch_shape(dim3(sampling->row_count), SAMPLE_THREADS, shared_bytes, stream),
                      sample<decltype(number)>, err, *sampling);
    });
}
