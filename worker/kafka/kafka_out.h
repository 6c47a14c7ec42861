/* kafka_out - the producer: idempotent, asynchronous, with a report for every record.
 *
 * A record is acknowledged by all in-sync replicas, in order within its partition, or its report
 * says why not. Records are copied at once.
 *
 * Owner:  one thread makes all calls, reports included: they come from within _serve and _flush.
 *         New reports ring the wake that _create was given.
 * Memory: at most 64 MiB and 100,000 records unreported; then _produce answers MR_FULL.
 * Errors: MR_BAD_CONFIG at creation; MR_BACKEND once the producer is broken for good (the process
 *         should end and let redelivery do the rest). */
#ifndef MR_WORKER_KAFKA_KAFKA_OUT_H
#define MR_WORKER_KAFKA_KAFKA_OUT_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

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
/* What is not acknowledged yet is given up without a report: flush first. */
void mr_kafka_out_destroy(struct mr_kafka_out *out);

/* Partitions of an existing topic, asked of the broker without creating it; 0: no such topic.
 * Blocks for one round trip. */
enum mr_status mr_kafka_out_partitions(struct mr_kafka_out *out, const char *topic,
                                       uint32_t timeout_ms, uint32_t *count, struct mr_error *err);
/* Makes the topic's leaders known, so that the first record to it does not wait; creates it where
 * the broker creates topics by itself. */
enum mr_status mr_kafka_out_prime(struct mr_kafka_out *out, const char *topic, uint32_t timeout_ms,
                                  struct mr_error *err);

/* MR_OK: the record is copied and a report with this opaque will come. MR_FULL: serve reports and
 * try again. MR_RECORD_TOO_LARGE, MR_BAD_CONFIG (no such topic or partition), MR_BACKEND. */
enum mr_status mr_kafka_out_produce(struct mr_kafka_out *out, const struct mr_kafka_record *record,
                                    void *opaque, struct mr_error *err);
/* Delivers waiting reports; waits up to timeout_ms for the first. Returns how many. */
uint32_t mr_kafka_out_serve(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Sends what lingers and waits for every report. MR_TIMEOUT when some are missing. */
enum mr_status mr_kafka_out_flush(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Records without a report. */
uint32_t mr_kafka_out_pending(struct mr_kafka_out *out);
/* librdkafka's producer, for worker/kafka/kafka_txn.c. */
struct rd_kafka_s *mr_kafka_out_handle(struct mr_kafka_out *out);
/* MR_BACKEND with the reason once broken for good. */
enum mr_status mr_kafka_out_fatal(struct mr_kafka_out *out, struct mr_error *err);

#endif
