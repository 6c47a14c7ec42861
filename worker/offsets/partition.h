/* partition - what this worker knows of one partition that it owns or owned: the offset ledger, and
 * the last commit that the broker has acknowledged.
 *
 *     NONE -> OWNED <-> SUSPENDED;  OWNED, SUSPENDED -> NONE
 *
 * With the eager protocol every rebalance revokes all partitions and assigns some again. Between
 * these two events a partition is SUSPENDED: its requests run on. The partition is resumed if the
 * committed offset and metadata are still those that this worker committed last, which proves that
 * no other worker owned the partition. Otherwise, and when a partition is lost or goes to another
 * worker, its epoch (a counter of ownerships) is raised: requests taken in an older epoch are
 * dropped, and their late results do not change the ledger.
 *
 * The write gate (worker/ticket/write_gate.h) is open while the partition is OWNED, until
 * mr_partition_hold is called.
 *
 * Owner:  intake thread. Pure: no clock, no I/O.
 * Memory: about 50 KiB for each partition until it is released: when it is in state NONE and no
 * ticket refers to it. Errors: MR_NOMEM. */
#ifndef MR_WORKER_OFFSETS_PARTITION_H
#define MR_WORKER_OFFSETS_PARTITION_H

#include "worker/config/config.h"
#include "worker/kafka/kafka_consumer_port.h"
#include "worker/offsets/handover.h"
#include "worker/offsets/ledger_metadata.h"
#include "worker/ticket/ticket.h"
#include "worker/ticket/write_gate.h"

/* While a worker owns a partition, the time in the partition's last commit
 * (worker/offsets/ledger_metadata.h) is at most this old, so that the next owner's recovery has to
 * read only this much of the results. */
#define MR_PARTITION_REFRESH_MS 10000

enum mr_partition_state { MR_PARTITION_NONE, MR_PARTITION_OWNED, MR_PARTITION_SUSPENDED };

/* The results that recovery found of a partition without a commit. */
struct mr_found {
    int64_t first; /* the lowest offset of them */
    /* unix ms: no record with that offset, and none of the others, is later in the same log */
    int64_t first_ms, newest_ms;
};

struct mr_partition {
    size_t topic_index;
    int32_t number;
    enum mr_partition_state state;
    uint64_t epoch; /* raised whenever the partition is lost; the number of the present ownership */
    int32_t generation; /* generation of the consumer group at the assignment; -1: no group */
    uint32_t tickets;   /* number of tickets that refer to this partition */
    struct mr_offset_ledger *ledger;
    uint32_t instance; /* of this worker (worker/offsets/handover.h), written into each commit */
    /* versions of the ledger in the last commit sent and acknowledged */
    uint64_t sent_version, acked_version;
    /* offsets of the last commit sent and acknowledged; -1: none */
    int64_t sent_offset, acked_offset;
    int64_t sent_since_ms, acked_since_ms;
    bool sent;       /* a commit was sent and has no outcome yet */
    bool recovering; /* recovery still reads: no record is taken and nothing committed */
    bool revoking;   /* the partition is being revoked: no record is taken or started */
    struct mr_write_gate gate;
    /* the ledger's base when the ledger became full: no record is taken until base moves; -2: not
     * full */
    int64_t blocked_base;
    /* records in [passed_from, passed_to) are finished, by what recovery found; both 0: none */
    int64_t passed_from, passed_to;
    struct mr_found found; /* all 0: nothing, or the partition has a commit */
    int64_t skipped_to;    /* one past the last record that a replaced log made skip; 0: none */
    char sent_metadata[MR_LEDGER_METADATA_TEXT_MAX];
    char acked_metadata[MR_LEDGER_METADATA_TEXT_MAX];
};

struct mr_partitions;

/* Whether the ticket's partition was neither lost nor assigned anew since its record was taken. */
bool mr_partition_is_current(const struct mr_ticket *ticket);

enum mr_status mr_partitions_create(struct mr_partitions **out, struct mr_error *err);
/* The instance to write into commits, and what other workers gave up on purpose. handover:
 * borrowed; NULL: neither. */
void mr_partitions_set_handover(struct mr_partitions *partitions,
                                const struct mr_handover *handover);
void mr_partitions_destroy(struct mr_partitions *partitions);
/* NULL when this worker has never owned the partition, or has released it. */
struct mr_partition *mr_partitions_find(struct mr_partitions *partitions, size_t topic_index,
                                        int32_t number);
size_t mr_partitions_count(const struct mr_partitions *partitions);
struct mr_partition *mr_partitions_at(struct mr_partitions *partitions, size_t index);
/* Frees the partitions in state NONE that no ticket and no commit in flight refers to. Indexes of
 * the others change. */
void mr_partitions_release(struct mr_partitions *partitions);

/* Call when the partition is assigned to this worker. claim->start is set to the offset to read
 * from. claim->committed is raised, with the metadata, where the broker reports a commit of this
 * program that is older than the last one it has acknowledged to this worker. *resumed: the
 * partition was SUSPENDED, no other worker can have had it since, and nothing has changed.
 * MR_MALFORMED: the partition is OWNED, but the committed metadata is another application's, so
 * finished requests may be run again. */
enum mr_status mr_partitions_take(struct mr_partitions *partitions, struct mr_kafka_claim *claim,
                                  struct mr_partition **partition, bool *resumed,
                                  struct mr_error *err);
/* The state changes from OWNED to SUSPENDED. */
void mr_partition_suspend(struct mr_partition *partition);
/* The state becomes NONE, and the epoch is raised. */
void mr_partition_forget(struct mr_partition *partition);

/* Publish begins the terminal records of no further request of this partition; _shut: and produces
 * none of those that have begun. The state stays OWNED. */
void mr_partition_hold(struct mr_partition *partition);
void mr_partition_shut(struct mr_partition *partition);
/* Recovery has found that all requests from the ledger's base to below `offset` are finished: their
 * records will count so, and the ledger begins at `offset`, with what the commit said of later
 * records. No record has been received yet. */
void mr_partition_pass(struct mr_partition *partition, int64_t offset);
/* Call before _receive. True: the record is later than the result that recovery found of its
 * offset. The topic was deleted and created again, and what was found is of its old log: it is
 * forgotten. */
bool mr_partition_doubt(struct mr_partition *partition, int64_t offset, int64_t timestamp_ms);
/* Enters a record in the ledger (mr_offset_ledger_receive). A record below the committed offset
 * says that the partition's log was replaced. skip: such a record counts as finished; else the
 * ledger and a new epoch begin at this record. *behind: when such records begin, how many offsets
 * they are below the committed one; otherwise 0. */
enum mr_ledger_verdict mr_partition_receive(struct mr_partition *partition, int64_t offset,
                                            bool skip, struct mr_ledger_history *history,
                                            int64_t *behind);
/* True when there is something new to commit; *commit is then filled. Its metadata text is borrowed
 * from the partition. since_ms: see worker/offsets/ledger_metadata.h. */
bool mr_partition_commit(struct mr_partition *partition, int64_t since_ms,
                         struct mr_kafka_commit *commit);
/* Takes the outcome of the last commit, if it is not known yet. ok false: the next commit contains
 * the same offset again. */
void mr_partition_committed(struct mr_partition *partition, bool ok);
void mr_partitions_check(const struct mr_partitions *partitions);

#endif
