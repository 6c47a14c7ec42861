/* kafka_stats - the parts of librdkafka's statistics that an operator needs, as Prometheus text:
 * connections and round trips by broker, queues, retries and errors by client.
 *
 * librdkafka writes a JSON document about a client every 5 seconds (STATISTICS.md of librdkafka 2);
 * _read uses a few members of it. The label sets are bounded: a worker has three clients, and at
 * most MR_KAFKA_BROKERS_MAX brokers of each are shown.
 *
 * Threads: any; a lock inside is held briefly. Memory: all of it in _create, about 60 kB; a
 * document is parsed into memory that is freed at once. Errors: MR_NOMEM. An invalid document is
 * ignored. */
#ifndef MR_WORKER_KAFKA_KAFKA_STATS_H
#define MR_WORKER_KAFKA_KAFKA_STATS_H

#include "codec/status.h"
#include "codec/text.h"

#define MR_KAFKA_BROKERS_MAX 64u

enum mr_kafka_stats_client {
    MR_KAFKA_STATS_CONSUMER,
    MR_KAFKA_STATS_PRODUCER,
    MR_KAFKA_STATS_TRANSACTIONS, /* with exactly-once delivery only */
    MR_KAFKA_STATS_CLIENTS
};

struct mr_kafka_stats;

enum mr_status mr_kafka_stats_create(struct mr_kafka_stats **out, struct mr_error *err);
/* stats may be NULL. */
void mr_kafka_stats_destroy(struct mr_kafka_stats *stats);
/* Replaces the numbers of the client. stats may be NULL: nothing is read. */
void mr_kafka_stats_read(struct mr_kafka_stats *stats, enum mr_kafka_stats_client client,
                         struct mr_text json);
/* Appends the metrics to the page *text, a malloc'ed text of *length bytes; both are updated. */
enum mr_status mr_kafka_stats_append(struct mr_kafka_stats *stats, char **text, size_t *length,
                                     struct mr_error *err);

#endif
