/* schedule - the sequences that run, the parked ones, and the planning round in progress.
 *
 * A sequence is RUNNING and has a block table, or it is parked: PREEMPTED, or a further choice of a
 * request that waits for its turn. This module adds rows to the plan, computes chunk sizes and
 * preempts; the order of the steps is the scheduler's (scheduler.h), which sequences join is
 * admission's (admit.h), and which tenant makes room is rebalancing's (rebalance.h). Only these
 * modules include this header.
 *
 * Owner: engine thread. Memory: arrays made by mr_scheduler_create. Errors: none. */
#ifndef MR_BATCHING_SCHEDULER_SCHEDULE_H
#define MR_BATCHING_SCHEDULER_SCHEDULE_H

#include "batching/base/admission.h"
#include "batching/scheduler/plan.h"

#define MR_TRIES_MAX        6u /* candidates of one round that were matched and not admitted */
#define MR_CHUNK_TOKENS_MIN 16u

/* What one planning round still has to give. */
struct mr_round {
    uint64_t now_ns;
    uint32_t rows_left, chunk_left;
    uint32_t partial_count; /* sequences that stay unfinished prefills after this step */
    uint32_t tries_left;
    uint32_t tier_waits; /* candidates passed over that wait for an answer or a block of the tier */
    bool timed;          /* decode rows are planned and step_target_ms is set */
    bool prefill_owed;   /* the next prefill gets a quantum even beyond the target */
    bool prefill_wanted, prefill_given;
    bool blocks_short;        /* nothing is admitted in this round */
    uint32_t reserved_tenant; /* the next place belongs to this tenant; MR_TENANT_NONE: to none */
    struct mr_prefill_budget starts;
};

struct mr_schedule {
    struct mr_scheduler_options options;
    struct mr_sequence **running; /* [sequences_max] */
    uint32_t running_count;
    struct mr_sequence **parked; /* [parked_max] */
    uint32_t parked_count, parked_max;
    uint32_t job_count, jobs_max; /* requests started and not ended */
    double output_share;          /* expected output / max_tokens, learnt from ended sequences */
    struct mr_round round;
    struct mr_plan plan;
    /* scratch of admission's peak */
    struct mr_sequence **order;    /* [sequences_max + 1] most tokens left first */
    struct mr_peak_entry *entries; /* [sequences_max + 1] */
    uint32_t *stamps;              /* [block_count] last peak that counted the block */
    uint32_t stamp;
};

/* Tokens the sequence may compute in this round: all it lacks, an aligned chunk, or 0.
 * share_tokens: its part of the round's chunk tokens. */
uint32_t mr_schedule_chunk(struct mr_schedule *schedule, const struct mr_sequence *sequence,
                           uint32_t share_tokens);
void mr_schedule_add_row(struct mr_schedule *schedule, struct mr_plan_row row);
/* Lists the sequence in the plan as exhausted. */
void mr_schedule_exhaust(struct mr_schedule *schedule, struct mr_sequence *sequence);
/* The same, if the sequence has more tokens than the whole pool holds; then true. */
bool mr_schedule_exhaust_oversize(struct mr_schedule *schedule, struct mr_sequence *sequence);
/* The sequence must be WAITING or PREEMPTED. */
void mr_schedule_park(struct mr_schedule *schedule, struct mr_sequence *sequence);
/* A running sequence releases its blocks and is parked; its tokens are kept. */
void mr_schedule_preempt(struct mr_schedule *schedule, struct mr_sequence *victim);
/* Takes the sequence out of the running or parked ones, if it is there. Blocks of a running one are
 * published, stored in the tier where it lacks them, and released. */
void mr_schedule_remove(struct mr_schedule *schedule, struct mr_sequence *sequence,
                        uint64_t now_ns);

#endif
