/* kafka_in_state - the consumer's state, shared by kafka_in.c (opening, closing, records, commits)
 * and the part below it, kafka_in_rebalance.c (partitions, rebalances, events). */
#ifndef MR_WORKER_KAFKA_KAFKA_IN_STATE_H
#define MR_WORKER_KAFKA_KAFKA_IN_STATE_H

#include "worker/kafka/kafka_in.h"

struct rd_kafka_s;
struct rd_kafka_queue_s;
struct rd_kafka_message_s;
struct rd_kafka_topic_partition_list_s;

struct mr_kafka_in_partition {
    struct rd_kafka_queue_s *queue;
    struct rd_kafka_message_s *held; /* put back, or delivered by the consumer queue */
    size_t topic_index;
    int32_t partition;
    int64_t position; /* after the last record taken, -1 unknown */
    int64_t credit;   /* of the weighted round robin */
};

/* An event that has not been returned, or a rebalance that is not completed. */
struct mr_kafka_in_pending {
    struct mr_kafka_in_pending *next;
    bool assigned; /* else revoked */
    enum mr_kafka_revoke how;
    struct rd_kafka_topic_partition_list_s *list;
    struct mr_kafka_claim *claims; /* [claim_count], made when the event is returned */
    size_t claim_count;
    enum mr_status status; /* of a commit */
    char reason[160];
};

struct mr_kafka_in {
    const struct mr_kafka_options *kafka; /* first: kafka_conf's callbacks look here */
    struct mr_kafka_consumer_options options;
    struct rd_kafka_s *rk;
    struct rd_kafka_queue_s *consumer_queue;
    struct mr_kafka_in_partition *partitions; /* [partition_count] */
    size_t partition_count;
    struct rd_kafka_message_s *taken; /* lent out by _take */
    size_t taken_from;
    struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX];
    bool stray_lost, commits_unknown;
    bool cooperative; /* the group's protocol, as of its last rebalance */
    bool closing;
    struct mr_kafka_in_pending *rebalances; /* oldest first; the first one may be in progress */
    bool in_progress;
    struct mr_kafka_in_pending *commits;  /* outcomes, oldest first */
    struct mr_kafka_in_pending *reported; /* the outcome returned last */
};

/* ---- kafka_in_rebalance.c ---- */

/* SIZE_MAX: none of the consumer's topics. */
size_t mr_kafka_in_topic_index(const struct mr_kafka_in *in, const char *topic);
/* NULL: not held. */
struct mr_kafka_in_partition *mr_kafka_in_find(struct mr_kafka_in *in, size_t topic_index,
                                               int32_t partition);
void mr_kafka_in_warn(struct mr_kafka_in *in, const char *text);
void mr_kafka_in_drop_taken(struct mr_kafka_in *in);
/* Arrivals on the queue ring the wake. */
void mr_kafka_in_watch(struct mr_kafka_in *in, struct rd_kafka_queue_s *queue);
void mr_kafka_in_note_protocol(struct mr_kafka_in *in);
/* The event for an assignment that does not come from the group. Takes the list. */
void mr_kafka_in_assign_all(struct mr_kafka_in *in, struct rd_kafka_topic_partition_list_s *list);
/* Before the library closes the consumer: completes what is in progress, closes every queue. */
void mr_kafka_in_end_rebalances(struct mr_kafka_in *in);
/* What librdkafka's callbacks report. The list is the library's. */
void mr_kafka_in_rebalanced(struct mr_kafka_in *in, bool assigned,
                            const struct rd_kafka_topic_partition_list_s *list);
void mr_kafka_in_committed(struct mr_kafka_in *in, enum mr_status status, const char *reason);

#endif
