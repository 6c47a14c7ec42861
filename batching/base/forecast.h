/* forecast - uses the cost model to predict when a request would end if it started now.
 *
 * Prefill: the request's uncached prompt tokens in chunks, one chunk a step, together with the
 * decode rows that run now. Answer: one step for each expected output token, with one more decode
 * row than now. The prediction ignores that running requests will end and that new ones will start.
 * On a busy machine the two errors compensate.
 *
 * Pure functions. Owner: engine thread. Memory: none. Errors: none. Units: ms, tokens. */
#ifndef MR_BATCHING_BASE_FORECAST_H
#define MR_BATCHING_BASE_FORECAST_H

#include "batching/base/cost_model.h"

/* Steps that the cost model must have observed to forecast, and how many of them with prefill
 * tokens: until then a first step that took too long makes prompts seem slow. */
#define MR_FORECAST_STEPS_MIN    32u
#define MR_FORECAST_PREFILLS_MIN 4u

struct mr_forecast {
    /* decode rows and history of the other running sequences in each step */
    struct mr_step_work beside;
    uint32_t computed_tokens; /* prompt tokens found in the cache */
    uint32_t pending_tokens;  /* prompt tokens to compute */
    uint32_t scored_tokens;   /* of these, tokens whose logits score given tokens */
    uint32_t chunk_tokens;    /* prompt tokens computed in one step; 0: no chunking */
    uint32_t output_tokens;   /* output tokens that the request is expected to generate */
};

/* Predicted ms from now to the end of the request. 0: unknown, because the cost model has
 * observed fewer than MR_FORECAST_STEPS_MIN steps, or fewer than MR_FORECAST_PREFILLS_MIN with
 * prefill tokens. */
double mr_forecast_ms(const struct mr_cost_model *model, const struct mr_forecast *forecast);

#endif
