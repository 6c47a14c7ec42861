/* kafka_admin - questions and orders to the cluster at start-up: who answers, which topics exist,
 * create the missing ones.
 *
 * Owner: the thread that opened it. Memory: one librdkafka client. Every call blocks for at most
 * the timeout given. Errors: MR_UNREACHABLE, MR_BAD_CONFIG. */
#ifndef MR_WORKER_KAFKA_KAFKA_ADMIN_H
#define MR_WORKER_KAFKA_KAFKA_ADMIN_H

#include "worker/kafka/kafka_conf.h"

struct mr_kafka_admin;

enum mr_status mr_kafka_admin_open(struct mr_kafka_admin **out,
                                   const struct mr_kafka_options *options, struct mr_error *err);
void mr_kafka_admin_close(struct mr_kafka_admin *admin);

/* Makes a connection and asks for the cluster's id. MR_UNREACHABLE when nobody answers in time, or
 * at once when the broker refuses the login or one side the other's certificate: err says why, and
 * librdkafka's own lines about it are logged as debug only. *embedded: it is librdkafka's mock
 * (worker/kafka/kafka_mock.h), ours or another process's. */
enum mr_status mr_kafka_admin_probe(struct mr_kafka_admin *admin, uint32_t timeout_ms,
                                    bool *embedded, struct mr_error *err);
/* The last probe was refused: waiting will not help. */
bool mr_kafka_admin_refused(const struct mr_kafka_admin *admin);
/* Partitions of a topic, 0 when there is none; never creates it. */
enum mr_status mr_kafka_admin_partitions(struct mr_kafka_admin *admin, const char *topic,
                                         uint32_t timeout_ms, uint32_t *count,
                                         struct mr_error *err);
/* The topic exists afterwards, created with the broker's defaults if it was missing (the embedded
 * broker: 4 partitions). *count: its partitions. MR_BAD_CONFIG when it may not be created. */
enum mr_status mr_kafka_admin_ensure(struct mr_kafka_admin *admin, const char *topic,
                                     uint32_t timeout_ms, uint32_t *count, struct mr_error *err);

#endif
