/* kafka_transactions_port - the functions that the transactions thread needs from a transactional
 * Kafka producer, as a table of pointers. worker/kafka/kafka_txn.h explains the functions and fills
 * the table; a simulation fills it with a broker in memory.
 *
 * _begin, _commit, _abort and _renew block until the broker has answered. In a simulation they
 * answer at once.
 *
 * Owner: one thread makes all calls except call_ns. Memory: the implementation's, freed by close.
 * Errors: MR_AGAIN: the transaction was aborted, or must be aborted. MR_BACKEND: this producer can
 * no longer be used. MR_UNREACHABLE: the broker did not answer in time. */
#ifndef MR_WORKER_KAFKA_KAFKA_TRANSACTIONS_PORT_H
#define MR_WORKER_KAFKA_KAFKA_TRANSACTIONS_PORT_H

#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_producer_port.h"

#include <stdatomic.h>

/* Offsets that are committed for the consumer group together with the records of a transaction. */
struct mr_transaction_offsets {
    const struct mr_kafka_commit *commits; /* [count] */
    size_t count;
    const struct mr_kafka_membership *membership;
};

struct mr_transactions_port {
    void *self;
    /* Returns the producer for records between begin and commit, and for partition lookups. It is
     * valid until renew; its close is not called. */
    struct mr_producer_port (*producer)(void *self);
    enum mr_status (*begin)(void *self, struct mr_error *err);
    enum mr_status (*commit)(void *self, const struct mr_transaction_offsets *offsets,
                             struct mr_error *err);
    enum mr_status (*abort)(void *self, struct mr_error *err);
    /* Call it after MR_BACKEND: replaces the producer. *committed: whether the last transaction was
     * committed. */
    enum mr_status (*renew)(void *self, const struct mr_transaction_offsets *offsets,
                            bool *committed, struct mr_error *err);
    /* When the call that is in progress began (monotonic nanoseconds); 0: no call is in progress.
     * Threads: any. */
    uint64_t (*call_ns)(const void *self);
    void (*free_membership)(void *self, struct mr_kafka_membership *membership);
    void (*close)(void *self);
};

/* The options for opening transactions. */
struct mr_transactions_user {
    struct mr_producer_user producer;
    /* true: the worker stops, so calls that wait for a broker return soon */
    const atomic_bool *stopping;
};

struct mr_transactions_opener {
    void *context;
    /* Blocks until the producer can be used. MR_OK: *out is filled. */
    enum mr_status (*open)(void *context, const struct mr_transactions_user *user,
                           struct mr_transactions_port *port, struct mr_error *err);
};

#endif
