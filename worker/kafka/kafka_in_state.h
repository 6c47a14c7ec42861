/* kafka_in_state - the state of the Kafka consumer, shared by kafka_in.c (opening, closing,
 * records), kafka_in_rebalance.c (partitions, rebalances, events) and kafka_in_commit.c (commits).
 */
#ifndef MR_WORKER_KAFKA_KAFKA_IN_STATE_H
#define MR_WORKER_KAFKA_KAFKA_IN_STATE_H

#include "worker/config/config.h"
#include "worker/kafka/kafka_in.h"
#include "worker/kafka/turns.h"

#include <pthread.h>

struct rd_kafka_s;
struct rd_kafka_queue_s;
struct rd_kafka_message_s;
struct rd_kafka_topic_partition_list_s;

struct mr_kafka_in;

struct mr_kafka_in_partition {
    struct mr_turn turn; /* must be the first field */
    struct mr_kafka_in *in;
    struct rd_kafka_queue_s *queue;
    /* the next record of the partition: put back by the owner, or received through the consumer
     * queue */
    struct rd_kafka_message_s *held;
    size_t topic_index;
    int32_t partition;
    int64_t position; /* offset after the last record taken; -1: unknown */
    size_t index;     /* in mr_kafka_in.partitions */
    /* under arrived_mutex: in the list of partitions whose empty queue got a record */
    bool has_arrived;
    struct mr_kafka_in_partition *arrived_next;
};

struct mr_kafka_in_topic {
    struct mr_kafka_in_partition **partitions; /* [count], by number; NULL: not assigned */
    size_t count;
    uint32_t request_max; /* most partitions of a commit request; 0: all (kafka_in_commit.c) */
};

/* A rebalance that is not completed. */
struct mr_kafka_in_pending {
    struct mr_kafka_in_pending *next;
    bool assigned; /* true: partitions were assigned; false: they were revoked */
    enum mr_kafka_revoke how;
    struct rd_kafka_topic_partition_list_s *list;
    struct mr_kafka_claim *claims; /* [claim_count]; NULL until the event is returned */
    size_t claim_count;
};

struct mr_kafka_in_commit;
struct mr_kafka_in_query;

struct mr_kafka_in {
    /* must be the first field: callbacks in kafka_conf.c read it */
    const struct mr_kafka_options *kafka; /* points to own_kafka */
    /* A copy of the owner's options that logs through this consumer. librdkafka's threads may log
     * as long as its handle exists. After a failed close the handle outlives the owner's options
     * and log. */
    struct mr_kafka_options own_kafka;
    pthread_mutex_t log_mutex;
    bool silent; /* under log_mutex: no further line is logged */
    struct mr_kafka_consumer_options options;
    struct rd_kafka_s *rk;
    struct rd_kafka_queue_s *consumer_queue;
    struct mr_kafka_in_partition **partitions; /* [partition_count], in no order */
    size_t partition_count;
    struct mr_kafka_in_topic topics[MR_LIST_MAX];
    struct mr_turns turns; /* which partitions may have records, and whose turn it is */
    uint64_t looked_ns;    /* when all partitions were last made ready */
    pthread_mutex_t arrived_mutex;
    struct mr_kafka_in_partition *arrived;
    struct rd_kafka_message_s *taken; /* the record that the last _take returned */
    struct mr_kafka_in_partition *taken_from;
    struct mr_kafka_header headers[MR_KAFKA_HEADERS_MAX];
    bool stray_lost;
    uint64_t query_ns;               /* earliest time of the next query for committed offsets */
    struct mr_kafka_in_query *query; /* in progress; NULL: none */
    bool memory_lost;                /* a rebalance could not be recorded */
    bool cooperative; /* the group used the cooperative protocol in its last rebalance */
    bool closing;
    uint64_t heard_ns; /* when a broker last sent something; 0: never */
    /* list, oldest first; the owner may be handling the first one */
    struct mr_kafka_in_pending *rebalances;
    bool in_progress;
    struct mr_kafka_in_commit *commits;  /* sent, and their outcome not returned; oldest first */
    struct mr_kafka_in_commit *reported; /* the one whose outcome next_event returned last */
};

/* ---- kafka_in_rebalance.c ---- */

/* Returns the topic's index among the consumer's topics; SIZE_MAX: it is not one of them. */
size_t mr_kafka_in_topic_index(const struct mr_kafka_in *in, const char *topic);
/* Returns the state of a partition; NULL: the partition is not assigned to this worker. */
struct mr_kafka_in_partition *mr_kafka_in_find(struct mr_kafka_in *in, size_t topic_index,
                                               int32_t partition);
void mr_kafka_in_warn(struct mr_kafka_in *in, const char *text);
void mr_kafka_in_drop_taken(struct mr_kafka_in *in);
/* From now on everything that arrives in this librdkafka queue rings the consumer's wake. */
void mr_kafka_in_watch(struct mr_kafka_in *in, struct rd_kafka_queue_s *queue);
/* Makes the partitions ready whose empty queue got a record. */
void mr_kafka_in_note_arrivals(struct mr_kafka_in *in);
void mr_kafka_in_note_protocol(struct mr_kafka_in *in);
/* Without a consumer group: adds one ASSIGNED event with all partitions of the list. Takes
 * ownership of the list. */
void mr_kafka_in_assign_all(struct mr_kafka_in *in, struct rd_kafka_topic_partition_list_s *list);
/* Waits until the query for committed offsets has ended, at most until the monotonic time until_ns.
 * False: the query is still running and uses the consumer. */
bool mr_kafka_in_end_query(struct mr_kafka_in *in, uint64_t until_ns);
/* Called before librdkafka closes the consumer: completes the pending rebalances and closes the
 * queue of every partition. */
void mr_kafka_in_end_rebalances(struct mr_kafka_in *in);
/* Called by librdkafka's callback to record a rebalance. The list belongs to librdkafka. */
void mr_kafka_in_rebalanced(struct mr_kafka_in *in, bool assigned,
                            const struct rd_kafka_topic_partition_list_s *list);

/* ---- kafka_in_commit.c ---- */

/* Returns the outcome of a commit whose requests are all answered; false: there is none. */
bool mr_kafka_in_next_outcome(struct mr_kafka_in *in, struct mr_kafka_event *event);
/* Call when librdkafka no longer calls callbacks. */
void mr_kafka_in_free_commits(struct mr_kafka_in *in);

#endif
