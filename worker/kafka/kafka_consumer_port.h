/* kafka_consumer_port - the functions that intake needs from the Kafka consumer of the request
 * topics, as a table of pointers. worker/kafka/kafka_in.h fills the table; a test or a simulation
 * fills it with a broker in memory.
 *
 * The owner calls `serve` often, and then `next_event` until there is no event. A rebalance takes
 * two steps: next_event returns an event ASSIGNED or REVOKED, and the owner calls
 * `complete_rebalance` when it has handled the event. Between the two the other functions work as
 * usual: the consumer stays a member of the group, and partitions that are not revoked deliver
 * records. The next rebalance event comes only after complete_rebalance.
 *
 * Threads: all calls from the owner. Memory: the data that an event points to is borrowed until
 * complete_rebalance, for COMMITTED until the next call of next_event. Errors: listed at each
 * function. */
#ifndef MR_WORKER_KAFKA_KAFKA_CONSUMER_PORT_H
#define MR_WORKER_KAFKA_KAFKA_CONSUMER_PORT_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_options;

/* A partition that is being assigned to this worker or revoked from it. */
struct mr_kafka_claim {
    const char *topic;
    size_t topic_index;
    int32_t partition;
    int64_t committed;       /* committed offset; -1: no offset is committed */
    struct mr_text metadata; /* metadata text of the commit of that offset */
    /* offset of the first record to read; equal to committed unless the owner of an ASSIGNED event
     * changes it; -1: auto.offset.reset decides */
    int64_t start;
    /* the consumer group's generation in which the partition was assigned. A later owner's
     * generation is higher, or equal if the later owner is the same static member. -1: no group */
    int32_t generation;
};

/* This worker's membership in the current generation of its consumer group: librdkafka's
 * rd_kafka_consumer_group_metadata_t. */
struct mr_kafka_membership;

enum mr_kafka_revoke {
    /* eager protocol: all partitions are revoked; the next ASSIGNED event lists those that this
     * worker keeps or gets */
    MR_KAFKA_REVOKE_PAUSE,
    /* cooperative protocol: only these partitions are revoked; another group member gets them */
    MR_KAFKA_REVOKE_GONE,
    /* other group members may own the partitions already: nothing may be committed */
    MR_KAFKA_REVOKE_LOST
};

enum mr_kafka_event_kind {
    MR_KAFKA_EVENT_ASSIGNED, /* fields: claims; the owner may change the start of each claim */
    MR_KAFKA_EVENT_REVOKED,  /* fields: claims, how */
    /* fields: number, status, reason: the outcome of the commit with this number. If status is not
     * MR_OK, claims has the partitions whose offset is not committed, with topic_index and
     * partition; the other offsets are committed. No claims: no offset is committed */
    MR_KAFKA_EVENT_COMMITTED
};

struct mr_kafka_event {
    enum mr_kafka_event_kind kind;
    struct mr_kafka_claim *claims; /* [claim_count] */
    size_t claim_count;
    enum mr_kafka_revoke how;
    uint64_t number;
    enum mr_status status;
    const char *reason; /* the reason why the status is not MR_OK */
};

struct mr_kafka_consumer_topic {
    const char *name;
    /* share of this topic in the records taken, relative to the other topics; at least 1 */
    uint32_t weight;
};

struct mr_kafka_consumer_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* rung when there is something to serve or a record to take */
    const struct mr_kafka_consumer_topic *topics; /* [topic_count] */
    size_t topic_count;
    /* false: reads all partitions and never joins the group; commits still go to the group */
    bool join_group;
};

struct mr_kafka_consumer_port {
    void *self;
    /* Handles rebalances and errors without waiting for records. Call it at least once a second.
     * MR_BACKEND: the consumer can no longer be used. */
    enum mr_status (*serve)(void *self, struct mr_error *err);
    /* Returns the next event; false: there is none. */
    bool (*next_event)(void *self, struct mr_kafka_event *event);
    void (*complete_rebalance)(void *self);
    /* True when the group has assigned this worker's partitions to others. Commits during the
     * handling of a REVOKED event would then be refused. */
    bool (*is_lost)(void *self);
    /* Returns the next record of a partition for which may_take returns true; false: there is none
     * now. The record is borrowed until the next call of take, serve or close. */
    bool (*take)(void *self, bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                 void *context, struct mr_kafka_record *record, size_t *topic_index);
    /* The record returned by the last take will be returned again, before any other record of its
     * partition. */
    void (*put_back)(void *self);
    /* Sends offsets to commit and does not wait: a COMMITTED event with the caller's number brings
     * the outcome. If commit itself returns an error, no such event follows. */
    enum mr_status (*commit)(void *self, const struct mr_kafka_commit *commits, size_t count,
                             uint64_t number, struct mr_error *err);
    /* Returns this worker's group membership, which committing in a transaction needs. Each call
     * makes a new object; the caller frees it with mr_kafka_membership_free. */
    struct mr_kafka_membership *(*membership)(void *self);
    /* Number of records of a partition that were not taken yet, as of the last fetch; -1: unknown.
     */
    int64_t (*unread)(void *self, size_t topic_index, int32_t partition);
    /* Number of records that were not taken yet, summed over all partitions. */
    uint64_t (*backlog)(void *self);
    /* Number of partitions assigned to this worker now. */
    size_t (*partition_count)(void *self);
    /* Leaves the group without another event or commit. False: the group coordinator did not answer
     * within timeout_ms; then the process should end soon. */
    bool (*close)(void *self, uint32_t timeout_ms);
    /* When a broker last sent something to this consumer (monotonic nanoseconds), up to 5 seconds
     * old; 0: never. NULL: the implementation does not know. */
    uint64_t (*heard_ns)(void *self);
};

/* The function with which intake opens its consumer. */
typedef enum mr_status (*mr_kafka_consumer_open)(void *context,
                                                 const struct mr_kafka_consumer_options *options,
                                                 struct mr_kafka_consumer_port *out,
                                                 struct mr_error *err);

#endif
