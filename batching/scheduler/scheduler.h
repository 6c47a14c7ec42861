/* scheduler - which sequences run in the next step, and with how many tokens.
 *
 * Plan of a step (batching/scheduler/plan.h), in this order:
 *   1. a decode row for every running sequence that has caught up;
 *   2. chunks for running sequences that have not, within what is left;
 *   3. new ones: preempted sequences and waiting requests together, best first
 *      (batching/scheduler/admit.h).
 * What is left: rows_max rows, chunk_tokens prefill tokens, and, when a decode row is planned and
 * step_target_ms is set, the time that the cost model predicts up to that target. KV is bounded by
 * the pool (admission) and by prefill_bytes_max for prefills that start together.
 *
 * Chunks end on a multiple of the block size. A chunk shorter than a block ends on a multiple of
 * the largest power of two that fits; the last chunk of a prompt ends with the prompt.
 * chunk_tokens <= 0 turns chunking and the time budget off: a prompt runs whole, or in pieces of
 * rows_max when it is longer than that.
 *
 * Bounds. Decodes: a step's prefill is predicted to end within step_target_ms. Prefill: while
 * decodes alone use the whole target, prefill still gets a quantum (the tokens of half a target, at
 * least MR_CHUNK_TOKENS_MIN) in one of every MR_STARVED_STEPS_MAX steps. Misfits: a request without
 * room in the pool is passed over at most MR_SKIPS_MAX times, then nothing behind it is admitted.
 *
 * With a shared cache (batching/cache/shared_cache.h) a sequence whose blocks are being loaded is
 * running. While it has nothing to compute before these blocks it has no rows and does not count
 * as a prefill.
 *
 * Preemption, when a decode needs a block and none is free or evictable: the running sequence of
 * the lowest priority with the least computed releases all its blocks and is parked; its tokens are
 * kept and recomputed later. A sequence that needs more than the whole pool is exhausted, and so is
 * one that runs alone and finds no block. When blocks are only lent to the tier, nothing is
 * preempted: the tier releases them within a moment.
 *
 * Tenants: the queue's order says who is admitted next. When every place is taken, places are
 * rebalanced (batching/scheduler/rebalance.h).
 *
 * Owner: engine thread. Memory: all in _create. Clock: none. Errors: only _create. */
#ifndef MR_BATCHING_SCHEDULER_SCHEDULER_H
#define MR_BATCHING_SCHEDULER_SCHEDULER_H

#include "batching/scheduler/plan.h"

#define MR_STARVED_STEPS_MAX 4u

struct mr_scheduler;

enum mr_status mr_scheduler_create(struct mr_scheduler **out,
                                   const struct mr_scheduler_options *options,
                                   struct mr_error *err);
/* Destroys the block tables of running sequences. scheduler may be NULL. */
void mr_scheduler_destroy(struct mr_scheduler *scheduler);

/* Valid until the next call. The caller carries out the copy order of rows with match.copy_tokens
 * before the step. A row without tokens and logits is a sequence that was admitted and waits for
 * blocks being loaded. */
const struct mr_plan *mr_scheduler_plan(struct mr_scheduler *scheduler, uint64_t now_ns);
/* Adds a further choice of a running request. It is WAITING, with its first token appended. */
void mr_scheduler_park(struct mr_scheduler *scheduler, struct mr_sequence *sequence);
/* The sequence, in whatever state, has ended: moves it to FINISHED and releases its blocks. */
void mr_scheduler_remove(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                         uint64_t now_ns);

uint32_t mr_scheduler_running(const struct mr_scheduler *scheduler);
uint32_t mr_scheduler_parked(const struct mr_scheduler *scheduler);
/* Running sequences with prompt tokens to compute that do not wait for a load. */
uint32_t mr_scheduler_prefilling(const struct mr_scheduler *scheduler);
void mr_scheduler_check(const struct mr_scheduler *scheduler);

#endif
