/* plan - the rows of one engine step, and the limits that the scheduler keeps when it plans them.
 *
 * Types only. Owner: engine thread. A plan belongs to the scheduler and is valid until the next
 * plan is made. */
#ifndef MR_BATCHING_SCHEDULER_PLAN_H
#define MR_BATCHING_SCHEDULER_PLAN_H

#include "batching/base/budget.h"
#include "batching/base/cost_model.h"
#include "batching/queue/fair_share.h"
#include "batching/sequence/job.h"

/* Most requests that have started and not ended: running, preempted, and one more for each tenant
 * that has none (batching/scheduler/shares.h). */
#define MR_STARTED_MAX(sequences_max) (2u * (sequences_max) + MR_TENANTS_MAX)
#define MR_LATE_MAX                   8u /* most requests that one plan rejects for their deadline */

struct mr_prompt_cache;
struct mr_remote_prefix;

struct mr_scheduler_options {
    uint32_t sequences_max, rows_max, block_count;
    uint32_t tenant_count;   /* of the queue; 0 means 1 */
    uint32_t draft_rows_max; /* most drafts in a step, on top of rows_max; 0: no speculation */
    uint32_t score_rows_max; /* most given tokens that a step scores */
    int32_t chunk_tokens;    /* largest prefill chunk; <= 0: no chunking, no time budget */
    /* The model is an encoder: a prompt is computed in one step. chunk_tokens: most tokens of the
     * prompts of a step; a longer prompt has a step of its own. */
    bool whole_prompts;
    uint32_t prefills_max, prefill_batch_max;
    uint64_t prefill_bytes_max;
    struct mr_memory_geometry geometry;
    double step_target_ms; /* 0: none; MR_STEP_TARGET_AUTO */
    uint64_t ageing_ns;    /* waiting time worth one priority step, as in the queue */
    bool deadline_admission;
    const struct mr_token_mask *masks; /* NULL: no constrained requests */
    uint64_t session_keep_ns;     /* how long the blocks of a session are protected from eviction */
    uint32_t force_preempt_every; /* test hook: rounds between forced preemptions; 0: off */
    /* All pointers below are borrowed; prompts and remote may be NULL. */
    struct mr_request_queue *queue;
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    struct mr_remote_prefix *remote;
    const struct mr_cost_model *cost;
    /* the sink's may_start (batching/engine/engine.h), which may be NULL, and its context */
    bool (*may_start)(void *context, uint64_t ticket);
    void *sink_context;
};

struct mr_plan_row {
    struct mr_sequence *sequence;
    uint32_t token_count; /* the step computes tokens [num_computed, num_computed + token_count) */
    uint32_t draft_count; /* the last of them are drafts of the sequence */
    /* rows [score_begin, score_begin + score_count) score score_samples tokens
     * (batching/sequence/scores.h) */
    uint32_t score_begin, score_count, score_samples;
    uint32_t hidden_rows; /* hidden states of the last hidden_rows rows are kept */
    bool decode;
    /* the row includes the sequence's last known token, so the next token is sampled, if the
     * request wants one */
    bool samples;
    /* cached logits of the prompt's last token: nothing to compute, token_count is 0 */
    const float *logits;
    /* [draft_count][words of a mask] of a constrained sequence: the mask of the token after each
     * draft. Bit i of drafts_over: after i + 1 drafts only an end token may follow */
    const uint64_t *draft_masks;
    uint32_t drafts_over;
};

struct mr_plan {
    /* one row for each sequence in the step; decoding sequences come first */
    struct mr_plan_row *rows;
    uint32_t row_count, decode_count, token_count;
    struct mr_step_work work;
    double predicted_ms;
    /* [exhausted_count] sequences that need a KV block and cannot get one; a waiting request among
     * them is no longer in the queue */
    struct mr_sequence **exhausted;
    uint32_t exhausted_count;
    /* First choices of waiting requests that are predicted to end after their deadline. They are no
     * longer in the queue; the caller of mr_scheduler_plan() ends them. */
    struct mr_sequence *late[MR_LATE_MAX];
    uint32_t late_count;
    uint32_t preempted_count;
    uint32_t start_waits; /* candidates that could run but may not start yet */
};

#endif
