/* intake_state - what the files of intake share: intake.c (the thread, commits), intake_record.c (a
 * record's way to the engine), intake_claims.c (partitions come and go). Nobody else includes it
 * but their tests.
 *
 * Owner: intake thread, but for what is marked atomic or under the mutex. */
#ifndef MR_WORKER_INTAKE_INTAKE_STATE_H
#define MR_WORKER_INTAKE_INTAKE_STATE_H

#include "worker/intake/cancel_memory.h"
#include "worker/intake/intake.h"
#include "worker/intake/partition.h"
#include "worker/intake/recovery.h"
#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket_table.h"

#include <pthread.h>

#define MR_INTAKE_PARKED_MAX 256u /* then nothing more is taken */

struct mr_intake {
    struct mr_intake_options options;
    struct mr_intake_targets targets; /* while draining, the engine: under mutex */
    struct mr_wake wake;
    struct mr_mailbox *mailbox;
    pthread_t thread;
    bool started;
    atomic_bool draining, stopping;
    atomic_uint_least64_t hungry;   /* tenants the engine had no room for */
    uint64_t room;                  /* tenants it has room for, as of the last look */
    atomic_int_least64_t oldest_ms; /* publish's */

    struct mr_kafka_in *in;
    struct mr_kafka_in_topic topics[MR_LIST_MAX]; /* as it borrows them */
    struct mr_kafka_reader *cancels;
    bool cancels_read; /* those that were there at the start */
    uint64_t started_ns;
    struct mr_recovery *recovery; /* NULL: the broker is this process's own and new */
    struct mr_cancel_memory *cancelled;
    struct mr_recovery_look *looks; /* collected for one question */
    struct mr_prompt *prompt;
    struct mr_partitions *lanes;
    struct mr_ticket_table *table; /* tickets the engine has, by id */
    struct mr_ticket *parked;      /* tickets that wait for another, or for room; oldest first */
    uint32_t parked_count, in_flight, in_flight_max;
    uint32_t suspects; /* submitted and run while a worker vanished before */
    bool retry_parked;
    size_t asking_bytes;    /* of records whose tickets wait for Redis */
    uint64_t asking_due_ns; /* none of them has waited too long before this */

    struct mr_ticket *ready, *ready_last; /* exactly-once: to be sealed; oldest first */
    struct mr_transactions_job job;       /* settle's while committing */
    struct mr_kafka_commit commits[MR_PARTITIONS_MAX];
    int64_t since_ms; /* what is not finished now was not answered before this time (unix) */
    bool committing;  /* a commit without an answer */
    uint64_t committed_ns, commit_due_ns, committing_ns;
    uint64_t call_ns;    /* the library's call that settle is in */
    uint32_t call_ticks; /* seconds of this thread's for which it was the same */
    bool failed;
    bool closed_well;
    uint32_t close_timeout_ms;

    pthread_mutex_t mutex;
    pthread_cond_t drained_changed;
    bool drained;                 /* under mutex */
    struct mr_intake_stats stats; /* the thread's own */
    struct mr_intake_stats shown; /* under mutex */
};

/* ---- intake.c ---- */
void mr_intake_fail(struct mr_intake *intake, const struct mr_error *err);
/* A commit at the latest at this time. */
void mr_intake_commit_by(struct mr_intake *intake, uint64_t when_ns);
/* Everything new, into intake->commits; how many. */
size_t mr_intake_gather(struct mr_intake *intake, struct mr_kafka_commit *commits);
/* Commits what is new; timeout_ms 0 does not wait. */
void mr_intake_commit(struct mr_intake *intake, uint32_t timeout_ms);
void mr_intake_handle_mail(struct mr_intake *intake);
/* One round of mail, cancels and records, without the consumer's events and without a commit; true
 * when there is more. */
bool mr_intake_go_on(struct mr_intake *intake);

#endif
