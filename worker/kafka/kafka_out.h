/* kafka_out - the producer: idempotent, asynchronous, with a report for every record.
 *
 * A record is acknowledged by all in-sync replicas, in order within its partition, or its report
 * says why not. _produce copies the record.
 *
 * Owner:  one thread makes all calls. `reported` is called from within _serve and _flush. New
 *         reports ring the wake given to _create.
 * Memory: at most 64 MiB and 100,000 records without a report; beyond that _produce returns
 *         MR_FULL.
 * Errors: MR_BAD_CONFIG at creation; MR_BACKEND once the producer is broken for good: the process
 *         should end, and the requests are delivered again. */
#ifndef MR_WORKER_KAFKA_KAFKA_OUT_H
#define MR_WORKER_KAFKA_KAFKA_OUT_H

#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_producer_port.h"

struct mr_kafka_out;

struct mr_kafka_out_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* may be NULL */
    /* status MR_OK: on the broker. MR_TIMEOUT, MR_AGAIN: may be produced again. Other: never. */
    void (*reported)(void *context, void *opaque, enum mr_status status, const char *reason);
    void *context;
    const char *transactional_id; /* NULL: none. See worker/kafka/kafka_txn.h */
};

enum mr_status mr_kafka_out_create(struct mr_kafka_out **out,
                                   const struct mr_kafka_out_options *options,
                                   struct mr_error *err);
/* Drops the records that have no report yet; _flush waits for them. out may be NULL. */
void mr_kafka_out_destroy(struct mr_kafka_out *out);

/* Partitions of a topic, looked up without creating it; see worker/kafka/kafka_lookup.h. */
enum mr_status mr_kafka_out_partitions(struct mr_kafka_out *out, const char *topic, uint32_t *count,
                                       struct mr_error *err);
/* Fetches the topic's leaders, so that the first record to the topic does not wait for them. A
 * broker with automatic topic creation creates the topic. */
enum mr_status mr_kafka_out_prime(struct mr_kafka_out *out, const char *topic, uint32_t timeout_ms,
                                  struct mr_error *err);

/* MR_OK: the record is copied and will be reported with this opaque. MR_FULL: serve reports and
 * try again. MR_RECORD_TOO_LARGE, MR_BAD_CONFIG (no such topic or partition), MR_BACKEND. */
enum mr_status mr_kafka_out_produce(struct mr_kafka_out *out, const struct mr_kafka_record *record,
                                    void *opaque, struct mr_error *err);
/* Handles the reports that have arrived, after waiting up to timeout_ms for the first. Returns how
 * many there were. */
uint32_t mr_kafka_out_serve(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Sends records that linger, and blocks until every record is reported. MR_TIMEOUT: some are not.
 */
enum mr_status mr_kafka_out_flush(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Records produced and not reported yet. */
uint32_t mr_kafka_out_pending(struct mr_kafka_out *out);
/* librdkafka's producer, for worker/kafka/kafka_txn.c. */
struct rd_kafka_s *mr_kafka_out_handle(struct mr_kafka_out *out);
/* MR_BACKEND with the reason once the producer is broken for good. */
enum mr_status mr_kafka_out_fatal(struct mr_kafka_out *out, struct mr_error *err);

/* The producer as publish uses it; the port's close destroys it. */
struct mr_producer_port mr_kafka_out_port(struct mr_kafka_out *out);
/* Opens producers with these options, which are borrowed. */
struct mr_producer_opener mr_kafka_out_opener(const struct mr_kafka_options *kafka);

#endif
