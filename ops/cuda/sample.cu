/* The draw of a token: see cuda_kernels.h. One thread block for each row:
 *   1. the largest logit, and whether the logits can be sampled from;
 *   2. for every TILE ids the sum of the weights exp((logit - largest) / temperature);
 *   3. the first warp finds the tile, and in it the id, at which the sum exceeds uniform * total.
 */
#include "ops/cuda/device.cuh"
#include "ops/cuda/philox.cuh"

#define SAMPLE_THREADS 512u
#define SAMPLE_WARPS   (SAMPLE_THREADS / WARP)
#define TILE           1024u
#define VOCAB_MAX      (4u << 20) /* largest vocabulary of a model (ops/README.md) */

/* The largest logit of some ids; the lowest id among equals. */
struct best_logit {
    float logit;
    unsigned id;
    bool broken; /* one of the logits is NaN or +infinity */
};

/* Shared memory, followed by the sums of all tiles. */
struct sample_memory {
    struct best_logit best[SAMPLE_WARPS];
};

/* What the weights of a row depend on. */
template <typename T> struct sample_row {
    const T *logits;
    unsigned vocab_size;
    float top, factor;
};

template <typename T>
__device__ inline float weight_of(const struct sample_row<T> &row, unsigned id)
{
    return expf((to_float(row.logits[id]) - row.top) * row.factor);
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

/* Sums of the weights of every tile; the order within a tile is fixed. */
template <typename T>
__device__ inline void sum_tiles(const struct sample_row<T> &row, double *tiles)
{
    const unsigned lane = threadIdx.x % WARP;
    for (unsigned tile = threadIdx.x / WARP; tile * TILE < row.vocab_size; tile += SAMPLE_WARPS) {
        double sum = 0.0;
        const unsigned end = min(tile * TILE + TILE, row.vocab_size);
        for (unsigned id = tile * TILE + lane; id < end; id += WARP)
            sum += static_cast<double>(weight_of(row, id));
        sum = warp_sum(sum);
        if (lane == 0) tiles[tile] = sum;
    }
    __syncthreads();
}

/* Inclusive sum over the lanes up to this one. */
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
 * the numbers before it from *target; if rounding leaves none, the last number above 0, or 0. The
 * whole warp calls it. number(i) is the i-th number. */
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

/* Grid: rows. */
template <typename T>
__global__ __launch_bounds__(SAMPLE_THREADS) void sample(struct mr_cuda_sampling sampling)
{
    struct sample_memory *memory = reinterpret_cast<struct sample_memory *>(mr_cuda_shared);
    double *tiles = reinterpret_cast<double *>(memory + 1);
    const struct mr_cuda_draw draw = sampling.draws[blockIdx.x];
    const bool greedy = !(draw.temperature > 0.0f);
    struct sample_row<T> row;
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
    sum_tiles(row, tiles);
    if (threadIdx.x >= WARP) return;
    const unsigned tile_count = (row.vocab_size + TILE - 1) / TILE;
    double total = 0.0;
    for (unsigned tile = threadIdx.x; tile < tile_count; tile += WARP)
        total += tiles[tile];
    total = warp_sum(total);
    unsigned id = best.id;
    if (!greedy) {
        double target = static_cast<double>(philox_uniform(draw.seed, draw.position)) * total;
        const unsigned begin =
            TILE * find_in_sum(
                       tile_count, [&](unsigned i) { return tiles[i]; }, &target);
        id = begin + find_in_sum(
                         min(TILE, row.vocab_size - begin),
                         [&](unsigned i) { return static_cast<double>(weight_of(row, begin + i)); },
                         &target);
    }
    if (threadIdx.x == 0) {
        sampling.tokens[blockIdx.x] = static_cast<int32_t>(id);
        sampling.probabilities[blockIdx.x] =
            static_cast<float>(static_cast<double>(weight_of(row, id)) / total);
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
