/* schedule - the sequences that run, the sequences that are parked (wait to run), and the planning
 * round in progress.
 *
 * A sequence is RUNNING and has a block table, or it is in the list `parked`: PREEMPTED, or a
 * further choice of a request that waits until it can run. This module adds rows to the plan,
 * computes chunk sizes and preempts. scheduler.h has the order of the planning, admit.h decides
 * which sequences join, and rebalance.h which tenant loses a running place. Only these modules
 * include this header.
 *
 * Owner: engine thread. Memory: arrays made by mr_scheduler_create. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_SCHEDULE_H
#define MR_BATCHING_SCHEDULER_SCHEDULE_H

#include "batching/base/peak_blocks.h"
#include "batching/scheduler/plan.h"
#include "batching/scheduler/shares.h"

#define MR_TRIES_MAX         6u /* most candidates of one round tried and not admitted */
#define MR_CHUNK_TOKENS_MIN  16u
#define MR_COMMON_TOKENS_MIN 32u /* least shared tokens to wait one round for (SGLang's bound) */

/* Resources that are left in a planning round, and its decisions so far. */
struct mr_round {
    uint64_t now_ns;
    uint32_t rows_left, chunk_left;
    uint32_t score_left;    /* given tokens that the step may still score */
    uint32_t partial_count; /* sequences whose prefill is still unfinished after this step */
    /* Running prefills that lack more than a block; the highest priority of the running prefills.
     * Set before the first row is planned. */
    uint32_t long_count;
    int32_t prefill_priority;
    /* The round plans sequences that may start or continue during a long prefill, within short_left
     * tokens (batching/scheduler/scheduler.h). */
    bool shorts_only;
    uint32_t short_left;
    bool short_partial; /* one of these sequences is still unfinished after this step */
    uint32_t tries_left;
    /* candidates that wait for a lookup, for KV blocks in use by the remote cache, or for a step in
     * flight */
    uint32_t remote_waits;
    double target_ms; /* limits the prefill of this step; 0: not limited */
    /* the next prefill gets some tokens even if the step then misses its target time */
    bool prefill_owed;
    bool prefill_wanted, prefill_given;
    bool prefill_missed; /* a running prefill needed tokens and got none */
    bool blocks_short;   /* KV blocks ran out: no sequence is admitted in this round */
    /* the next running place goes to this tenant; MR_TENANT_NONE: to any */
    uint32_t reserved_tenant;
    bool place_kept; /* short prefills must leave that place free */
    /* the costly sequence whose turn it is to run, or NULL; units of work that the masks of the
     * other sequences have taken (batching/sequence/guidance.h) */
    const struct mr_sequence *costly;
    uint64_t mask_work;
    struct mr_prefill_budget starts;
    struct mr_shares shares;
    /* the round plans the first request of a tenant that is owed a start, within owed_tokens chunk
     * tokens */
    bool owed_only;
    uint32_t owed_tokens;
};

struct mr_schedule {
    struct mr_scheduler_options options;
    struct mr_sequence **running; /* [sequences_max] sequences that run */
    uint32_t running_count;
    /* [parked_max] preempted sequences and further choices, waiting to run */
    struct mr_sequence **parked;
    uint32_t parked_count, parked_max;
    /* requests started and not ended; most of them, without those of tenants that are owed a start
     */
    uint32_t job_count, jobs_max;
    bool pool_short;       /* the last candidate that needed only KV blocks did not get them */
    uint64_t costly_turns; /* costly sequences planned so far */
    /* expected output tokens / max_tokens of each tenant, learnt from its ended sequences */
    double output_share[MR_TENANTS_MAX];
    uint32_t late_count; /* requests rejected for their deadline since the last trial */
    uint64_t trial_ns;   /* when a request last started as a trial of the forecast; 0: never */
    struct mr_round round;
    struct mr_plan plan;
    /* Scratch arrays to predict the peak of KV blocks. order: [sequences_max + 1] running sequences
     * and a candidate, most tokens left first. */
    struct mr_sequence **order;
    /* [sequences_max + 1] the same sequences as in `order`, for mr_peak_blocks_most() */
    struct mr_peak_blocks_entry *entries;
    uint64_t *draft_masks; /* [draft_rows_max][words of a mask] */
    uint32_t *stamps;      /* [block_count] value of `stamp` when the block was last counted */
    uint32_t stamp;
};

