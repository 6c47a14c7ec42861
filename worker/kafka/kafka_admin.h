/* kafka_admin - prepares the cluster at start-up: connects to it, looks up topics and creates
 * missing ones.
 *
 * Owner: the thread that opened it. Memory: one librdkafka client. Every call blocks for at most
 * its timeout. Errors: MR_UNREACHABLE, MR_BAD_CONFIG. */
#ifndef MR_WORKER_KAFKA_KAFKA_ADMIN_H
#define MR_WORKER_KAFKA_KAFKA_ADMIN_H

#include "worker/kafka/kafka_conf.h"

struct mr_kafka_admin;

enum mr_status mr_kafka_admin_open(struct mr_kafka_admin **out,
                                   const struct mr_kafka_options *options, struct mr_error *err);
void mr_kafka_admin_close(struct mr_kafka_admin *admin);

/* Connects and requests the cluster id. MR_UNREACHABLE with the reason in err: after the timeout
 * when no broker answers, at once when the broker refuses the login or a TLS certificate is
 * refused. librdkafka's own log lines about the connection are logged at level debug. *embedded:
 * the broker is librdkafka's mock (worker/kafka/kafka_mock.h), of this process or another one. */
enum mr_status mr_kafka_admin_probe(struct mr_kafka_admin *admin, uint32_t timeout_ms,
                                    bool *embedded, struct mr_error *err);
/* The last probe was refused, so a retry cannot succeed. */
bool mr_kafka_admin_refused(const struct mr_kafka_admin *admin);
/* *count: partitions of the topic; 0: the topic does not exist. Creates nothing. */
enum mr_status mr_kafka_admin_partitions(struct mr_kafka_admin *admin, const char *topic,
                                         uint32_t timeout_ms, uint32_t *count,
                                         struct mr_error *err);
/* Creates the topic with the broker's defaults if it does not exist (embedded broker: 4 partitions)
 * and waits until it is visible. *count: its partitions. MR_BAD_CONFIG: creation was refused. */
enum mr_status mr_kafka_admin_ensure(struct mr_kafka_admin *admin, const char *topic,
                                     uint32_t timeout_ms, uint32_t *count, struct mr_error *err);

#endif
