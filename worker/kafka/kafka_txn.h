/* kafka_txn - a transactional producer: records and the group's offsets become visible to
 * read_committed readers together, or not at all.
 *
 * A transaction lasts from _begin to _commit. After MR_AGAIN it has been aborted: nothing of it is
 * visible, and its records are produced again in the next transaction. The broker refuses offsets
 * of a membership that is no longer current: another worker then has the partitions.
 *
 * The transactional id is the worker's. A second producer of the same id fences the first one and
 * ends the transaction that the first one left open.
 *
 * When a transaction lasts longer than its timeout (an outage, a process that was stopped), the
 * broker ends it and fences its producer, which librdkafka calls fatal. _renew opens another
 * producer with the same id. The broker reports the same error when another worker has taken the
 * id; _renew assumes that if the transaction had not lasted longer than its timeout.
 *
 * Threads: one makes all calls but _call_ns; reports come from within them. Memory: one librdkafka
 *          producer. Errors: MR_BAD_CONFIG (no transactions on this broker), MR_UNREACHABLE at
 *          creation; MR_AGAIN; MR_BACKEND once the producer is broken for good, or fenced. */
#ifndef MR_WORKER_KAFKA_KAFKA_TXN_H
#define MR_WORKER_KAFKA_KAFKA_TXN_H

#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_transactions_port.h"

struct mr_kafka_txn;

struct mr_kafka_txn_options {
    struct mr_kafka_out_options out;       /* with its transactional_id */
    const struct mr_request_topic *topics; /* what a commit's topic_index means; borrowed */
    uint32_t timeout_ms;                   /* of _create, and of one try of _renew */
    const atomic_bool *stopping; /* true: calls that wait for a broker return soon; may be NULL */
};

/* Blocks until a transaction that an earlier producer of this id left open has ended. */
enum mr_status mr_kafka_txn_create(struct mr_kafka_txn **out,
                                   const struct mr_kafka_txn_options *options,
                                   struct mr_error *err);
/* An open transaction is aborted. txn may be NULL. */
void mr_kafka_txn_destroy(struct mr_kafka_txn *txn);

enum mr_status mr_kafka_txn_begin(struct mr_kafka_txn *txn, struct mr_error *err);
/* The producer for records between _begin and _commit. A record whose report is not MR_OK makes
 * the transaction abort. */
struct mr_kafka_out *mr_kafka_txn_out(struct mr_kafka_txn *txn);
/* MR_OK: records and offsets are on the broker. MR_AGAIN: the transaction has been aborted. */
enum mr_status mr_kafka_txn_commit(struct mr_kafka_txn *txn,
                                   const struct mr_transaction_offsets *offsets,
                                   struct mr_error *err);
/* MR_AGAIN when the transaction has been aborted, else MR_BACKEND. */
enum mr_status mr_kafka_txn_abort(struct mr_kafka_txn *txn, struct mr_error *err);
/* After MR_BACKEND: replaces the broken producer. It may have broken after its last transaction was
 * committed: *committed tells whether the offsets of that transaction are the group's now.
 * MR_UNREACHABLE: may be called again. MR_BACKEND: there will be no other producer, because another
 * worker has the id or too many were replaced in a row; *err then has a reason or is unchanged. */
enum mr_status mr_kafka_txn_renew(struct mr_kafka_txn *txn,
                                  const struct mr_transaction_offsets *offsets, bool *committed,
                                  struct mr_error *err);
/* When the library call that runs now began, monotonic; no call should take more than some seconds.
 * 0: none runs. Threads: any. */
uint64_t mr_kafka_txn_call_ns(const struct mr_kafka_txn *txn);

/* What a port is opened with. What the pointers point to is borrowed for the port's life. */
struct mr_kafka_txn_source {
    const struct mr_kafka_options *kafka;
    const char *transactional_id;
    const struct mr_request_topic *topics; /* what a commit's topic_index means */
    uint32_t timeout_ms;                   /* of opening, and of one try to renew */
};

struct mr_transactions_opener mr_kafka_txn_opener(const struct mr_kafka_txn_source *source);

#endif
