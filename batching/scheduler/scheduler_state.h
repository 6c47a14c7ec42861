/* scheduler_state - what scheduler.c (the round), scheduler_admit.c (who is let in) and
 * scheduler_share.c (places between tenants) share.
 * Nobody else includes it. */
#ifndef MR_BATCHING_SCHEDULER_SCHEDULER_STATE_H
#define MR_BATCHING_SCHEDULER_SCHEDULER_STATE_H

#include "batching/base/admission.h"
#include "batching/scheduler/scheduler.h"

/* Candidates looked at in one round, and of those the ones matched against the cache in vain. */
#define MR_SCAN_MAX  32u
#define MR_TRIES_MAX 6u

/* One planning round: what is left to give. */
struct mr_round {
    uint64_t now_ns;
    uint32_t rows_left, chunk_left;
    uint32_t partial_count; /* sequences that stay unfinished prefills after this step */
    uint32_t tries_left;
    uint32_t asking; /* candidates passed over that wait for something from the tier */
    bool timed;      /* decode rows are there and a target is set */
    bool starving;   /* prefill is owed a quantum */
    bool wanted, gave;
    bool preempted;
    bool favoured; /* a place was made for a request of favoured_tenant, which waits */
    uint32_t favoured_tenant;
    struct mr_prefill_budget starts;
};

/* A candidate set aside in this round, to go back to its place. */
struct mr_aside {
    struct mr_sequence *sequence;
    bool misfit;
};

struct mr_scheduler {
    struct mr_scheduler_options options;
    struct mr_sequence **running; /* [sequences_max] */
    uint32_t running_count;
    struct mr_sequence **parked; /* [parked_max] preempted, or further choices */
    uint32_t parked_count, parked_max;
    uint32_t job_count, jobs_max; /* requests started and not ended */
    struct mr_aside *asides;      /* [MR_SCAN_MAX] */
    uint32_t aside_count;
    struct mr_sequence **order;    /* [sequences_max + 1] for the peak, most left first */
    struct mr_peak_entry *entries; /* [sequences_max + 1] */
    uint32_t *stamps;              /* [block_count] */
    uint32_t stamp;
    double output_share; /* expected output / max_tokens, learnt */
    uint32_t starved_steps;
    uint64_t round_count;
    struct mr_round round;
    struct mr_plan plan;
};

/* Tokens this sequence may compute in this round: all it lacks, an aligned chunk, or 0. most: its
 * share of the round's chunk tokens. */
uint32_t mr_scheduler_chunk(struct mr_scheduler *scheduler, const struct mr_sequence *sequence,
                            uint32_t most);
void mr_scheduler_add_row(struct mr_scheduler *scheduler, struct mr_plan_row row);
/* It has more tokens than the pool holds: noted in the plan, true. */
bool mr_scheduler_exhausts(struct mr_scheduler *scheduler, struct mr_sequence *sequence);
/* One of the running ones gives its blocks back and waits; its tokens are kept. */
void mr_scheduler_preempt(struct mr_scheduler *scheduler, struct mr_sequence *victim);
/* Before step 1: makes room for a tenant that is kept out by others
 * (batching/scheduler/scheduler_share.c). The running ones are sorted. */
void mr_scheduler_even_out(struct mr_scheduler *scheduler);
/* Step 3 of the plan. */
void mr_scheduler_admit(struct mr_scheduler *scheduler);

#endif
