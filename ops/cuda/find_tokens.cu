/* The numbers that the host reads from rows of logits: see sampling_kernels.h. One thread block for
 * each row finds the largest logit, then its id and the sums, of the edited row and, if the row was
 * edited, of the model's row. */
#include "ops/cuda/device.cuh"

extern "C" {
#include "ops/cuda/sampling_kernels.h"
}

#define FIND_THREADS 1024u
#define FIND_WARPS   (FIND_THREADS / WARP)
#define FIND_BATCH   8u /* logits of a thread that are loaded together */

/* Shared memory: of each warp. */
struct find_memory {
    float largest[FIND_WARPS];
    unsigned broken[FIND_WARPS], ids[FIND_WARPS];
    double plain[FIND_WARPS], scaled[FIND_WARPS];
};

/* Calls use(logit, id) with every logit of the thread; ids rise. */
template <typename F>
__device__ inline void for_logits(const float *logits, unsigned vocab_size, const F &use)
{
    unsigned id = threadIdx.x;
    for (; id + (FIND_BATCH - 1) * FIND_THREADS < vocab_size; id += FIND_BATCH * FIND_THREADS) {
        float batch[FIND_BATCH];
#pragma unroll
        for (unsigned i = 0; i < FIND_BATCH; i++)
            batch[i] = logits[id + i * FIND_THREADS];
#pragma unroll
        for (unsigned i = 0; i < FIND_BATCH; i++)
            use(batch[i], id + i * FIND_THREADS);
    }
    for (; id < vocab_size; id += FIND_THREADS)
        use(logits[id], id);
}

__device__ inline unsigned warp_min(unsigned x)
{
    for (int lanes = 16; lanes > 0; lanes /= 2)
        x = min(x, __shfl_xor_sync(ALL_LANES, x, lanes));
    return x;
}

/* The findings of a row, known to every thread. */
struct found_row {
    float largest;        /* NaN if a logit is */
    unsigned id;          /* of the largest logit, the lowest among equals */
    double plain, scaled; /* sums of exp(logit - largest) and of exp(factor * (logit - largest)) */
};

/* Every thread calls these functions. */
__device__ inline float find_largest(const float *logits, unsigned vocab_size,
                                     struct find_memory *memory)
{
    float largest = -INFINITY;
    bool broken = false;
    for_logits(logits, vocab_size, [&](float logit, unsigned) {
        largest = fmaxf(largest, logit);
        broken = broken || logit != logit;
    });
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    largest = warp_max(largest);
    broken = __any_sync(ALL_LANES, broken) != 0;
    if (lane == 0) {
        memory->largest[warp] = largest;
        memory->broken[warp] = broken;
    }
    __syncthreads();
    largest = warp_max(memory->largest[lane]);
    return __any_sync(ALL_LANES, static_cast<int>(memory->broken[lane])) ? NAN : largest;
}

__device__ inline struct found_row find_row(const float *logits, unsigned vocab_size, float factor,
                                            struct find_memory *memory)
{
    struct found_row found = {find_largest(logits, vocab_size, memory), vocab_size, 0.0, 0.0};
    float plain = 0.0f, scaled = 0.0f; /* float sums of the logits since the last sum in double */
    unsigned count = 0;
    for_logits(logits, vocab_size, [&](float logit, unsigned id) {
        if (logit == found.largest && id < found.id) found.id = id;
        plain += expf(logit - found.largest);
        if (factor != 1.0f) scaled += expf(factor * (logit - found.largest));
        if (++count % FIND_BATCH != 0) return;
        found.plain += static_cast<double>(plain);
        found.scaled += static_cast<double>(scaled);
        plain = scaled = 0.0f;
    });
    found.plain = warp_sum(found.plain + static_cast<double>(plain));
    found.scaled = warp_sum(found.scaled + static_cast<double>(scaled));
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    found.id = warp_min(found.id);
    if (lane == 0) {
        memory->ids[warp] = found.id;
        memory->plain[warp] = found.plain;
        memory->scaled[warp] = found.scaled;
    }
    __syncthreads();
    found.id = warp_min(memory->ids[lane]);
    found.plain = warp_sum(memory->plain[lane]);
    found.scaled = factor == 1.0f ? found.plain : warp_sum(memory->scaled[lane]);
    __syncthreads(); /* the next row uses the memory */
    return found;
}

__device__ inline void store_double(uint32_t *words, double x)
{
    memcpy(words, &x, sizeof x);
}

/* Grid: rows. */
__global__ __launch_bounds__(FIND_THREADS) void find_tokens(struct mr_cuda_find find)
{
    struct find_memory *memory = reinterpret_cast<struct find_memory *>(mr_cuda_shared);
    const unsigned row = blockIdx.x;
    const float *edited = find.edited + static_cast<size_t>(row) * find.vocab_size;
    const float *model = find.model + static_cast<size_t>(row) * find.vocab_size;
    const float factor = find.factors ? find.factors[row] : 1.0f;
    const struct found_row best = find_row(edited, find.vocab_size, factor, memory);
    const struct found_row of_model =
        model == edited ? best : find_row(model, find.vocab_size, 1.0f, memory);
    if (threadIdx.x != 0) return;
    unsigned token = min(best.id, find.vocab_size - 1); /* with a NaN no logit is the largest */
    if (find.drawn && find.drawn[row] >= 0) token = static_cast<unsigned>(find.drawn[row]);
    if (find.masked_tokens && best.largest == -INFINITY)
        token = static_cast<unsigned>(find.masked_tokens[row]);
    find.tokens[row] = token;
    uint32_t *words = find.words + static_cast<size_t>(row) * MR_CUDA_FOUND_WORDS;
    words[0] = token;
    words[1] = __float_as_uint(best.largest);
    words[2] = __float_as_uint(of_model.largest);
    words[3] = __float_as_uint(model[token]);
    store_double(words + 4, best.scaled);
    store_double(words + 6, of_model.plain);
    words[8] = __float_as_uint(find.probabilities ? find.probabilities[row] : 0.0f);
}

enum mr_status mr_cuda_find_tokens(const struct mr_cuda_find *find, void *stream,
                                   struct mr_error *err)
{
    if (find->row_count == 0) return MR_OK;
    if (find->vocab_size == 0) return mr_fail(err, MR_UNSUPPORTED, "vocab_size is 0");
    return launch("find_tokens",
                  launch_shape(find->row_count, FIND_THREADS, sizeof(struct find_memory), stream),
                  find_tokens, err, *find);
}
