/* partition - what this worker knows of one partition that it owns or owned: its ledger, and which
 * commit of it the broker has acknowledged last.
 *
 *     NONE -> OWNED <-> SUSPENDED;  OWNED, SUSPENDED -> NONE
 *
 * With the eager protocol every rebalance revokes all partitions for a moment. Between the two
 * events a partition is SUSPENDED: its requests run on. It is resumed if the committed offset and
 * metadata are still those that this worker committed last, which proves that no other worker
 * owned it. Otherwise, and when a partition is lost or goes to another worker, its epoch rises:
 * requests taken in an older epoch are dropped, and their late results do not touch the ledger.
 *
 * The write gate (worker/ticket/write_gate.h) is open while the partition is OWNED, until
 * mr_partition_hold.
 *
 * Owner:  intake thread. Pure: no clock, no I/O.
 * Memory: one ledger for each partition seen, at most MR_PARTITIONS_MAX. Errors: MR_FULL, MR_NOMEM.
 */
#ifndef MR_WORKER_INTAKE_PARTITION_H
#define MR_WORKER_INTAKE_PARTITION_H

#include "worker/intake/ledger_metadata.h"
#include "worker/kafka/kafka_consumer_port.h"
#include "worker/ticket/write_gate.h"

#define MR_PARTITIONS_MAX ((size_t)1024)
/* A commit's time (worker/intake/ledger_metadata.h) is at most this old while a worker owns the
 * partition: the next owner's recovery reads no more than that of the results. */
#define MR_PARTITION_REFRESH_MS 10000

enum mr_partition_state { MR_PARTITION_NONE, MR_PARTITION_OWNED, MR_PARTITION_SUSPENDED };

struct mr_partition {
    size_t topic_index;
    int32_t number;
    enum mr_partition_state state;
    uint64_t epoch;     /* of the present ownership */
    int32_t generation; /* of the group, when it was assigned; -1: no group */
    struct mr_offset_ledger *ledger;
    uint64_t sent_version, acked_version; /* of the ledger, in the last commits */
    int64_t sent_offset, acked_offset;    /* -1: none */
    int64_t sent_since_ms, acked_since_ms;
    bool sent;       /* a commit has no outcome yet */
    bool recovering; /* until recovery has answered nothing is taken or committed */
    bool revoking;   /* it is being revoked: nothing is taken or started */
    struct mr_write_gate gate;
    int64_t blocked_base; /* while the ledger's base is this nothing is taken: it was full then; -2:
                             it was not */
    char sent_metadata[MR_LEDGER_METADATA_TEXT_MAX];
    char acked_metadata[MR_LEDGER_METADATA_TEXT_MAX];
};

struct mr_partitions;

enum mr_status mr_partitions_create(struct mr_partitions **out, struct mr_error *err);
void mr_partitions_destroy(struct mr_partitions *partitions);
/* NULL when the partition was never seen. */
struct mr_partition *mr_partitions_find(struct mr_partitions *partitions, size_t topic_index,
                                        int32_t number);
size_t mr_partitions_count(const struct mr_partitions *partitions);
struct mr_partition *mr_partitions_at(struct mr_partitions *partitions, size_t index);

/* The partition is assigned to this worker. claim->start is set to where to read from. *resumed: it
 * was SUSPENDED and nothing has changed. MR_MALFORMED: it is OWNED, but the committed metadata is
 * another application's, so finished requests may be run again. */
enum mr_status mr_partitions_take(struct mr_partitions *partitions, struct mr_kafka_claim *claim,
                                  struct mr_partition **partition, bool *resumed,
                                  struct mr_error *err);
/* OWNED becomes SUSPENDED. */
void mr_partition_suspend(struct mr_partition *partition);
/* Becomes NONE, with a new epoch. */
void mr_partition_forget(struct mr_partition *partition);

/* Closes the gate for terminal records that are not being written yet; the state stays OWNED. */
void mr_partition_hold(struct mr_partition *partition);
/* NONE becomes OWNED again: the partition's log was replaced and begins at offset. */
void mr_partition_restart(struct mr_partition *partition, int64_t offset);
/* True when there is something new to commit; then *commit is it. Its metadata is borrowed from the
 * partition. since_ms: see worker/intake/ledger_metadata.h. */
bool mr_partition_commit(struct mr_partition *partition, int64_t since_ms,
                         struct mr_kafka_commit *commit);
/* The outcome of the last commit. Not ok: the next _commit contains it again. */
void mr_partition_committed(struct mr_partition *partition, bool ok);
void mr_partitions_check(const struct mr_partitions *partitions);

#endif
