/* kafka_lookup - looks up how many partitions a Kafka topic has, without blocking the caller and
 * without creating the topic.
 *
 * librdkafka's metadata call blocks for one round trip, or until its timeout when the broker is
 * down. So a separate thread makes that call, for one topic at a time, and the caller gets MR_AGAIN
 * until the answer has arrived. While no broker answers, the thread repeats the call every second.
 * Answers are kept for some time, including the answer that a topic does not exist. The thread has
 * its own librdkafka consumer, because the broker may create a topic that a producer looks up. The
 * first query starts the thread.
 *
 * Owner: one thread makes all calls. Memory: a librdkafka client, and a table of LOOKUPS_MAX
 * topics; while the table is full of topics without an answer a query returns MR_AGAIN. Errors:
 * listed at each function. */
#ifndef MR_WORKER_KAFKA_KAFKA_LOOKUP_H
#define MR_WORKER_KAFKA_KAFKA_LOOKUP_H

#include "codec/status.h"
#include "worker/base/wake.h"
#include "worker/kafka/kafka_conf.h"

#include <stdint.h>

struct mr_kafka_lookup;

/* How long answers are kept; a missing topic for less, because it may be created. */
#define MR_KAFKA_LOOKUP_KEEP_NS         ((uint64_t)60000000000)
#define MR_KAFKA_LOOKUP_KEEP_MISSING_NS ((uint64_t)5000000000)

struct mr_kafka_lookup_options {
    const struct mr_kafka_options *kafka; /* borrowed */
    const struct mr_wake *answered; /* borrowed; rung when an answer has arrived; NULL: none */
    /* how long a number of partitions is kept, and how long the answer that a topic does not
     * exist */
    uint64_t keep_ns, keep_missing_ns;
};

enum mr_status mr_kafka_lookup_create(struct mr_kafka_lookup **out,
                                      const struct mr_kafka_lookup_options *options,
                                      struct mr_error *err);
/* Waits until a metadata call in progress has ended, at most 2 seconds. lookup may be NULL. */
void mr_kafka_lookup_destroy(struct mr_kafka_lookup *lookup);
/* MR_OK: the topic has *count partitions; 0: the topic does not exist, or this client may not see
 * it. MR_AGAIN: unknown so far, or no broker answers. MR_NOMEM: the thread cannot be started. */
enum mr_status mr_kafka_lookup_query(struct mr_kafka_lookup *lookup, const char *topic,
                                     uint32_t *count, struct mr_error *err);

#endif
