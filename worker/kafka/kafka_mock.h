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
/* Creates the topic; it may exist already. */
enum mr_status mr_kafka_mock_topic(struct mr_kafka_mock *mock, const char *topic,
                                   uint32_t partition_count, struct mr_error *err);

/* librdkafka's handle of the cluster, through which tests inject faults
 * (tests/fakes/kafka_fault.h). */
struct rd_kafka_mock_cluster_s;
struct rd_kafka_mock_cluster_s *mr_kafka_mock_cluster(const struct mr_kafka_mock *mock);

#endif
