/* ownership - handles the assignments and revocations of partitions by the consumer group.
 *
 * A revocation is a state machine that intake's steps drive:
 *
 *     NONE -> DRAINING -> HOLDING -> RELEASING -> COMMITTING -> COMPLETE -> NONE
 *
 *   DRAINING    Only with --on-revoke drain. Waits until the running requests of the revoked
 *               partitions have ended, for at most --revoke-timeout. No record of these
 *               partitions is taken and no request of them started.
 *   HOLDING     Publish starts no further request's terminal records (result, reply, dead
 *               letter). Waits until the records already produced are acknowledged, for at
 *               most MR_REVOKE_HOLD_NS; after that publish produces no terminal record at all.
 *   RELEASING   The messages about those records are taken from intake's mailbox.
 *   COMMITTING  Requests that still run are released (they count no crash), and the caller
 *               commits. Waits for the outcome, for at most MR_REVOKE_COMMIT_NS.
 *   COMPLETE    The partitions are suspended or forgotten. The caller completes the
 *               consumer's rebalance and calls _complete.
 *
 * Partitions that are not revoked are served in every state. When the assignment is lost, the state
 * is COMPLETE at once: the requests are dropped and nothing is committed.
 *
 * Owner:  intake thread. Memory: recovery's scans until recovery takes them. Errors, raised in the
 *         fault: a partition cannot be created; another application has made a commit (not with
 *         --foreign-commits ignore). */
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

/* Pointers are borrowed, except `scans`. */
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
    uint64_t deadline_ns; /* when the current state of the revocation times out */
    uint64_t limit_ns;    /* end of every state at the latest; 0: no such limit */
    uint64_t rebalances;
    bool assigned; /* the group has assigned partitions, and this worker has not lost them since */
};

/* Sets the offset from which each assigned partition is read. Partitions that were suspended and
 * are not assigned again are forgotten. */
void mr_ownership_assign(struct mr_ownership *ownership, struct mr_kafka_claim *claims,
                         size_t count, const struct mr_time *now);
/* Begins the revocation of the claimed partitions; no other revocation may be under way. */
void mr_ownership_revoke(struct mr_ownership *ownership, const struct mr_kafka_claim *claims,
                         size_t count, enum mr_kafka_revoke how, const struct mr_time *now);
/* Begins the revocation of every partition, in order to leave the group. A revocation under way is
 * extended to all partitions. */
void mr_ownership_revoke_all(struct mr_ownership *ownership, const struct mr_time *now);

/* Call before the mailbox is emptied: changes DRAINING to HOLDING, or HOLDING to RELEASING, when
 * the wait of that state is over. */
void mr_ownership_hold(struct mr_ownership *ownership, const struct mr_time *now);
/* Call after the mailbox was emptied: changes RELEASING to COMMITTING. */
void mr_ownership_release(struct mr_ownership *ownership, const struct mr_time *now);
/* Call when the revocation's commit has an outcome or has timed out: changes COMMITTING to
 * COMPLETE. */
void mr_ownership_committed(struct mr_ownership *ownership);
/* Call when the assignment was lost: changes any state to COMPLETE. */
void mr_ownership_lose(struct mr_ownership *ownership);
/* Call when the consumer's rebalance is completed: changes COMPLETE to NONE. */
void mr_ownership_complete(struct mr_ownership *ownership);
/* When the current state of the revocation times out; UINT64_MAX: no revocation is under way. */
uint64_t mr_ownership_due_ns(const struct mr_ownership *ownership);

/* Applies the scans that recovery has finished. Records of their partitions may then be taken. */
void mr_ownership_recover(struct mr_ownership *ownership, uint64_t now_ns);

#endif
