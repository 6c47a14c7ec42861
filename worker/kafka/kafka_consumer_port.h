/* kafka_consumer_port - what intake needs of the consumer of the request topics, as a table of
 * functions. worker/kafka/kafka_in.h fills it; a test or a simulation fills it with a broker in
 * memory.
 *
 * The owner calls `serve` often and then `next_event` until there is none. A rebalance is two
 * calls: the event ASSIGNED or REVOKED, and `complete_rebalance` once the owner is through with it.
 * In between the other functions work as always: the consumer stays a member of the group and
 * partitions that stay deliver records. A second rebalance event comes only after the first is
 * completed.
 *
 * Threads: all calls from the owner. Memory: what an event points to is borrowed until
 *          complete_rebalance, or until the next call of next_event for COMMITTED. Errors: as said.
 */
#ifndef MR_WORKER_KAFKA_KAFKA_CONSUMER_PORT_H
#define MR_WORKER_KAFKA_KAFKA_CONSUMER_PORT_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_options;

/* A partition that is assigned to this worker or revoked from it. */
struct mr_kafka_claim {
    const char *topic;
    size_t topic_index;
    int32_t partition;
    int64_t committed;       /* -1: nothing committed, or not known */
    struct mr_text metadata; /* of that commit */
    int64_t start;      /* where to read from; as committed unless the owner of an ASSIGNED event
                           changes it; -1: the consumer's default */
    int32_t generation; /* of the group when the partition was assigned. A later owner's is higher,
                           or the same in the place of a static member. -1: no group */
};

/* This worker in its group's present generation; librdkafka's consumer group metadata. */
struct mr_kafka_membership;

enum mr_kafka_revoke {
    MR_KAFKA_REVOKE_PAUSE, /* the eager protocol revokes everything; the next ASSIGNED event lists
                              what comes back */
    MR_KAFKA_REVOKE_GONE,  /* to another member. The cooperative protocol revokes only these */
    MR_KAFKA_REVOKE_LOST   /* other members may own them already: nothing may be committed */
};

enum mr_kafka_event_kind {
    MR_KAFKA_EVENT_ASSIGNED, /* claims; the owner may change their start */
    MR_KAFKA_EVENT_REVOKED,  /* claims, how */
    MR_KAFKA_EVENT_COMMITTED /* the outcome of the oldest commit without one */
};

struct mr_kafka_event {
    enum mr_kafka_event_kind kind;
    struct mr_kafka_claim *claims; /* [claim_count] */
    size_t claim_count;
    enum mr_kafka_revoke how;
    enum mr_status status;
    const char *reason; /* of a status other than MR_OK */
};

struct mr_kafka_consumer_topic {
    const char *name;
    uint32_t weight; /* share of the turns between topics; at least 1 */
};

struct mr_kafka_consumer_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* rung when there is something to serve or take */
    const struct mr_kafka_consumer_topic *topics; /* [topic_count] */
    size_t topic_count;
    bool join_group; /* false: all partitions, for good; commits still go to the group */
};

struct mr_kafka_consumer_port {
    void *self;
    /* Serves the group without waiting for records. Call at least once a second. MR_BACKEND: the
     * consumer is broken for good. */
    enum mr_status (*serve)(void *self, struct mr_error *err);
    /* False: there is none. */
    bool (*next_event)(void *self, struct mr_kafka_event *event);
    void (*complete_rebalance)(void *self);
    /* The assignment is lost: what a REVOKED event in progress still commits would be refused. */
    bool (*is_lost)(void *self);
    /* The next record of a partition that may_take agrees to; false when there is none. The record
     * is borrowed until the next call of take, serve or close. */
    bool (*take)(void *self, bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                 void *context, struct mr_kafka_record *record, size_t *topic_index);
    /* The record just taken is delivered again later, before any other of its partition. */
    void (*put_back)(void *self);
    /* Does not wait: a COMMITTED event brings the outcome, unless the call itself fails. */
    enum mr_status (*commit)(void *self, const struct mr_kafka_commit *commits, size_t count,
                             struct mr_error *err);
    /* For a commit in a transaction, made anew for each; the caller frees it
     * (mr_kafka_membership_free). */
    struct mr_kafka_membership *(*membership)(void *self);
    /* Records of a partition not taken yet, as of the last fetch; -1: not known. */
    int64_t (*unread)(void *self, size_t topic_index, int32_t partition);
    /* The same, summed over the partitions. */
    uint64_t (*backlog)(void *self);
    /* Partitions held now. */
    size_t (*partition_count)(void *self);
    /* Leaves the group without a further event or commit. False: the coordinator did not answer
     * within timeout_ms; the process should end soon. */
    bool (*close)(void *self, uint32_t timeout_ms);
};

/* How intake opens its consumer. */
typedef enum mr_status (*mr_kafka_consumer_open)(void *context,
                                                 const struct mr_kafka_consumer_options *options,
                                                 struct mr_kafka_consumer_port *out,
                                                 struct mr_error *err);

#endif
