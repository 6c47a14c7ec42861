/* kafka_in - the Kafka consumer of the request topics, a member of the consumer group, with one
 * queue for each partition: fills the table of worker/kafka/kafka_consumer_port.h with librdkafka.
 *
 * Partition queues are not forwarded to the consumer queue. Records are taken from a partition
 * queue only when the worker can accept them, while the consumer queue (rebalances, errors, the
 * poll deadline) is always served. This gives backpressure without pausing partitions, which would
 * discard fetched records. Topics with records take turns by weight, and the partitions of a topic
 * take turns (worker/kafka/turns.h). librdkafka reports which empty queue got a record, so the time
 * to take a record does not depend on the number of partitions.
 *
 * A rebalance (worker/kafka/kafka_in_rebalance.c) is recorded inside librdkafka's callback and
 * completed by _complete_rebalance. librdkafka waits for that call without a limit, the broker for
 * at most the group's rebalance timeout (max.poll.interval.ms). The ASSIGNED event nee
 * event needs the committed offsets, whose query can take seconds while the coordinator is away. A
 * thread makes the query; until all offsets are known, _next_event returns false, and a failed
 * query is repeated after a second.
 *
 * A commit (worker/kafka/kafka_in_commit.c) is one request for each topic, because librdkafka
 * reports the error of one partition for all partitions of a request.
 *
 * Owner: one thread makes every call. A record or event that arrives rings the wake. Memory:
 * values of fetched records up to mr_kafka_options.prefetch_bytes, if the topics have no more
 * partitions than at _create; keys and headers are bounded by the number of records
 * (kafka_conf.c). Errors: MR_BAD_CONFIG, MR_UNREACHABLE; MR_BACKEND from
 * _serve when the consumer can no longer be used, for example because another worker joined as the
 * same static member. */
#ifndef MR_WORKER_KAFKA_KAFKA_IN_H
#define MR_WORKER_KAFKA_KAFKA_IN_H

#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_consumer_port.h"

struct mr_kafka_in;

enum mr_status mr_kafka_in_create(struct mr_kafka_in **out,
                                  const struct mr_kafka_consumer_options *options,
                                  struct mr_error *err);
/* Creates a consumer and fills the port (the type of this function is mr_kafka_consumer_open).
 * context is not used. */
enum mr_status mr_kafka_in_open(void *context, const struct mr_kafka_consumer_options *options,
                                struct mr_kafka_consumer_port *out, struct mr_error *err);

/* ---- the functions of the port, as described there ---- */

/* Leaves the group and frees the consumer. False: the group coordinator did not answer within
 * timeout_ms, and the consumer is leaked, with librdkafka's threads; it no longer uses the owner's
 * memory. If a request topic was deleted, the consumer is leaked too, but the result is true: the
 * group removes the member after its session timeout at the latest. in may be NULL. */
bool mr_kafka_in_close(void *self, uint32_t timeout_ms);
enum mr_status mr_kafka_in_serve(void *self, struct mr_error *err);
bool mr_kafka_in_next_event(void *self, struct mr_kafka_event *event);
void mr_kafka_in_complete_rebalance(void *self);
bool mr_kafka_in_take(void *self,
                      bool (*may_take)(void *context, size_t topic_index, int32_t partition),
                      void *context, struct mr_kafka_record *record, size_t *topic_index);
void mr_kafka_in_put_back(void *self);
enum mr_status mr_kafka_in_commit(void *self, const struct mr_kafka_commit *commits, size_t count,
                                  uint64_t number, struct mr_error *err);
struct mr_kafka_membership *mr_kafka_in_membership(void *self);
void mr_kafka_membership_free(struct mr_kafka_membership *membership); /* membership may be NULL */
int64_t mr_kafka_in_unread(void *self, size_t topic_index, int32_t partition);
size_t mr_kafka_in_partition_count(void *self);
uint64_t mr_kafka_in_backlog(void *self);

#endif
