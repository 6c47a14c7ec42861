/* kafka_producer_port - what publish needs of a producer, so that a simulation can put a broker in
 * memory in the place of worker/kafka/kafka_out.h.
 *
 * No call blocks. A record that was accepted is copied, and its outcome is reported once, from
 * within a later _serve.
 *
 * Owner:  the thread that opened it makes all calls. Memory: the implementation's, freed by close.
 * Errors: as said at each call. */
#ifndef MR_WORKER_KAFKA_KAFKA_PRODUCER_PORT_H
#define MR_WORKER_KAFKA_KAFKA_PRODUCER_PORT_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_record.h"

/* Who uses a producer. */
struct mr_producer_user {
    const struct mr_wake *wake; /* rung when reports or an answer of `partitions` are waiting */
    /* status MR_OK: on the broker. MR_TIMEOUT, MR_AGAIN: may be produced again. Other: never. */
    void (*reported)(void *context, void *opaque, enum mr_status status, const char *reason);
    void *context;
    const char *const *topics; /* [topic_count] written to: their leaders are fetched in advance */
    size_t topic_count;
};

struct mr_producer_port {
    void *self;
    /* MR_OK: the record is copied and will be reported with this opaque. A status of the class
     * MR_CLASS_RETRY: not accepted, try again later. MR_RECORD_TOO_LARGE, MR_BAD_CONFIG (no such
     * topic or partition), MR_BACKEND: never accepted. */
    enum mr_status (*produce)(void *self, const struct mr_kafka_record *record, void *opaque,
                              struct mr_error *err);
    /* Calls `reported` for every report that has arrived. */
    void (*serve)(void *self);
    /* Records accepted and not reported. */
    uint32_t (*pending)(void *self);
    /* Partitions of a topic, 0: no such topic. The topic is not created. MR_AGAIN: the broker was
     * asked; call again with the same topic when the wake rings. */
    enum mr_status (*partitions)(void *self, const char *topic, uint32_t *count,
                                 struct mr_error *err);
    /* MR_BACKEND with the reason once the producer is broken for good. */
    enum mr_status (*fatal)(void *self, struct mr_error *err);
    /* Records without a report are dropped without one. */
    void (*close)(void *self);
};

/* How a producer is opened. */
struct mr_producer_opener {
    void *context;
    /* Blocks until the producer can be used. The port is filled when MR_OK. */
    enum mr_status (*open)(void *context, const struct mr_producer_user *user,
                           struct mr_producer_port *port, struct mr_error *err);
};

#endif
