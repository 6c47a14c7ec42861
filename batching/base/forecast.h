/* forecast - when a request would be done if it started now, by the cost model.
 *
 * Prefill: its uncached tokens in chunks, one chunk a step, beside the decode rows that run now.
 * Answer: one step for each expected token, with one row more. That the others end meanwhile, and
 * that new ones come, is left out: the two make up for each other on a busy machine.
 *
 * Pure functions. Owner: engine thread. Memory: none. Errors: none. Units: ms, tokens. */
#ifndef MR_BATCHING_BASE_FORECAST_H
#define MR_BATCHING_BASE_FORECAST_H

#include "batching/base/cost_model.h"

#define MR_FORECAST_STEPS_MIN 32u /* before so many observed steps nothing is foretold */

struct mr_forecast {
    struct mr_step_work beside; /* what every step computes for the others: rows and history */
    uint32_t computed_tokens;   /* found in the cache */
    uint32_t pending_tokens;    /* of the prompt, to compute */
    uint32_t chunk_tokens;      /* of one step; 0: all at once */
    uint32_t output_tokens;     /* expected */
};

/* 0 while the model has seen too little. */
double mr_forecast_ms(const struct mr_cost_model *model, const struct mr_forecast *forecast);

#endif
