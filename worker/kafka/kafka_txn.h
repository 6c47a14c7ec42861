/* kafka_txn - a producer whose records and the group's offsets are on the broker together, or not
 * at all: a record counts for read_committed readers when the offset that it ends is committed.
 *
 * The transactional id is the worker's: who opens a second producer with it fences the first, and
 * ends what it left open. A transaction lasts from _begin to _commit; after MR_AGAIN it has been
 * aborted, nothing of it is visible, and its records are produced again in a next one. Offsets are
 * refused by the broker when the membership is no longer the group's: then somebody else has the
 * partitions.
 *
 * A broker gives a transaction up that lasts longer than its timeout (an outage, a process that was
 * stopped), and the producer with it; librdkafka calls that fatal. _renew then opens another one
 * with the same id. A broker answers in the same words when another worker has taken the id: it did
 * if the transaction had not lasted that long.
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
    const atomic_bool *stopping; /* true: what waits for a broker gives up soon; may be NULL */
};

/* Waits until what an earlier producer of this id left open has ended. */
enum mr_status mr_kafka_txn_create(struct mr_kafka_txn **out,
                                   const struct mr_kafka_txn_options *options,
                                   struct mr_error *err);
/* An open transaction is aborted. txn may be NULL. */
void mr_kafka_txn_destroy(struct mr_kafka_txn *txn);

enum mr_status mr_kafka_txn_begin(struct mr_kafka_txn *txn, struct mr_error *err);
/* To produce with, between _begin and _commit. A record whose report is not MR_OK ends in an abort.
 */
struct mr_kafka_out *mr_kafka_txn_out(struct mr_kafka_txn *txn);
/* MR_OK: records and offsets are on the broker. MR_AGAIN: the transaction has been aborted. */
enum mr_status mr_kafka_txn_commit(struct mr_kafka_txn *txn,
                                   const struct mr_transaction_offsets *offsets,
                                   struct mr_error *err);
/* MR_AGAIN, or MR_BACKEND. */
enum mr_status mr_kafka_txn_abort(struct mr_kafka_txn *txn, struct mr_error *err);
/* After MR_BACKEND: another producer instead of the broken one. The broken one may have been broken
 * after its last transaction was through: *committed says whether the offsets it was to commit are
 * the group's. MR_UNREACHABLE: may be called again. Otherwise, and if another worker has the id,
 * there is nothing to go on with; *err is as it was then, if it said something. */
enum mr_status mr_kafka_txn_renew(struct mr_kafka_txn *txn,
                                  const struct mr_transaction_offsets *offsets, bool *committed,
                                  struct mr_error *err);
/* Since when the library has been in one call, none of which should take long; 0: it is in none.
 * Threads: any. */
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
