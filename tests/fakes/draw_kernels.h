/* draw_kernels - a table of kernels (kernel_table.h) for the torch backend on the CPU. Its only
 * kernel draws tokens; it is implemented by the CPU sampler. LibTorch's operators compute all else.
 * With this table the device draws every token, so a model runs two steps ahead. */
#ifndef MR_TESTS_DRAW_KERNELS_H
#define MR_TESTS_DRAW_KERNELS_H

#include "ops/cpu_kernels/parallel.h"
#include "ops/cuda/kernel_table.h"
#include "ops/sampling/sampler.h"

static inline enum mr_status draw_kernels_sample(const struct mr_cuda_sampling *sampling,
                                                 void *stream, struct mr_error *err)
{
    const struct mr_sampler_spec spec = {.vocab_size = sampling->vocab_size,
                                         .thread_count = mr_parallel_thread_count()};
    struct mr_sampler *sampler;
    (void)stream;
    enum mr_status status = mr_sampler_create(&sampler, &spec, err);
    if (status != MR_OK) return status;
    for (uint32_t i = 0; i < sampling->row_count; i++) {
        const struct mr_cuda_draw *draw = &sampling->draws[i];
        const struct mr_sampling settings = {.temperature = draw->temperature,
                                             .top_k = draw->top_k,
                                             .top_p = draw->top_p,
                                             .min_p = draw->min_p,
                                             .typical_p = draw->typical_p,
                                             .repetition_penalty = 1.0f,
                                             .logprobs = -1};
        const struct mr_sample_row row = {.logits = (const float *)sampling->logits +
                                                    (size_t)i * (size_t)sampling->logits_stride,
                                          .sampling = &settings,
                                          .seed = draw->seed,
                                          .position = draw->position};
        struct mr_sample sample;
        mr_sampler_run(sampler, &row, 1, &sample);
        sampling->tokens[i] = sample.failed ? -1 : (int32_t)sample.token_id;
        sampling->probabilities[i] = sample.probability;
    }
    mr_sampler_destroy(sampler);
    return MR_OK;
}

static inline size_t draw_kernels_scratch(const struct mr_cuda_decode *decode)
{
    (void)decode;
    return 0;
}

static inline enum mr_status draw_kernels_attention(const struct mr_cuda_decode *decode,
                                                    void *stream, struct mr_error *err)
{
    (void)decode, (void)stream;
    return mr_fail(err, MR_UNSUPPORTED, "draws only");
}

static inline enum mr_status draw_kernels_norm(const struct mr_cuda_add_norm *norm, void *stream,
                                               struct mr_error *err)
{
    (void)norm, (void)stream;
    return mr_fail(err, MR_UNSUPPORTED, "draws only");
}

static inline enum mr_status draw_kernels_rope(const struct mr_cuda_rope_write *write, void *stream,
                                               struct mr_error *err)
{
    (void)write, (void)stream;
    return mr_fail(err, MR_UNSUPPORTED, "draws only");
}

static inline enum mr_status draw_kernels_gated(const struct mr_cuda_gated *gated, void *stream,
                                                struct mr_error *err)
{
    (void)gated, (void)stream;
    return mr_fail(err, MR_UNSUPPORTED, "draws only");
}

static inline enum mr_status draw_kernels_find(const struct mr_cuda_find *find, void *stream,
                                               struct mr_error *err)
{
    (void)find, (void)stream;
    return mr_fail(err, MR_UNSUPPORTED, "draws only");
}

static const struct mr_cuda_kernels draw_kernels = {
    .decode_scratch_bytes = draw_kernels_scratch,
    .decode_attention = draw_kernels_attention,
    .add_rms_norm = draw_kernels_norm,
    .rope_kv_write = draw_kernels_rope,
    .gated_mul = draw_kernels_gated,
    .sample = draw_kernels_sample,
    .find_tokens = draw_kernels_find,
};

#endif
