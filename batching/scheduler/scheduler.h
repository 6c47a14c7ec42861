/* scheduler - which sequences run in the next step, and with how many tokens.
 *
 * Plan of a step, in this order:
 *   1. a decode row for every running sequence that has caught up;
 *   2. chunks for running sequences that have not, within what is left;
 *   3. new ones: preempted sequences and waiting requests together, by priority (aged), each
 *      matched against the prefix cache again at the moment it is looked at.
 * What is left: rows_max rows, chunk_tokens prefill tokens, and, when a decode row is there and a
 * target is set, the time the cost model predicts up to step_target_ms. KV is bounded by the pool
 * (admission) and by prefill_bytes_max for prefills that start together.
 *
 * Chunks end on a multiple of the block size, of the largest power of two not above the chunk when
 * it is shorter than a block, or at the end of what is known. chunk_tokens <= 0 turns chunking and
 * the time budget off: a prompt runs whole, or in pieces of rows_max when it is longer than that.
 *
 * Bounds. Decodes: a step's prefill is predicted to end within step_target_ms. Prefill: while
 * decodes alone use the whole target, prefill still gets a quantum (the tokens of half a target, at
 * least MR_CHUNK_TOKENS_MIN) in one of every MR_STARVED_STEPS_MAX steps. Misfits: a request that
 * does not fit is passed over at most MR_SKIPS_MAX times, then nothing behind it is let in.
 *
 * Admission: the future peak (batching/base/admission.h) with the candidate stays below the pool
 * less a watermark of one part in MR_WATERMARK_PART; expected lengths are a learnt share of
 * max_tokens, the whole of it for a sequence that was preempted. A sequence alone is always let in.
 * A candidate whose prefix is just being computed by another (32 tokens or more) waits until it can
 * share it.
 *
 * With deadline_admission a request whose deadline would pass before it is done
 * (batching/base/forecast.h, less what loading from a tier saves) is not let in.
 *
 * With a tier (batching/cache/shared_cache.h) a candidate waits for the answer to its question,
 * others pass it; a sequence whose blocks are being loaded runs, without rows where it has nothing
 * to compute before them, and is no unfinished prefill then.
 *
 * Preemption, when a decode needs a block and neither a free nor a cached one is there: the running
 * sequence of the lowest priority with the least computed gives all its blocks back and waits at
 * its old place; its tokens are kept. A sequence that needs more than the whole pool, or that is
 * alone with it, is exhausted.
 *
 * Tenants: who is let in next is the queue's order, by what was served. When every place is taken,
 * a waiting tenant that was served less and has fewer places than its weight gives it gets one, at
 * most one in a round, from a tenant with more than its own: the least computed sequence of the
 * lowest priority there waits as if preempted. So a flood of long answers does not keep others out
 * until they end.
 *
 * In parts: batching/scheduler/scheduler.c the round, batching/scheduler/scheduler_admit.c who is
 * let in, batching/scheduler/scheduler_share.c places between tenants. Owner:  engine thread.
 * Memory: all in _create. Clock: none. Errors: only _create. */
#ifndef MR_BATCHING_SCHEDULER_SCHEDULER_H
#define MR_BATCHING_SCHEDULER_SCHEDULER_H

#include "batching/base/budget.h"
#include "batching/base/cost_model.h"
#include "batching/sequence/job.h"

#define MR_STARVED_STEPS_MAX 4u
#define MR_CHUNK_TOKENS_MIN  16u
#define MR_SKIPS_MAX         32u
#define MR_LATE_MAX          8u  /* of one round */
#define MR_WATERMARK_PART    50u /* 2 %: fewest preemptions for throughput in vLLM's PR 44594 */

struct mr_scheduler;
struct mr_prompt_cache;
struct mr_shared_cache;

struct mr_scheduler_options {
    uint32_t sequences_max, rows_max, block_count;
    int32_t chunk_tokens;
    uint32_t prefills_max, prefill_batch_max;
    uint64_t prefill_bytes_max;
    struct mr_memory_geometry geometry;
    double step_target_ms;
    uint64_t ageing_ns; /* the queue's */
    bool deadline_admission;
    uint64_t session_keep_ns;     /* a conversation's blocks are kept that long */
    uint32_t force_preempt_every; /* test hook; 0 off */
    /* Borrowed; prompts and shared may be NULL. */
    struct mr_request_queue *queue;
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    struct mr_shared_cache *shared;
    const struct mr_cost_model *cost;
};

struct mr_plan_row {
    struct mr_sequence *sequence;
    uint32_t token_count; /* tokens [num_computed, num_computed + token_count) */
    bool decode;
    bool samples;        /* reaches the last known token: the next one is drawn */
    const float *logits; /* of a known prompt: nothing to compute, token_count 0 */
};

struct mr_plan {
    struct mr_plan_row *rows; /* decode rows first */
    uint32_t row_count, decode_count, token_count;
    struct mr_step_work work;
    double predicted_ms;
    struct mr_sequence **exhausted; /* [exhausted_count] need a block, and nothing can help */
    uint32_t exhausted_count;
    /* First choices of waiting requests that would be done after their deadline, by what the cost
     * model foretells: no longer in the queue, for the caller to end. */
    struct mr_sequence *late[MR_LATE_MAX];
    uint32_t late_count;
    uint32_t preempted_count;
};

enum mr_status mr_scheduler_create(struct mr_scheduler **out,
                                   const struct mr_scheduler_options *options,
                                   struct mr_error *err);
/* Block tables of sequences still inside are destroyed; scheduler may be NULL. */
void mr_scheduler_destroy(struct mr_scheduler *scheduler);

/* Valid until the next call. Rows with match.copy_tokens have a copy order to carry out first. A
 * row of no tokens and no logits is a sequence let in that waits for what is being loaded. */
const struct mr_plan *mr_scheduler_plan(struct mr_scheduler *scheduler, uint64_t now_ns);
/* A further choice of a running request, WAITING, with its first token already appended. */
void mr_scheduler_park(struct mr_scheduler *scheduler, struct mr_sequence *sequence);
/* The sequence has ended: moves it to FINISHED, gives its blocks back. In whatever state. */
void mr_scheduler_leave(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                        uint64_t now_ns);

uint32_t mr_scheduler_running(const struct mr_scheduler *scheduler);
uint32_t mr_scheduler_parked(const struct mr_scheduler *scheduler);
uint32_t mr_scheduler_prefilling(const struct mr_scheduler *scheduler);
void mr_scheduler_check(const struct mr_scheduler *scheduler);

#endif
