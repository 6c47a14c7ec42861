/* ownership - which partitions this worker owns: what happens when the group assigns or revokes
 * some.
 *
 * A revocation is a state machine that intake's steps drive:
 *
 *     NONE -> DRAINING -> HOLDING -> RELEASING -> COMMITTING -> COMPLETE -> NONE
 *
 *   DRAINING    --on-revoke drain only: requests that run in these partitions may end, for at most
 *               --revoke-timeout. Nothing new is taken or started in them.
 *   HOLDING     Publish begins no further terminal record (the write gates are closed). Those in
 *               flight are awaited, for at most MR_REVOKE_HOLD_NS.
 *   RELEASING   For the messages about them: one more look into the mailbox.
 *   COMMITTING  What still runs is released (it counts as handed back, not as crashed) and the
 *               caller commits, for at most MR_REVOKE_COMMIT_NS.
 *   COMPLETE    The partitions are suspended or forgotten. The caller completes the consumer's
 *               rebalance and calls _complete.
 *
 * Partitions that stay are served all the while. A lost assignment is COMPLETE at once: its
 * requests are dropped and nothing is committed.
 *
 * Owner:  intake thread. Memory: scans until recovery takes them. Errors: a partition that cannot
 * be created, and commits of another application unless these are to be ignored, are raised in the
 * fault. */
#ifndef MR_WORKER_INTAKE_OWNERSHIP_H
#define MR_WORKER_INTAKE_OWNERSHIP_H

#include "worker/intake/admission.h"
#include "worker/intake/recovery.h"

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

/* All pointers are borrowed. */
struct mr_ownership {
    struct mr_partitions *partitions;
    struct mr_admission *admission;
    struct mr_commit_schedule *schedule;
    struct mr_fault *fault;
    struct mr_metrics *metrics;
    struct mr_log *log;
    const struct mr_config *config;
    struct mr_recovery *recovery; /* NULL: nothing to recover, the broker is new and our own */
    struct mr_recovery_scan *scans;
    enum mr_revocation revocation;
    enum mr_kafka_revoke how;
    uint32_t revoked;     /* partitions of the event */
    uint64_t deadline_ns; /* of the present state */
    uint64_t rebalances;
    bool assigned; /* a first assignment has come */
};

/* Sets where each claimed partition is read from. Partitions that were suspended and are not among
 * the claims are forgotten. */
void mr_ownership_assign(struct mr_ownership *ownership, struct mr_kafka_claim *claims,
                         size_t count, const struct mr_time *now);
/* Begins a revocation; there must be none. */
void mr_ownership_revoke(struct mr_ownership *ownership, const struct mr_kafka_claim *claims,
                         size_t count, enum mr_kafka_revoke how, const struct mr_time *now);
/* Begins to give up every partition, to leave the group; joins a revocation that is under way. */
void mr_ownership_revoke_all(struct mr_ownership *ownership, const struct mr_time *now);

/* Before the mailbox is emptied: DRAINING to HOLDING, HOLDING to RELEASING. */
void mr_ownership_hold(struct mr_ownership *ownership, const struct mr_time *now);
/* After that: RELEASING to COMMITTING. */
void mr_ownership_release(struct mr_ownership *ownership, const struct mr_time *now);
/* The commit has an outcome, or is given up: COMMITTING to COMPLETE. */
void mr_ownership_committed(struct mr_ownership *ownership);
/* The assignment is lost: to COMPLETE from any state. */
void mr_ownership_lose(struct mr_ownership *ownership);
/* COMPLETE to NONE. */
void mr_ownership_complete(struct mr_ownership *ownership);
/* When the state's time is over; UINT64_MAX: no revocation. */
uint64_t mr_ownership_due_ns(const struct mr_ownership *ownership);

/* Applies the scans that recovery has done: their partitions may be taken from. */
void mr_ownership_recover(struct mr_ownership *ownership, uint64_t now_ns);

#endif