/* Number of tokens to compute for the sequence in this step: all its pending tokens, a chunk that
 * ends on an aligned token, or 0, also where all tokens would be computed and the next one may not
 * be drawn. share_tokens: most chunk tokens that this sequence may use. */
uint32_t mr_schedule_chunk(struct mr_schedule *schedule, const struct mr_sequence *sequence,
                           uint32_t share_tokens);
/* False when the sequence cannot draw its next token in this step: it needs a mask, and the masks
 * of the step have taken all the work that they may. */
bool mr_schedule_may_draw(const struct mr_schedule *schedule, const struct mr_sequence *sequence);
/* Makes the mask of the sequence's next token if the row samples one. */
void mr_schedule_add_row(struct mr_schedule *schedule, struct mr_plan_row row);
/* Most chunk tokens that all prefills of this step may still have together: by rows, by
 * chunk_tokens and by the time that is left until the target. */
uint32_t mr_schedule_prefill_room(const struct mr_schedule *schedule);
/* Starts a count of KV blocks, in which _stamp_blocks counts each block once: it returns how many
 * blocks of the sequence were not counted yet. */
void mr_schedule_begin_stamps(struct mr_schedule *schedule);
uint32_t mr_schedule_stamp_blocks(struct mr_schedule *schedule, const struct mr_sequence *sequence);
/* Counts each tenant's places and blocks, at the start of a planning round and before any request
 * is dequeued (batching/scheduler/shares.h). */
void mr_schedule_update_shares(struct mr_schedule *schedule);
/* The running choice of the candidate's request from which the candidate takes the KV of the
 * prompt; NULL: none has it from collected steps. */
const struct mr_sequence *mr_schedule_sibling(const struct mr_sequence *candidate);
/* True when the candidate may read the prefix cache: its request may, or the request itself wrote
 * the KV that the candidate would find. */
bool mr_schedule_reads_cache(const struct mr_sequence *candidate);
/* True when the candidate may start while a long prefill runs: the local cache or another choice
 * has all of its tokens except at most a block, or it has a higher priority than every running
 * prefill. When no tokens are left that are set aside for such candidates, the local cache or
 * another choice must have all of its tokens. */
bool mr_schedule_may_start_beside(const struct mr_schedule *schedule,
                                  const struct mr_sequence *candidate);
/* Adds the sequence to the plan's list of sequences that need a KV block and cannot get one, unless
 * it is listed. */
void mr_schedule_exhaust(struct mr_schedule *schedule, struct mr_sequence *sequence);
/* If the sequence has more tokens than all blocks of the pool hold, adds it to the plan's exhausted
 * sequences and returns true. */
bool mr_schedule_exhaust_oversize(struct mr_schedule *schedule, struct mr_sequence *sequence);
/* Adds the sequence to the list of sequences that wait to run. Its state must be WAITING or
 * PREEMPTED. */
void mr_schedule_park(struct mr_schedule *schedule, struct mr_sequence *sequence);
/* _put_back releases the blocks of a running sequence, which joins those that wait to run. _preempt
 * does so for lack of blocks: the KV of its tokens is computed again later. */
void mr_schedule_put_back(struct mr_schedule *schedule, struct mr_sequence *sequence);
void mr_schedule_preempt(struct mr_schedule *schedule, struct mr_sequence *victim);
/* Call when the running sequence ends, before _remove: if another choice of its request waits to
 * run and will not find the prompt in the prefix cache, it takes the sequence's place and blocks.
 */
void mr_schedule_hand_over(struct mr_schedule *schedule, struct mr_sequence *sequence);
/* True when the candidate is to wait: for the answer to its lookup in the remote cache, which the
 * first call starts, or for a prefix that a running sequence is computing. */
bool mr_schedule_waits_for_cache(struct mr_schedule *schedule, struct mr_sequence *candidate);
/* Whether the sink lets the job start. False: the job is counted in the plan's start_waits. */
bool mr_schedule_may_start(struct mr_schedule *schedule, struct mr_job *job);
/* Removes the sequence from the running ones or from those waiting to run, if it is in either list.
 * The blocks of a running sequence are inserted into the prefix index, stored in the remote cache
 * if it lacks them, and released. */
void mr_schedule_remove(struct mr_schedule *schedule, struct mr_sequence *sequence,
                        uint64_t now_ns);

#endif
