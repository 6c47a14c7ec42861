/* ownership - which partitions this worker owns, and what happens when the consumer group assigns
 * or revokes partitions.
 *
 * A revocation is a state machine that intake's steps drive:
 *
 *     NONE -> DRAINING -> HOLDING -> RELEASING -> COMMITTING -> COMPLETE -> NONE
 *
 *   DRAINING    Only with --on-revoke drain: running requests of the revoked partitions may end,
 *               for at most --revoke-timeout. No record of these partitions is taken or started.
 *   HOLDING     Publish begins the terminal records (result, reply, dead letter) of no further
 *               request of these partitions. Requests that have begun are awaited, for at most
 *               MR_REVOKE_HOLD_NS; after that publish produces none of their records either.
 *   RELEASING   The messages about those records are taken from intake's mailbox.
 *   COMMITTING  Requests that still run are released (counted as given up on purpose, not as
 *               crashed) and the caller commits, for at most MR_REVOKE_COMMIT_NS.
 *   COMPLETE    The partitions are suspended or forgotten. The caller completes the consumer's
 *               rebalance and calls _complete.
 *
 * Partitions that are not revoked are served all the while. When the assignment is lost, the state
 * is COMPLETE at once: the requests are dropped and nothing is committed.
 *
 * Owner:  intake thread. Memory: recovery's scans until recovery takes them. Errors raised in the
 * fault: a partition cannot be created; a commit was made by another application (unless such
 * commits are configured to be ignored). */
#ifndef MR_WORKER_OFFSETS_OWNERSHIP_H
#define MR_WORKER_OFFSETS_OWNERSHIP_H

#include "worker/base/clock.h"
#include "worker/base/fault.h"
#include "worker/offsets/commit_schedule.h"
#include "worker/offsets/recovery.h"
#include "worker/offsets/request_port.h"

#define MR_REVOKE_HOLD_NS   ((uint64_t)2000000000)
#define MR_REVOKE_COMMIT_NS ((uint64_t)5000000000)

enum mr_revocation {
    MR_REVOCATION_NONE,
    MR_REVOCATION_DRAINING,
    MR_REVOCATION_HOLDING,
    MR_REVOCATION_RELEASING,
    MR_REVOCATION_COMMITTING,
    MR_REVOCATION_COMPLETE
};

/* All pointers in this struct are borrowed. */
struct mr_ownership {
    struct mr_partitions *partitions;
    struct mr_request_port requests;
    struct mr_commit_schedule *schedule;
    struct mr_fault *fault;
    struct mr_metrics *metrics;
    struct mr_log *log;
    const struct mr_config *config;
    /* NULL: no recovery is needed, because the embedded broker started empty */
    struct mr_recovery *recovery;
    struct mr_recovery_scan *scans;
    enum mr_revocation revocation;
    enum mr_kafka_revoke how;
    uint32_t revoked;     /* number of partitions being revoked */
    uint64_t deadline_ns; /* when the present state of the revocation times out */
    uint64_t limit_ns;    /* no state may last longer than until then; 0: no such limit */
    uint64_t rebalances;
    bool assigned; /* the group has assigned partitions, and they were not lost since */
};

/* Sets the offset from which each assigned partition is read. Partitions that were suspended and
 * are not assigned again are forgotten. */
void mr_ownership_assign(struct mr_ownership *ownership, struct mr_kafka_claim *claims,
                         size_t count, const struct mr_time *now);
/* Begins the revocation of the claimed partitions; no other revocation may be under way. */
void mr_ownership_revoke(struct mr_ownership *ownership, const struct mr_kafka_claim *claims,
                         size_t count, enum mr_kafka_revoke how, const struct mr_time *now);
/* Begins to give up every partition, in order to leave the group; a revocation under way continues
 * with all partitions. */
void mr_ownership_revoke_all(struct mr_ownership *ownership, const struct mr_time *now);

/* Call before the mailbox is emptied: goes from DRAINING to HOLDING, or from HOLDING to RELEASING,
 * when the wait of that state is over. */
void mr_ownership_hold(struct mr_ownership *ownership, const struct mr_time *now);
/* Call after the mailbox was emptied: goes from RELEASING to COMMITTING. */
void mr_ownership_release(struct mr_ownership *ownership, const struct mr_time *now);
/* Call when the revocation's commit has an outcome or is given up: goes from COMMITTING to
 * COMPLETE. */
void mr_ownership_committed(struct mr_ownership *ownership);
/* Call when the assignment was lost: goes to COMPLETE from any state. */
void mr_ownership_lose(struct mr_ownership *ownership);
/* Call when the consumer's rebalance is completed: goes from COMPLETE to NONE. */
void mr_ownership_complete(struct mr_ownership *ownership);
/* When the present state of the revocation times out; UINT64_MAX: no revocation. */
uint64_t mr_ownership_due_ns(const struct mr_ownership *ownership);

/* Applies the results of recovery's finished searches; records of those partitions may then be
 * taken. */
void mr_ownership_recover(struct mr_ownership *ownership, uint64_t now_ns);

#endif
