/* forecast - predicts when a request would end if it started now, by the cost model.
 *
 * Prefill: its uncached tokens in chunks, one chunk a step, beside the decode rows that run now.
 * Answer: one step for each expected token, with one more row. The prediction ignores that running
 * requests end meanwhile and that new ones start: on a busy machine the two compensate.
 *
 * Pure functions. Owner: engine thread. Memory: none. Errors: none. Units: ms, tokens. */
#ifndef MR_BATCHING_BASE_FORECAST_H
#define MR_BATCHING_BASE_FORECAST_H

#include "batching/base/cost_model.h"

#define MR_FORECAST_STEPS_MIN 32u /* observed steps before the first prediction */

struct mr_forecast {
    struct mr_step_work beside; /* rows and history of the other sequences in every step */
    uint32_t computed_tokens;   /* prompt tokens found in the cache */
    uint32_t pending_tokens;    /* prompt tokens to compute */
    uint32_t chunk_tokens;      /* of one step; 0: no chunking */
    uint32_t output_tokens;     /* expected */
};

/* 0 before MR_FORECAST_STEPS_MIN observed steps. */
double mr_forecast_ms(const struct mr_cost_model *model, const struct mr_forecast *forecast);

#endif
