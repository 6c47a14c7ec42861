/* engine_state - the engine's state, for engine.c, engine_step.c and engine_results.c only. */
#ifndef MR_BATCHING_ENGINE_STATE_H
#define MR_BATCHING_ENGINE_STATE_H

#include "batching/batch_builder.h"
#include "batching/cache/prompt_cache.h"
#include "batching/cache/shared_cache.h"
#include "batching/engine.h"
#include "batching/scheduler/scheduler.h"

#include <stdatomic.h>

#define MR_STATS_WORDS (sizeof(struct mr_engine_stats) / sizeof(uint64_t))

/* A copy of the statistics for any thread. The version is odd while the copy is being written. */
struct mr_stats_snapshot {
    _Atomic uint64_t version;
    _Atomic uint64_t words[MR_STATS_WORDS];
};

struct mr_engine {
    struct mr_engine_options options;
    struct mr_sink sink;
    uint32_t eos_ids[MR_EOS_IDS_MAX];
    struct mr_token_text *texts;
    struct mr_job_rules rules;
    /* All that other threads write: waiting requests, a registry of the ids of all requests inside,
     * and ids to cancel. */
    struct mr_request_queue *queue, *registry, *cancels;
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    struct mr_shared_cache *shared; /* NULL without a tier */
    struct mr_cost_model cost;
    struct mr_scheduler *scheduler;
    struct mr_batch_builder *builder;
    struct mr_sample *samples; /* [sequences_max * MR_CHOICES_MAX] */
    struct mr_job **jobs;      /* [2 * sequences_max] started and not ended */
    uint32_t job_count;
    struct mr_engine_stats stats;
    struct mr_stats_snapshot snapshot;
};

/* A cancel that the engine thread has not applied yet. */
struct mr_cancel {
    struct mr_queue_entry entry;
    char id[];
};

uint64_t mr_engine_clock(const struct mr_engine *engine, uint64_t now_ns);
/* After a step: counts tokens, publishes blocks, appends samples and reports ended requests. */
void mr_engine_apply_results(struct mr_engine *engine, const struct mr_plan *plan, uint64_t now_ns);
/* Emits tokens of an earlier attempt that the reader may not have; before any new token. */
void mr_engine_emit_kept(struct mr_engine *engine, struct mr_job *job);
/* Ends every unfinished choice of a job for this reason, reports the result and destroys the job.
 */
void mr_engine_end_job(struct mr_engine *engine, struct mr_job *job, enum mr_finish reason,
                       uint64_t now_ns);
/* Ends one choice; reports and destroys the job when it was the last one. */
void mr_engine_end_sequence(struct mr_engine *engine, struct mr_sequence *sequence,
                            enum mr_finish reason, uint64_t now_ns);
/* The job is about to be destroyed: removes its id from the registry and abandons its lookup. */
void mr_engine_unregister(struct mr_engine *engine, struct mr_job *job);
void mr_engine_publish_stats(struct mr_engine *engine);

#endif
