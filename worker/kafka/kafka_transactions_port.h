/* kafka_transactions_port - what the transactions thread needs of a transactional producer, so that
 * a simulation can put a broker in memory in the place of worker/kafka/kafka_txn.h, which explains
 * the calls.
 *
 * _begin, _commit, _abort and _renew block until the broker has answered. In a simulation they
 * answer at once.
 *
 * Owner:  one thread makes all calls but _call_ns. Memory: the implementation's, freed by close.
 * Errors: MR_AGAIN: the transaction was aborted, or must be. MR_BACKEND: this producer is broken.
 *         MR_UNREACHABLE: the broker did not answer in time. */
#ifndef MR_WORKER_KAFKA_KAFKA_TRANSACTIONS_PORT_H
#define MR_WORKER_KAFKA_KAFKA_TRANSACTIONS_PORT_H

#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_producer_port.h"

#include <stdatomic.h>

/* Offsets that become the group's together with the records of a transaction. */
struct mr_transaction_offsets {
    const struct mr_kafka_commit *commits; /* [count] */
    size_t count;
    const struct mr_kafka_membership *membership;
};

struct mr_transactions_port {
    void *self;
    /* The producer for records between _begin and _commit, and for lookups. Valid until _renew; its
     * close is not called. */
    struct mr_producer_port (*producer)(void *self);
    enum mr_status (*begin)(void *self, struct mr_error *err);
    enum mr_status (*commit)(void *self, const struct mr_transaction_offsets *offsets,
                             struct mr_error *err);
    enum mr_status (*abort)(void *self, struct mr_error *err);
    /* After MR_BACKEND: replaces the producer. *committed: the last transaction was committed. */
    enum mr_status (*renew)(void *self, const struct mr_transaction_offsets *offsets,
                            bool *committed, struct mr_error *err);
    /* When the call that runs now began, monotonic; 0: none runs. Threads: any. */
    uint64_t (*call_ns)(const void *self);
    void (*free_membership)(void *self, struct mr_kafka_membership *membership);
    void (*close)(void *self);
};

/* Who uses it. */
struct mr_transactions_user {
    struct mr_producer_user producer;
    const atomic_bool *stopping; /* true: calls that wait for a broker return soon */
};

struct mr_transactions_opener {
    void *context;
    /* Blocks until the producer can be used. The port is filled when MR_OK. */
    enum mr_status (*open)(void *context, const struct mr_transactions_user *user,
                           struct mr_transactions_port *port, struct mr_error *err);
};

#endif
