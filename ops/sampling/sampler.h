/* sampler - draws one token from each row of logits. Order of operations: logit bias and masks,
 * repetition, presence and frequency penalties, temperature, top-k, top-p, min-p, typical, draw.
 * A temperature below MR_GREEDY_BELOW is greedy: the largest logit, the lowest id among equals.
 *
 * The random number of a draw is a function of (seed, position) alone: Philox-4x32-10 (Salmon et
 * al., "Parallel random numbers: as easy as 1, 2, 3", 2011). So batch, preemption and redelivery
 * cannot change a token.
 *
 * State:  buffers for each thread of the parallel team, about 9 words for each id.
 * Owner:  engine thread; the rows of one call are spread over the team
 * (ops/cpu_kernels/parallel.h). Memory: allocated in _create. */
#ifndef MR_OPS_SAMPLING_SAMPLER_H
#define MR_OPS_SAMPLING_SAMPLER_H

#include "ops/backend/logit_search.h"
#include "ops/cpu_kernels/kernels.h"
#include "ops/sampling/sample.h"

/* Lower temperatures are greedy. At 1e-5 a logit that is 1e-3 below the largest has a probability
 * below 1e-43, and the inverse of a much lower temperature overflows a float. The value is
 * vLLM's. */
#define MR_GREEDY_BELOW 1e-5f

struct mr_sampler;

struct mr_sampler_spec {
    uint32_t vocab_size;
    uint32_t thread_count;   /* most threads that sample at once, mr_parallel_thread_count() */
    enum mr_cpu_level level; /* instruction set of the kernels (ops/cpu_kernels/kernels.h) */
};
enum mr_status mr_sampler_create(struct mr_sampler **out, const struct mr_sampler_spec *spec,
                                 struct mr_error *err);
void mr_sampler_destroy(struct mr_sampler *sampler);
/* Draws samples[i] from rows[i] for each i < count. Every row has its logits set; the logits are
 * not changed. A -infinity of the model is a token that it excludes; any other logit that is not
 * finite makes the sample `failed`. When the request masks every token, the sample is the lowest
 * id of the row's bit mask, or without one the lowest allowed id, with probability 0. A row whose
 * token is given draws nothing (ops/sampling/sample.h). */
void mr_sampler_run(struct mr_sampler *sampler, const struct mr_sample_row *rows, uint32_t count,
                    struct mr_sample *samples);

/* ---- rows of a device ---- */

/* The inputs of a draw other than the logits; without pointers, so it outlives its row. */
struct mr_draw {
    float temperature, top_p, min_p, typical_p;
    uint32_t top_k;
    int32_t logprobs;
    uint64_t seed;
    uint32_t position;
    bool given; /* the token is given_id */
    uint32_t given_id;
    uint32_t masked_token; /* the sample when the request masks every token */
};

/* A row of logits in the memory of a device. */
struct mr_device_row {
    struct mr_draw draw;
    uint32_t logit_row;
    struct mr_logit_findings found; /* of the row's query */
    /* [vocab_size] The logits after the request's edits, and the model's; NULL until _draw sets
     * `needs_logits` and the caller fetches them. */
    const float *edited, *model;
    bool needs_logits; /* set by _draw: the findings do not determine the sample, fetch the whole
                          logits */
};

/* Describes a row: sets *query to the search of its logits on a device, and fills in the draw.
 * *query: its pointers are borrowed until the next call. */
void mr_sampler_describe(struct mr_sampler *sampler, const struct mr_sample_row *row,
                         struct mr_logit_query *query, struct mr_draw *draw);
/* Draws samples[i] from rows[i] for each i < count whose sample is not drawn yet: from the
 * findings, with the same result as mr_sampler_run from the whole row, or from `edited` and `model`
 * if they are set. Sets `needs_logits` of the rows for which it needs the latter, and returns their
 * number; the caller then fetches them and calls again. The caller sets `needs_logits` of all rows
 * to true before the first call. */
uint32_t mr_sampler_draw(struct mr_sampler *sampler, struct mr_device_row *rows, uint32_t count,
                         struct mr_sample *samples);

/* Returns a uniform random number in [0, 1) with 24 random bits, a function of (seed, position). */
float mr_sampler_uniform(uint64_t seed, uint32_t position);

#endif
