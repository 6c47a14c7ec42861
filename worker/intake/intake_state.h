/* intake_state - the parts of intake put together. For intake.c (the step), intake_open.c
 * (creating, opening and ending) and tests alone.
 *
 * Owner: the step, but for what is marked atomic or under the mutex. */
#ifndef MR_WORKER_INTAKE_INTAKE_STATE_H
#define MR_WORKER_INTAKE_INTAKE_STATE_H

#include "worker/base/thread.h"
#include "worker/intake/exactly_once.h"
#include "worker/intake/intake.h"
#include "worker/intake/ownership.h"

#define MR_CANCEL_KEEP_NS ((uint64_t)600000000000) /* cancels are remembered this long */

/* Leaving the group: every partition is given up like a revoked one. */
enum mr_intake_leaving { MR_INTAKE_STAYS, MR_INTAKE_LEAVES, MR_INTAKE_HAS_LEFT };

struct mr_intake {
    struct mr_intake_options options;
    struct mr_wake wake;
    struct mr_mailbox *mailbox;
    struct mr_thread *thread; /* NULL: a test calls the step */
    bool opened;

    struct mr_kafka_consumer_port consumer;
    struct mr_kafka_consumer_topic topics[MR_LIST_MAX]; /* borrowed by the consumer */
    struct mr_kafka_reader_port cancels;                /* self NULL: none */
    bool cancels_read; /* records of the cancel topic from before the start */
    uint64_t opened_ns;

    struct mr_fault fault;
    struct mr_partitions *partitions;
    struct mr_commit_schedule schedule;
    struct mr_flight flight;
    struct mr_lookups lookups;
    struct mr_cancel_memory *cancelled;
    struct mr_prompt *prompt;
    struct mr_admission admission;
    struct mr_recovery *recovery; /* NULL: none */
    struct mr_ownership ownership;
    struct mr_exactly_once exactly_once;

    bool revocation_sent; /* the commit of the revocation under way */
    bool rebalancing;     /* the consumer waits for complete_rebalance */
    enum mr_intake_leaving leaving;
    uint64_t tick_ns;

    atomic_bool draining, leave_requested;
    atomic_int_least64_t oldest_ms; /* publish's */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool drained, left;           /* under mutex */
    struct mr_intake_stats shown; /* under mutex */
};

#endif
