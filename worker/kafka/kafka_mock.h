/* kafka_mock - the embedded test broker: librdkafka's mock cluster in this process, for demos and
 * tests.
 *
 * It keeps records in memory, at most 5 MiB per partition; older records are dropped silently. It
 * has no TLS and no transaction isolation, and when it is destroyed all records are lost. Every
 * Kafka client on this machine can connect to it. millrace recognises the mock cluster by its
 * cluster id, which begins with MR_KAFKA_MOCK_CLUSTER_ID.
 *
 * Threads: any, one call at a time; librdkafka's threads run the cluster. Memory: the cluster.
 * Errors: _create MR_NOMEM; _topic MR_BAD_CONFIG. */
#ifndef MR_WORKER_KAFKA_KAFKA_MOCK_H
#define MR_WORKER_KAFKA_KAFKA_MOCK_H

#include "codec/status.h"

#include <stddef.h>
#include <stdint.h>

#define MR_KAFKA_MOCK_CLUSTER_ID "mockCluster"

struct mr_kafka_mock;

enum mr_status mr_kafka_mock_create(struct mr_kafka_mock **out, uint32_t broker_count,
                                    struct mr_error *err);
void mr_kafka_mock_destroy(struct mr_kafka_mock *mock);
/* The brokers' addresses, HOST:PORT[,HOST:PORT...]; valid as long as the mock. */
const char *mr_kafka_mock_bootstrap(const struct mr_kafka_mock *mock);
enum mr_status mr_kafka_mock_topic(struct mr_kafka_mock *mock, const char *topic,
                                   uint32_t partition_count, struct mr_error *err);

/* ---- fault injection, for tests ---- */

/* The next `count` requests with this Kafka API key fail with this Kafka error code, in place of
 * what an earlier call has said about this key. */
void mr_kafka_mock_fail(struct mr_kafka_mock *mock, int16_t api_key, int code, uint32_t count);
/* Like mr_kafka_mock_fail, but only requests to one broker fail. */
void mr_kafka_mock_fail_at(struct mr_kafka_mock *mock, int32_t broker, int16_t api_key, int code,
                           uint32_t count);
/* Hides a topic as if it was deleted, or shows it again: in the answers to metadata requests, not
 * in others. */
void mr_kafka_mock_hide(struct mr_kafka_mock *mock, const char *topic, bool hidden);
/* Makes the broker the leader of a partition (_lead), or the coordinator of a group
 * (_coordinate). */
void mr_kafka_mock_lead(struct mr_kafka_mock *mock, const char *topic, int32_t partition,
                        int32_t broker);
void mr_kafka_mock_coordinate(struct mr_kafka_mock *mock, const char *group, int32_t broker);
/* Stops or restarts a broker. A stopped (down) broker closes its connections and accepts none.
 * Broker ids begin with 1. */
void mr_kafka_mock_set_down(struct mr_kafka_mock *mock, int32_t broker, bool down);
/* The next request with this API key to this broker is answered delay_ms late, with this error
 * code; 0: without an error. */
void mr_kafka_mock_delay(struct mr_kafka_mock *mock, int32_t broker, int16_t api_key, int code,
                         uint32_t delay_ms);

#endif
