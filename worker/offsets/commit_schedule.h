/* commit_schedule - when intake commits offsets next, which offsets, and the outcome of the last
 * commit. The caller sends the commit to the broker: worker/intake/intake.c with at-least-once
 * delivery, worker/offsets/exactly_once.h with transactions.
 *
 * One commit is in flight at a time. A commit without an outcome for MR_COMMIT_OUTCOME_NS is given
 * up and repeated; a failed commit is repeated after a pause.
 *
 * Owner:  intake thread. Memory: the batch. Errors: none; failures go to log and metrics. */
#ifndef MR_WORKER_OFFSETS_COMMIT_SCHEDULE_H
#define MR_WORKER_OFFSETS_COMMIT_SCHEDULE_H

#include "worker/base/fault.h"
#include "worker/base/log.h"
#include "worker/metrics/metrics.h"
#include "worker/offsets/partition.h"

#define MR_COMMIT_OUTCOME_NS ((uint64_t)30000000000)

struct mr_commit_schedule {
    struct mr_partitions *partitions;
    const struct mr_fault *fault; /* once this fault is raised, failed commits are not repeated */
    struct mr_log *log;
    struct mr_metrics *metrics;
    uint64_t interval_ns;
    uint64_t due_ns;     /* when the next commit is due; UINT64_MAX: nothing to commit */
    uint64_t sent_ns;    /* when the last commit was sent */
    bool pending;        /* the last commit was sent and has no outcome yet */
    bool in_transaction; /* the last commit is part of a transaction (worker/offsets/exactly_once.h)
                          */
    enum mr_status outcome;
    int64_t since_ms; /* unix ms: lower bound on the timestamps of results not listed in a commit */
    uint64_t commits, failures;
    struct mr_kafka_commit *batch; /* [batch_max], allocated by _gather; the owner frees it */
    size_t batch_max;
};

/* Makes the next commit due at when_ns at the latest. */
void mr_commit_schedule_by(struct mr_commit_schedule *schedule, uint64_t when_ns);
/* Makes the next commit due one interval after the last commit. */
void mr_commit_schedule_soon(struct mr_commit_schedule *schedule);
bool mr_commit_schedule_is_due(const struct mr_commit_schedule *schedule, uint64_t now_ns);
/* Fills the batch with all offsets not committed yet; returns the number of partitions in the
 * batch. Afterwards no commit is due. */
size_t mr_commit_schedule_gather(struct mr_commit_schedule *schedule);
/* Call when the batch was sent to the broker, or to the transactions thread (in_transaction). */
void mr_commit_schedule_sent(struct mr_commit_schedule *schedule, bool in_transaction,
                             uint64_t now_ns);
/* Takes a COMMITTED event (worker/kafka/kafka_consumer_port.h): the outcome of a commit for each of
 * its partitions. Ignored unless its number is that of the commit in flight: it was given up, and a
 * later one repeats it. */
void mr_commit_schedule_answered(struct mr_commit_schedule *schedule,
                                 const struct mr_kafka_event *event, uint64_t now_ns);
/* Takes the outcome of the commit in flight for all its partitions. Ignored when no commit is in
 * flight, because the commit was given up. */
void mr_commit_schedule_finished(struct mr_commit_schedule *schedule, enum mr_status status,
                                 const char *reason, uint64_t now_ns);
/* Gives up a commit in flight that has had no outcome for MR_COMMIT_OUTCOME_NS; not a transaction,
 * whose outcome always comes. */
void mr_commit_schedule_expire(struct mr_commit_schedule *schedule, uint64_t now_ns);

#endif
