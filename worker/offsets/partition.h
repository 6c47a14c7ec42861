/* partition - the state of one partition that this worker owns or has owned: its offset ledger and
 * the last commit that the broker has acknowledged.
 *
 *     NONE -> OWNED <-> SUSPENDED;  OWNED, SUSPENDED -> NONE
 *
 * With the eager protocol every rebalance revokes all partitions and then assigns some again.
 * Between these two events a partition is SUSPENDED and its requests continue to run. The partition
 * is resumed if the committed offset and metadata are still those that this worker committed last,
 * which proves that no other worker has owned the partition. In every other case, and when the
 * partition is lost or goes to another worker, its epoch (a counter of ownerships) is raised:
 * requests taken in an older epoch are dropped, and their late results do not change the ledger.
 *
 * The write gate (worker/ticket/write_gate.h) is open while the partition is OWNED, until
 * mr_partition_hold is called.
 *
 * Owner:  intake thread. Pure: no clock, no I/O.
 * Memory: about 50 KiB a partition, until the partition is in state NONE and no ticket refers to
 * it. Errors: MR_NOMEM. */
#ifndef MR_WORKER_OFFSETS_PARTITION_H
#define MR_WORKER_OFFSETS_PARTITION_H

#include "worker/config/config.h"
#include "worker/kafka/kafka_consumer_port.h"
#include "worker/offsets/handover.h"
#include "worker/offsets/ledger_metadata.h"
#include "worker/ticket/ticket.h"
#include "worker/ticket/write_gate.h"

/* Age at which the time in a partition's last commit (worker/offsets/ledger_metadata.h) is renewed.
 * The next owner's recovery reads the results written since that time. */
#define MR_PARTITION_REFRESH_MS 10000

enum mr_partition_state { MR_PARTITION_NONE, MR_PARTITION_OWNED, MR_PARTITION_SUSPENDED };

/* The results that recovery found for a partition without a commit. */
struct mr_findings {
    int64_t first; /* the lowest offset that has a result */
    /* unix ms: latest possible timestamp of the record at `first`, and of any record that has a
     * result, if the results belong to the partition's current log */
    int64_t first_ms, newest_ms;
};

struct mr_partition {
    size_t topic_index;
    int32_t number;
    enum mr_partition_state state;
    uint64_t epoch;     /* number of the current ownership */
    int32_t generation; /* consumer-group generation of the assignment; -1: no group */
    uint32_t tickets;   /* number of tickets that refer to this partition */
    struct mr_offset_ledger *ledger;
    uint32_t instance; /* of this worker (worker/offsets/handover.h), written into each commit */
    /* versions of the ledger in the last commit sent and acknowledged */
    uint64_t sent_version, acked_version;
    /* offsets of the last commit sent and acknowledged; -1: none */
    int64_t sent_offset, acked_offset;
    int64_t sent_since_ms, acked_since_ms;
    bool sent;       /* a commit was sent and has no outcome yet */
    bool recovering; /* recovery is still reading: no record is taken and nothing is committed */
    bool revoking;   /* the partition is being revoked: no record is taken and no request started */
    struct mr_write_gate gate;
    /* base of the ledger when the ledger became full; no record is taken until base moves; -2: not
     * full */
    int64_t blocked_base;
    /* Recovery has proved the records in [passed_from, passed_to) finished; both 0: none. */
    int64_t passed_from, passed_to;
    struct mr_findings findings; /* all 0: none, or the partition has a commit */
    int64_t skipped_to; /* one past the last record skipped because the log was replaced; 0: none */
    char sent_metadata[MR_LEDGER_METADATA_TEXT_MAX];
    char acked_metadata[MR_LEDGER_METADATA_TEXT_MAX];
};

struct mr_partitions;

/* Whether the ticket's partition was neither lost nor assigned again since its record was taken. */
bool mr_partition_is_current(const struct mr_ticket *ticket);

enum mr_status mr_partitions_create(struct mr_partitions **out, struct mr_error *err);
/* Sets the source of the instance for commits and of the requests released by other workers.
 * handover: borrowed; NULL: no instance, no such requests. */
void mr_partitions_set_handover(struct mr_partitions *partitions,
                                const struct mr_handover *handover);
void mr_partitions_destroy(struct mr_partitions *partitions);
/* NULL: this worker has never owned the partition, or has freed its state. */
struct mr_partition *mr_partitions_find(struct mr_partitions *partitions, size_t topic_index,
                                        int32_t number);
size_t mr_partitions_count(const struct mr_partitions *partitions);
struct mr_partition *mr_partitions_at(struct mr_partitions *partitions, size_t index);
/* Frees the partitions in state NONE to which no ticket and no commit in flight refers. The indexes
 * of the other partitions change. */
void mr_partitions_release(struct mr_partitions *partitions);

/* Call when the partition is assigned to this worker. Sets claim->start to the offset to read from.
 * If the broker reports an older commit than the last one that it acknowledged to this worker,
 * claim->committed and the metadata are set to that one. *resumed: the partition was SUSPENDED and
 * no other worker can have owned it since. MR_MALFORMED: the partition is OWNED, but the committed
 * metadata is another application's, so finished requests may run again. */
enum mr_status mr_partitions_take(struct mr_partitions *partitions, struct mr_kafka_claim *claim,
                                  struct mr_partition **partition, bool *resumed,
                                  struct mr_error *err);
/* The state changes from OWNED to SUSPENDED. */
void mr_partition_suspend(struct mr_partition *partition);
/* The state becomes NONE, and the epoch is raised. */
void mr_partition_forget(struct mr_partition *partition);

/* From now on publish starts no further request's terminal records for this partition. The state
 * stays OWNED. */
void mr_partition_hold(struct mr_partition *partition);
/* From now on publish produces no terminal record for this partition. The state stays OWNED. */
void mr_partition_shut(struct mr_partition *partition);
/* Recovery has proved that all requests from the ledger's base to below `offset` are finished: the
 * ledger now begins at `offset` and keeps the commit's entries for later records. No record may
 * have been received yet. */
void mr_partition_pass(struct mr_partition *partition, int64_t offset);
/* Call before _receive. True: the record is newer than the result that recovery found for its
 * offset, so the topic was deleted and created again, and the results belong to the old log. The
 * findings are then discarded. */
bool mr_partition_discard_findings(struct mr_partition *partition, int64_t offset,
                                   int64_t timestamp_ms);
/* Adds a record to the ledger (mr_offset_ledger_receive). A record below the committed offset shows
 * that the partition's log was replaced. skip: such a record is treated as finished; otherwise the
 * ledger and a new epoch begin at this record. *behind: for the first such record, its distance
 * below the committed offset; otherwise 0. */
enum mr_ledger_verdict mr_partition_receive(struct mr_partition *partition, int64_t offset,
                                            bool skip, struct mr_ledger_history *history,
                                            int64_t *behind);
/* Fills *commit if there is something new to commit, and returns whether there is. The metadata
 * text is borrowed from the partition. since_ms: see worker/offsets/ledger_metadata.h. */
bool mr_partition_fill_commit(struct mr_partition *partition, int64_t since_ms,
                              struct mr_kafka_commit *commit);
/* Applies the outcome of the last commit, unless it has one already. ok false: the next commit
 * contains the same offset again. */
void mr_partition_committed(struct mr_partition *partition, bool ok);
void mr_partitions_check(const struct mr_partitions *partitions);

#endif
