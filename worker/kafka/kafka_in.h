/* kafka_in - the consumer of request topics in the group, with one queue for each partition.
 *
 * Partition queues are not forwarded to the consumer queue: records are taken from them only when
 * there is room, while the consumer queue (rebalances, errors, the poll deadline) is always served.
 * That is backpressure without pause and resume, which would throw away what was fetched. Between
 * topics with records the choice is smooth weighted round robin, however many partitions each has;
 * within one it goes round its partitions.
 *
 * Owner:  one thread makes every call; events come from within _serve, _create (without a group)
 * and _close. Arrivals on any queue ring the wake. Memory: about 8 MiB of fetched records for each
 * partition; nothing of ours grows. Errors: MR_BAD_CONFIG, MR_UNREACHABLE; MR_BACKEND from _serve
 * when the consumer is broken for good (a fenced static member). */
#ifndef MR_WORKER_KAFKA_KAFKA_IN_H
#define MR_WORKER_KAFKA_KAFKA_IN_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_in;

/* A partition given to or taken from this worker. */
struct mr_kafka_claim {
    const char *topic; /* borrowed for the call */
    size_t topic_index;
    int32_t partition;
    int64_t committed;       /* -1: nothing committed, or not known */
    struct mr_text metadata; /* of that commit */
    int64_t start;           /* in: as committed; the assigned event may change it (-1: default) */
    int32_t generation; /* of the group, that gave it; a later owner's is higher, or the same in
                           the place of a static member. -1: no group */
};

/* This worker in its group's present generation; librdkafka's consumer group metadata. */
struct mr_kafka_membership;

enum mr_kafka_revoke {
    MR_KAFKA_REVOKE_PAUSE, /* the eager protocol takes all away; the next assigned event says what
                              comes back */
    MR_KAFKA_REVOKE_GONE,  /* for good: to another member, or this one closes. The cooperative
                              protocol takes only these, the others go on */
    MR_KAFKA_REVOKE_LOST   /* somebody else may own them already: nothing may be committed */
};

struct mr_kafka_in_events {
    void *context;
    void (*assigned)(void *context, struct mr_kafka_claim *claims, size_t count);
    /* Unless LOST a blocking commit belongs here (the embedded broker refuses it while others
     * join; Kafka takes it). Records of partitions that stay may be taken in it. */
    void (*revoked)(void *context, const struct mr_kafka_claim *claims, size_t count,
                    enum mr_kafka_revoke how);
    /* The outcome of a commit that did not block. */
    void (*committed)(void *context, enum mr_status status, const char *reason);
};

struct mr_kafka_in_topic {
    const char *name;
    uint32_t weight; /* its turns; at least 1 */
};

struct mr_kafka_in_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake;
    const struct mr_kafka_in_topic *topics;
    size_t topic_count;
    bool
        join_group; /* false: all partitions, at once and for good; commits still go to the group */
    struct mr_kafka_in_events events;
};

enum mr_status mr_kafka_in_create(struct mr_kafka_in **out,
                                  const struct mr_kafka_in_options *options, struct mr_error *err);
/* Revokes all partitions (the event may commit), leaves the group, ends the client. Waits for the
 * coordinator at most timeout_ms; then the client is abandoned (false) and the process should end
 * soon. in may be NULL. */
bool mr_kafka_in_close(struct mr_kafka_in *in, uint32_t timeout_ms);

/* Serves the consumer queue without blocking. Call at least once a second. */
enum mr_status mr_kafka_in_serve(struct mr_kafka_in *in, struct mr_error *err);

/* The next record, from a partition that `may_take` agrees to; false when there is none. The record
 * is borrowed until the next call of _take, _serve or _close. */
bool mr_kafka_in_take(struct mr_kafka_in *in,
                      bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                      struct mr_kafka_record *record, size_t *topic_index);
/* The record just taken comes again at a later _take, before any other of its partition. */
void mr_kafka_in_put_back(struct mr_kafka_in *in);

/* Commits. timeout_ms 0: does not wait, the committed event brings the answer. Otherwise waits for
 * the answer that long (MR_TIMEOUT). */
enum mr_status mr_kafka_in_commit(struct mr_kafka_in *in, const struct mr_kafka_commit *commits,
                                  size_t count, uint32_t timeout_ms, struct mr_error *err);

/* To commit with in a transaction: taken anew for each one. The caller frees it. */
struct mr_kafka_membership *mr_kafka_in_membership(struct mr_kafka_in *in);
void mr_kafka_membership_free(struct mr_kafka_membership *membership); /* may be NULL */

/* Records of one partition behind the last one taken, as of the last fetch; -1: not known. */
int64_t mr_kafka_in_unread(struct mr_kafka_in *in, size_t topic_index, int32_t partition);
/* Partitions held now. */
size_t mr_kafka_in_partition_count(const struct mr_kafka_in *in);
/* Records behind the last one taken, summed over partitions, as of the last fetches. */
uint64_t mr_kafka_in_backlog(struct mr_kafka_in *in);

#endif
