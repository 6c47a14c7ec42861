/* engine_stats - the counters and gauges of an engine; worker/metrics exports them.
 *
 * Owner: mr_engine_stats() returns a copy, to any thread. Memory: the struct. Errors: none. */
#ifndef MR_BATCHING_ENGINE_ENGINE_STATS_H
#define MR_BATCHING_ENGINE_ENGINE_STATS_H

#include "batching/cache/prompt_cache.h"
#include "batching/cache/remote_prefix.h"
#include "codec/records/result.h"

struct mr_engine_stats {
    uint64_t steps, prompt_tokens, generated_tokens, cached_tokens, preemptions, recomputed_tokens;
    uint64_t finished[MR_FINISH_COUNT];
    uint64_t drafts; /* rows with drafts, in all steps */
    /* drafts checked; those that were equal to the token sampled */
    uint64_t draft_tokens, accepted_draft_tokens;
    uint32_t running, waiting, prefilling;
    uint64_t prompt_cache_hits, cached_tokens_redis;
    /* time in the model's functions; time in steps; 0 if the model has no clock */
    uint64_t model_ns, step_ns_total;
    /* coefficients a, b, c, d, e of the step time (batching/base/cost_model.h), ms */
    double cost_model[MR_COST_TERMS];
    struct mr_kv_cache_stats cache; /* the local KV cache */
    struct mr_prompt_cache_stats prompts;
    struct mr_remote_prefix_stats remote; /* zero without a shared KV cache in Redis */
};

#endif
