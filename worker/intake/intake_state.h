/* intake_state - the struct with all modules of intake. Only intake.c (the step), intake_open.c
 * (creating, opening and ending) and tests include it.
 *
 * Owner: the thread that calls the step; other threads use the atomic fields and those under the
 *        mutex. */
#ifndef MR_WORKER_INTAKE_INTAKE_STATE_H
#define MR_WORKER_INTAKE_INTAKE_STATE_H

#include "worker/base/thread.h"
#include "worker/intake/cancels.h"
#include "worker/intake/intake.h"
#include "worker/offsets/exactly_once.h"
#include "worker/offsets/ownership.h"

/* cancelled request ids are remembered this long */
#define MR_CANCEL_KEEP_NS ((uint64_t)600000000000)

/* Whether intake is leaving the consumer group, which is a revocation of every partition. */
enum mr_intake_leaving { MR_INTAKE_STAYS, MR_INTAKE_LEAVES, MR_INTAKE_HAS_LEFT };

struct mr_intake {
    struct mr_intake_options options;
    struct mr_wake wake;
    struct mr_mailbox *mailbox;
    struct mr_thread *thread; /* NULL: a test calls the step */
    bool opened;

    struct mr_kafka_consumer_port consumer;
    struct mr_kafka_consumer_topic topics[MR_LIST_MAX]; /* borrowed by the consumer */
    /* reader of the cancel topic; self NULL: no cancel topic */
    struct mr_kafka_reader_port cancels;
    bool cancels_read; /* the cancel records written before the start have been read */
    uint64_t opened_ns;

    struct mr_fault fault;
    struct mr_partitions *partitions;
    struct mr_commit_schedule schedule;
    struct mr_flight flight;
    struct mr_lookups lookups;
    struct mr_starts starts;
    struct mr_partition_requests requests;
    struct mr_id_memory *cancelled;
    struct mr_sha256 *hash;
    struct mr_prompt *prompt;
    struct mr_admission admission;
    struct mr_recovery *recovery; /* NULL: intake does not join a group */
    struct mr_ownership ownership;
    struct mr_exactly_once exactly_once;

    bool revocation_sent; /* the commit that ends the current revocation was sent */
    bool rebalancing;     /* the consumer waits for the call of complete_rebalance */
    enum mr_intake_leaving leaving;
    uint32_t gone_lines; /* lines in the handover file when leaving began */
    uint64_t tick_ns;

    atomic_bool draining, leave_requested;
    uint64_t leave_by_ns; /* when to stop waiting for the last commit; set before leave_requested */
    /* written by publish: unix ms of its oldest unacknowledged result */
    atomic_int_least64_t oldest_ms;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool drained, left;           /* under mutex: _drain has taken effect; the group was left */
    struct mr_intake_stats shown; /* under mutex: a copy of the statistics for other threads */
    struct mr_oldest oldest;      /* under mutex: at the last tick */
};

#endif
