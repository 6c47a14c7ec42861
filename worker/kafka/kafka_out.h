/* kafka_out - the Kafka producer: idempotent, asynchronous, with a delivery report for every
 * record.
 *
 * _produce copies the record. The report says that all in-sync replicas have acknowledged the
 * record, or gives the reason of the failure. Records of one partition keep their order.
 *
 * Owner: one thread makes all calls; on this thread _serve and _flush call the callback `reported`.
 * A delivery report that arrives rings options.wake, unless _attend has turned that off. Memory: at
 * most 100,000 records without a report, with values of 64 MiB together, and keys and headers of
 * 64 MiB plus one record; beyond that _produce returns MR_FULL. Errors: MR_BAD_CONFIG at creation;
 * MR_BACKEND after a fatal error of the producer, after which the process should exit, so that
 * Kafka delivers the requests to another worker. */
#ifndef MR_WORKER_KAFKA_KAFKA_OUT_H
#define MR_WORKER_KAFKA_KAFKA_OUT_H

#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_producer_port.h"

struct mr_kafka_out;

struct mr_kafka_out_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* rung when a delivery report arrives; may be NULL */
    /* Called with the delivery report of one record, as in worker/kafka/kafka_producer_port.h. */
    void (*reported)(void *context, void *opaque, enum mr_status status, const char *reason);
    /* Called before `reported` with the place of a record that the broker has acknowledged; offset
     * -1: unknown. May be NULL. */
    void (*placed)(void *context, void *opaque, int32_t partition, int64_t offset);
    void *context;
    /* transactional.id; NULL: no transactions. See worker/kafka/kafka_txn.h */
    const char *transactional_id;
};

enum mr_status mr_kafka_out_create(struct mr_kafka_out **out,
                                   const struct mr_kafka_out_options *options,
                                   struct mr_error *err);
/* Drops the records that are not acknowledged, without reports; call _flush first to wait for them.
 * out may be NULL. */
void mr_kafka_out_destroy(void *self);

/* Number of partitions of a topic, looked up without creating the topic; returns as
 * mr_kafka_lookup_query in worker/kafka/kafka_lookup.h. */
enum mr_status mr_kafka_out_partitions(void *self, const char *topic, uint32_t *count,
                                       struct mr_error *err);
/* Fetches the topic's metadata from the broker, so that the first record need not wait for the
 * metadata. This creates the topic if the broker creates topics automatically. */
enum mr_status mr_kafka_out_prime(struct mr_kafka_out *out, const char *topic, uint32_t timeout_ms,
                                  struct mr_error *err);

/* MR_OK: the record is copied; its delivery report will carry opaque. MR_FULL: call _serve and try
 * again. Other errors: MR_RECORD_TOO_LARGE, MR_BAD_CONFIG (the topic or partition does not exist),
 * MR_BACKEND. */
enum mr_status mr_kafka_out_produce(void *self, const struct mr_kafka_record *record, void *opaque,
                                    struct mr_error *err);
/* Waits up to timeout_ms for the first delivery report, calls `reported` for all that have arrived,
 * and returns their number. */
uint32_t mr_kafka_out_serve(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Whether delivery reports ring options.wake; see the port's attend. */
bool mr_kafka_out_attend(void *self, bool on);
/* Sends all records at once and waits for their delivery reports. MR_TIMEOUT: some did not
 * arrive. */
enum mr_status mr_kafka_out_flush(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Whether a broker answers within timeout_ms. */
bool mr_kafka_out_answers(struct mr_kafka_out *out, uint32_t timeout_ms);
/* Number of records whose delivery report has not arrived. */
uint32_t mr_kafka_out_pending(void *self);
/* The producer's librdkafka handle, for worker/kafka/kafka_txn.c. */
struct rd_kafka_s *mr_kafka_out_handle(struct mr_kafka_out *out);
/* MR_BACKEND, with the reason in err, after a fatal error of the producer; otherwise MR_OK. */
enum mr_status mr_kafka_out_fatal(void *self, struct mr_error *err);

/* Returns this producer as the table of functions that publish uses; the table's close destroys the
 * producer. */
struct mr_producer_port mr_kafka_out_port(struct mr_kafka_out *out);
/* Returns the opener with which publish opens producers with these options, which are borrowed. */
struct mr_producer_opener mr_kafka_out_opener(const struct mr_kafka_options *kafka);

#endif
