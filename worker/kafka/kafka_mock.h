/* kafka_mock - the embedded broker: librdkafka's mock cluster in this process (SPEC K12).
 *
 * For newcomers and tests. In memory; at most 5 MiB for each partition, the oldest records are
 * dropped silently; plaintext; nothing survives the process; no transaction isolation. Any Kafka
 * client on this machine can talk to it. Its cluster id begins with MR_KAFKA_MOCK_CLUSTER_ID, which
 * is how a client recognises it.
 *
 * Threads: librdkafka's own behind it; the calls here any, one at a time. Memory: the cluster.
 * Errors:  _create MR_NOMEM; _topic MR_BAD_CONFIG. */
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
/* HOST:PORT[,HOST:PORT...]; lives as long as the mock. */
const char *mr_kafka_mock_bootstrap(const struct mr_kafka_mock *mock);
enum mr_status mr_kafka_mock_topic(struct mr_kafka_mock *mock, const char *topic,
                                   uint32_t partition_count, struct mr_error *err);

/* ---- faults, for tests ---- */

/* The next count requests of this kind (Kafka's API key) fail with this Kafka error code. */
void mr_kafka_mock_fail(struct mr_kafka_mock *mock, int16_t api_key, int code, uint32_t count);
/* The same at one broker only. */
void mr_kafka_mock_fail_at(struct mr_kafka_mock *mock, int32_t broker, int16_t api_key, int code,
                           uint32_t count);
/* The partition is led, the group coordinated, by this broker from now on. */
void mr_kafka_mock_lead(struct mr_kafka_mock *mock, const char *topic, int32_t partition,
                        int32_t broker);
void mr_kafka_mock_coordinate(struct mr_kafka_mock *mock, const char *group, int32_t broker);
/* Broker ids count from 1. A broker that is down closes its connections and accepts none. */
void mr_kafka_mock_set_down(struct mr_kafka_mock *mock, int32_t broker, bool down);
void mr_kafka_mock_set_rtt(struct mr_kafka_mock *mock, int32_t broker, uint32_t rtt_ms);

#endif
