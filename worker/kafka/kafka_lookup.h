/* kafka_lookup - how many partitions a Kafka topic has, asked of the broker without blocking the
 * caller and without creating the topic.
 *
 * librdkafka's metadata call blocks for one round trip, or until its timeout when the broker is
 * down. So a thread of its own makes that call; the caller gets MR_AGAIN until the answer has
 * arrived. One metadata call answers all topics that are waiting. The first query starts the
 * thread.
 *
 * Owner: one thread makes all calls. Memory: a table of LOOKUPS_MAX topics; while the table is full
 * a query returns MR_AGAIN. Errors: as said at each function. */
#ifndef MR_WORKER_KAFKA_KAFKA_LOOKUP_H
#define MR_WORKER_KAFKA_KAFKA_LOOKUP_H

#include "codec/status.h"
#include "worker/base/wake.h"

#include <stdint.h>

struct rd_kafka_s;
struct mr_kafka_lookup;

/* rk and answered are borrowed. answered: rung when an answer has arrived; NULL: the caller
 * polls. */
enum mr_status mr_kafka_lookup_create(struct mr_kafka_lookup **out, struct rd_kafka_s *rk,
                                      const struct mr_wake *answered, struct mr_error *err);
/* Waits until a metadata call in progress has ended. lookup may be NULL. */
void mr_kafka_lookup_destroy(struct mr_kafka_lookup *lookup);
/* MR_OK: the topic has *count partitions; 0: the topic does not exist. MR_AGAIN: not known yet.
 * MR_UNREACHABLE: the broker did not answer; MR_NOMEM. After MR_OK or an error the next query of
 * the same topic asks the broker again. */
enum mr_status mr_kafka_lookup_query(struct mr_kafka_lookup *lookup, const char *topic,
                                     uint32_t *count, struct mr_error *err);

#endif
