/* kafka_txn - a transactional Kafka producer: records and committed offsets of the group become
 * visible to read_committed readers together, or not at all.
 *
 * A transaction lasts from _begin to _commit. MR_AGAIN means that the transaction was aborted: none
 * of its records is visible, and the caller produces them again in the next transaction. The broker
 * refuses offsets of a group membership that is no longer current, because another worker then has
 * the partitions.
 *
 * The transactional id is that of the worker. A second producer with the same id fences the first
 * one, and the broker ends the transaction that the first one left open.
 *
 * When a transaction lasts longer than its timeout (an outage, a stopped process), the broker
 * aborts it and fences its producer. librdkafka reports that as a fatal error. _renew opens another
 * producer with the same id. The broker reports the same error when another worker uses the id;
 * _renew assumes this cause if the transaction had not exceeded its timeout.
 *
 * Threads: one thread makes all calls except _call_ns; delivery reports are called from within
 * these calls. Memory: one librdkafka producer. Errors: MR_BAD_CONFIG (no transactions on this
 * broker) and MR_UNREACHABLE at creation; MR_AGAIN; MR_BACKEND when the producer is fenced or can
 * no longer be used. */
#ifndef MR_WORKER_KAFKA_KAFKA_TXN_H
#define MR_WORKER_KAFKA_KAFKA_TXN_H

#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_transactions_port.h"

struct mr_kafka_txn;

struct mr_kafka_txn_options {
    struct mr_kafka_out_options out; /* producer options with a transactional_id */
    /* the request topics, to which topic_index of a commit refers; borrowed */
    const struct mr_request_topic *topics;
    uint32_t timeout_ms; /* limit for _create, and for one call of _renew */
    /* true: the worker stops, so calls that wait for a broker return soon; may be NULL */
    const atomic_bool *stopping;
};

/* Blocks until the broker has ended the transaction that an earlier producer of this id left
 * open. */
enum mr_status mr_kafka_txn_create(struct mr_kafka_txn **out,
                                   const struct mr_kafka_txn_options *options,
                                   struct mr_error *err);
/* Aborts an open transaction and frees txn, which may be NULL. */
void mr_kafka_txn_destroy(void *self);

enum mr_status mr_kafka_txn_begin(void *self, struct mr_error *err);
/* Returns the producer for records between _begin and _commit. If the delivery report of a record
 * is not MR_OK, the transaction must be aborted. */
struct mr_kafka_out *mr_kafka_txn_out(struct mr_kafka_txn *txn);
/* MR_OK: the broker has committed the records and offsets. Offsets of partitions that are gone are
 * left out: their topic was deleted, and the transaction in which that was found was aborted.
 * MR_AGAIN: the transaction was aborted. */
enum mr_status mr_kafka_txn_commit(void *self, const struct mr_transaction_offsets *offsets,
                                   struct mr_error *err);
/* Returns MR_AGAIN when the transaction has been aborted, otherwise MR_BACKEND. */
enum mr_status mr_kafka_txn_abort(void *self, struct mr_error *err);
/* Call it after MR_BACKEND: replaces the broken producer. The producer may have broken after its
 * last transaction was committed: *committed is set to whether the group has the offsets of that
 * transaction. MR_UNREACHABLE: try again. MR_BACKEND: no other producer is opened, because another
 * worker uses the id or too many producers were replaced in a row; *err then has a reason or is
 * unchanged. */
enum mr_status mr_kafka_txn_renew(void *self, const struct mr_transaction_offsets *offsets,
                                  bool *committed, struct mr_error *err);
/* When the librdkafka call that is in progress began (monotonic nanoseconds); 0: no call is in
 * progress. No call should take more than some seconds. Threads: any. */
uint64_t mr_kafka_txn_call_ns(const void *self);

/* Options of mr_kafka_txn_opener. All pointers are borrowed until the port is closed. */
struct mr_kafka_txn_source {
    const struct mr_kafka_options *kafka;
    const char *transactional_id;
    /* the request topics, to which topic_index of a commit refers */
    const struct mr_request_topic *topics;
    uint32_t timeout_ms; /* limit for opening, and for one try to renew */
};

struct mr_transactions_opener mr_kafka_txn_opener(const struct mr_kafka_txn_source *source);

#endif
