/* scheduler - which sequences run in the next step, and with how many tokens.
 *
 * A step is planned (batching/scheduler/plan.h) in this order:
 *   1. a decode row for every running sequence that lacks the KV of one token only, and rows for
 *   drafts of some of them (batching/scheduler/speculate.h);
 *   2. the first request of each tenant that is owed a start (batching/scheduler/shares.h);
 *   3. while a long prefill runs: short prefills, running ones and then candidates;
 *   4. prefill chunks for the other running sequences, within the limits below;
 *   5. new sequences: preempted sequences, further choices and waiting requests together, in the
 *   queue's order (batching/scheduler/admit.h).
 * Limits: rows_max rows, chunk_tokens prefill tokens, and the step's target. KV is bounded by the
 * block pool (admission) and by prefill_bytes_max for prefills that start together.
 *
 * Chunks end on a multiple of the block size. A chunk shorter than a block ends on a multiple of
 * the largest power of two that fits; the last chunk of a prompt ends with the prompt. chunk_tokens
 * <= 0 turns chunking and the target off: a prompt is computed in one step, or in parts when it is
 * too long for one step.
 *
 * Running prefills divide the room of a step: each tenant gets an equal part, independent of its
 * weight, and each of its prefills an equal part of that. The others get the tokens that one does
 * not need.
 *
 * Short prefills. A running prefill is long while it lacks more than a block. While one is running,
 * up to a block of tokens, but at most half of the tokens of all prefills, is set aside in each
 * step for sequences that lack a block or less, and for candidates of a higher priority than every
 * running prefill. A candidate whose logits are known needs no tokens. So a prompt in chunks does
 * not delay these sequences and candidates; tokens that they do not use go to the long prefill in
 * the same step. Each tenant's running prefills that lack a block or less have a limit of their
 * own: the tenant's part of the step, or half of it if the tenant has a long prefill too.
 *
 * Target: a step's prefill is predicted to end within the target. 0: none. In a step with decodes
 * it is step_target_ms. The automatic target is the longest of 100 ms, 4 times the predicted time
 * of the step's decodes (so prefill has at least three quarters of a step), and the decodes with a
 * chunk of 24 tokens. In a step without decodes the target bounds how long a request that
 * arrives waits for the next step. It is step_target_ms, or 250 ms if automatic, but at least 20
 * times the constant cost of a step: prefill then has 95 % of its speed.
 *
 * Bound for prefill: while decodes alone use the whole target, prefill still gets some tokens
 * (those of half a target, at least MR_CHUNK_TOKENS_MIN) in one of every MR_STARVED_STEPS_MAX
 * steps. Requests that start in these steps and need little do not end this starvation. A request
 * for which the pool has too few blocks is passed over at most MR_SKIPS_MAX times; then no later
 * one is admitted before it.
 *
 * A sequence whose blocks are being loaded from Redis (batching/cache/remote_prefix.h) is running.
 * While it has nothing to compute before these blocks it has no rows and is not counted as a
 * prefill.
 *
 * Steps in flight. A plan may be made while a step computes (batching/base/model_port.h). A
 * sequence whose next token that step samples is planned like any other, unless the next row
 * depends on this token's id or the sequence may end with it for lack of tokens or blocks; then it
 * waits.
 *
 * Preemption, when a decode needs a KV block and none is free or evictable: the running sequence
 * that is last in rank releases all its blocks and waits to run again; its tokens are kept and
 * recomputed later. Sequences of tenants above their share of blocks rank last, then those of lower
 * priority, then those with less computed. A sequence that needs more than the whole pool is
 * exhausted (the caller ends it), and so is one that runs alone and finds no block. When blocks of
 * ended sequences are still in use by the remote cache, nothing is preempted: the remote cache
 * releases them soon.
 *
 * Constrained sequences: the mask of the next token is made when a row that draws it is planned.
 * Only one sequence with costly masks decodes in a step. When the masks of the others have taken a
 * step's limit of work (batching/sequence/guidance.h), the remaining sequences wait for the next
 * step.
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
/* Destroys the scheduler and the block tables of its running sequences. scheduler may be NULL. */
void mr_scheduler_destroy(struct mr_scheduler *scheduler);

/* Plans the next step; the plan is valid until the next call. Before the step the caller copies KV
 * for each sequence with match.copy_tokens above 0. A row without tokens and logits is a sequence
 * that was admitted and waits for KV to be loaded. */
const struct mr_plan *mr_scheduler_plan(struct mr_scheduler *scheduler, uint64_t now_ns);
/* Adds a further choice of a running request to the sequences that wait to run. The choice is in
 * state WAITING, and its first token is already appended, or it has a text of its own. */
void mr_scheduler_park(struct mr_scheduler *scheduler, struct mr_sequence *sequence);
/* Preempts a running sequence between two plans, or puts one back whose text is done and which gets
 * another. */
void mr_scheduler_preempt(struct mr_scheduler *scheduler, struct mr_sequence *sequence);
void mr_scheduler_put_back(struct mr_scheduler *scheduler, struct mr_sequence *sequence);
/* Call when a sequence in any state has ended: moves the sequence to FINISHED and releases its
 * blocks. */
void mr_scheduler_remove(struct mr_scheduler *scheduler, struct mr_sequence *sequence,
                         uint64_t now_ns);

uint32_t mr_scheduler_running(const struct mr_scheduler *scheduler);
uint32_t mr_scheduler_parked(const struct mr_scheduler *scheduler);
/* Number of running sequences that have prompt tokens to compute and do not wait for a load. */
uint32_t mr_scheduler_prefilling(const struct mr_scheduler *scheduler);
void mr_scheduler_check(const struct mr_scheduler *scheduler);

#endif
