/* kafka_out - the producer: idempotent, asynchronous, with a report for every record.
 *
 * _produce copies the record. Its report says that all in-sync replicas have acknowledged it, or
 * why it failed. Records of one partition keep their order.
 *
 * Owner:  one thread makes all calls; _serve and _flush call the report callback on it. Pending
 *         reports ring the wake of the options.
 * Memory: at most 64 MiB and 100,000 unreported records; then _produce returns MR_FULL.
 * Errors: MR_BAD_CONFIG at creation; MR_BACKEND after a fatal error of the producer, after which
 * the process should exit and let Kafka redeliver. */
#ifndef MR_WORKER_KAFKA_KAFKA_OUT_H
#define MR_WORKER_KAFKA_KAFKA_OUT_H

#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_producer_port.h"

struct mr_kafka_out;

struct mr_kafka_out_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* may be NULL */
    /* The report of one record. MR_OK: acknowledged. MR_TIMEOUT, MR_AGAIN: failed, may be produced
     * again. Other: failed for good. */
    void (*reported)(void *context, void *opaque, enum mr_status status, const char *reason);
    void *context;
    const char *transactional_id; /* NULL: none. See worker/kafka/kafka_txn.h */
};

enum mr_status mr_kafka_out_create(struct mr_kafka_out **out,
                                   const struct mr_kafka_out_options *options,
                                   struct mr_error *err);
/* Drops records without acknowledgement, and their reports; call _flush first to wait for them. out
 * may be NULL. */
void mr_kafka_out_destroy(struct mr_kafka_out *out);

/* Partitions of a topic, looked up without creating it; see worker/kafka/kafka_lookup.h. */
enum mr_status mr_kafka_out_partitions(struct mr_kafka_out *out, const char *topic, uint32_t *count,
                                       struct mr_error *err);
/* Fetches the topic's metadata, so that the first record does not wait for it. Creates the topic if
 * the broker creates topics automatically. */
enum mr_status mr_kafka_out_prime(struct mr_kafka_out *out, const char *topic, uint32_t timeout_ms,
                                  struct mr_error *err);

/* MR_OK: the record is copied; its report will carry opaque. MR_FULL: call _serve and try again.
 * MR_RECORD_TOO_LARGE, MR_BAD_CONFIG (no such topic or partition), MR_BACKEND. */
enum mr_status mr_kafka_out_produce(struct mr_kafka_out *out, const struct mr_kafka_record *record,
                                    void *opaque, struct mr_error *err);
/* Calls the callback for pending reports, after waiting up to timeout_ms for the first; their
 * count. */
uint32_t mr_kafka_out_serve(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Sends all records at once and waits for their reports. MR_TIMEOUT: some are missing. */
enum mr_status mr_kafka_out_flush(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Records whose report is pending. */
uint32_t mr_kafka_out_pending(struct mr_kafka_out *out);
/* librdkafka's producer, for worker/kafka/kafka_txn.c. */
struct rd_kafka_s *mr_kafka_out_handle(struct mr_kafka_out *out);
/* MR_BACKEND with the reason after a fatal error of the producer; otherwise MR_OK. */
enum mr_status mr_kafka_out_fatal(struct mr_kafka_out *out, struct mr_error *err);

/* The producer as publish uses it; the port's close destroys it. */
struct mr_producer_port mr_kafka_out_port(struct mr_kafka_out *out);
/* Opens producers with these options, which are borrowed. */
struct mr_producer_opener mr_kafka_out_opener(const struct mr_kafka_options *kafka);

#endif
