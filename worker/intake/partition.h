/* lane - what this worker knows of one partition it has, or had a moment ago: its ledger, and what
 * the broker has acknowledged of it.
 *
 * A worker that leaves a rebalance with the same partition goes on as if nothing had happened: with
 * the eager protocol every join takes all partitions away for a moment. Between the two events the
 * lane is in LIMBO: its requests run on, and it is resumed if the committed offset and metadata are
 * still exactly those this worker committed last, which proves that nobody else worked on it.
 * Otherwise, and when a partition is lost or gone for good, its epoch rises: what is still running
 * of it is dropped, and no late result touches the ledger.
 *
 *     NONE -> OWNED <-> LIMBO;  OWNED, LIMBO -> NONE
 *
 * The write gate (worker/ticket/write_gate.h) is open while the partition is owned and not about
 * to be given away.
 *
 * Owner:  intake thread. Pure: no clock, no I/O.
 * Memory: one ledger for each partition seen, at most MR_PARTITIONS_MAX. Errors: MR_FULL, MR_NOMEM.
 */
#ifndef MR_WORKER_INTAKE_PARTITION_H
#define MR_WORKER_INTAKE_PARTITION_H

#include "worker/intake/ledger_metadata.h"
#include "worker/kafka/kafka_in.h"
#include "worker/ticket/write_gate.h"

#define MR_PARTITIONS_MAX ((size_t)1024)
/* A commit's time (worker/intake/ledger_metadata.h) is at most this old while somebody has the
 * partition: the next owner has no more than that of the results to look through. */
#define MR_PARTITION_REFRESH_MS 10000

enum mr_partition_state { MR_PARTITION_NONE, MR_PARTITION_OWNED, MR_PARTITION_LIMBO };

struct mr_partition {
    size_t topic_index;
    int32_t partition;
    enum mr_partition_state state;
    uint64_t epoch;     /* of the present ownership */
    int32_t generation; /* of the group, in which it came; -1: no group */
    struct mr_offset_ledger *ledger;
    uint64_t sent_version, acked_version; /* of the ledger, in the last commits */
    int64_t sent_offset, acked_offset;    /* -1: none */
    int64_t sent_since_ms, acked_since_ms;
    bool sent;    /* a commit without an answer */
    bool looking; /* nothing is taken or committed: what the last owner wrote is being looked for */
    bool leaving; /* nothing is taken: it is about to go */
    struct mr_write_gate gate;
    int64_t blocked_base; /* the ledger was full at this base: nothing is taken until it moves; -2:
                             it was not */
    char sent_metadata[MR_LEDGER_METADATA_TEXT_MAX];
    char acked_metadata[MR_LEDGER_METADATA_TEXT_MAX];
};

struct mr_partitions;

enum mr_status mr_partitions_create(struct mr_partitions **out, struct mr_error *err);
void mr_partitions_destroy(struct mr_partitions *lanes);
/* NULL when the partition was never seen. */
struct mr_partition *mr_partitions_find(struct mr_partitions *lanes, size_t topic_index,
                                        int32_t partition);
size_t mr_partitions_count(const struct mr_partitions *lanes);
struct mr_partition *mr_partitions_at(struct mr_partitions *lanes, size_t index);

/* The partition is this worker's now. claim->start is set to where to read on. *resumed: it was in
 * LIMBO and nothing has changed. MR_MALFORMED: taken, but the committed metadata is another
 * application's, so finished work may be repeated. */
enum mr_status mr_partitions_take(struct mr_partitions *lanes, struct mr_kafka_claim *claim,
                                  struct mr_partition **lane, bool *resumed, struct mr_error *err);
/* OWNED becomes LIMBO. */
void mr_partition_suspend(struct mr_partition *lane);
/* Becomes NONE, with a new epoch. */
void mr_partition_forget(struct mr_partition *lane);

/* Closes the gate for what is not being written yet; the lane is still OWNED. */
void mr_partition_hold(struct mr_partition *lane);
/* A lane just forgotten is OWNED again: its log was replaced and begins at offset. */
void mr_partition_restart(struct mr_partition *lane, int64_t offset);
/* True when a commit would say something new; then *commit is it. The texts are the lane's.
 * since_ms: see worker/intake/ledger_metadata.h. */
bool mr_partition_commit(struct mr_partition *lane, int64_t since_ms,
                         struct mr_kafka_commit *commit);
/* The commit made last was acknowledged, or refused (then it is due again). */
void mr_partition_committed(struct mr_partition *lane, bool ok);
void mr_partitions_check(const struct mr_partitions *lanes);

#endif
