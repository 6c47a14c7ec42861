/* kafka_producer_port - the functions that publish needs from a Kafka producer, as a table of
 * pointers: worker/kafka/kafka_out.h fills it, and a simulation fills it with a broker in memory.
 *
 * No function blocks. An accepted record is copied, and a later call of serve reports its outcome,
 * exactly once.
 *
 * Owner: the thread that opened the producer makes all calls. Memory: the implementation's, freed
 * by close. Errors: listed at each function. */
#ifndef MR_WORKER_KAFKA_KAFKA_PRODUCER_PORT_H
#define MR_WORKER_KAFKA_KAFKA_PRODUCER_PORT_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_record.h"

/* The options for opening a producer. */
struct mr_producer_user {
    /* rung when delivery reports (see `attend`) or an answer for `partitions` have arrived */
    const struct mr_wake *wake;
    /* Called with a record's outcome. MR_OK: the broker has the record. Other statuses are those of
     * worker/kafka/kafka_errors.h: of the class MR_CLASS_RETRY, or MR_UNREACHABLE, if the record
     * may be accepted later. */
    void (*reported)(void *context, void *opaque, enum mr_status status, const char *reason);
    void *context;
    /* [topic_count] topics that will be written to; their leaders are looked up in advance */
    const char *const *topics;
    size_t topic_count;
};

struct mr_producer_port {
    void *self;
    /* MR_OK: the record is copied and will be reported with this opaque. A status of the class
     * MR_CLASS_RETRY: not accepted, try again later. MR_RECORD_TOO_LARGE, MR_BAD_CONFIG (no such
     * topic or partition), MR_MALFORMED, MR_BACKEND: the record will never be accepted. */
    enum mr_status (*produce)(void *self, const struct mr_kafka_record *record, void *opaque,
                              struct mr_error *err);
    /* Calls `reported` for every delivery report that has arrived. */
    void (*serve)(void *self);
    /* Sets whether delivery reports ring the wake; initially they do. Waking a sleeping thread
     * costs more than handling a dozen reports, and most reports can wait until the thread wakes up
     * for another reason. Returns true if `on` and there are reports that did not ring. */
    bool (*attend)(void *self, bool on);
    /* Number of records that were accepted and not yet reported. */
    uint32_t (*pending)(void *self);
    /* *count: number of partitions of a topic; 0: no such topic. The topic is not created. A status
     * of the class MR_CLASS_RETRY, or MR_UNREACHABLE: the answer is not there yet; call again with
     * the same topic when the wake rings, or later. */
    enum mr_status (*partitions)(void *self, const char *topic, uint32_t *count,
                                 struct mr_error *err);
    /* MR_BACKEND, with the reason in err, when the producer can no longer be used. */
    enum mr_status (*fatal)(void *self, struct mr_error *err);
    /* Drops the records whose outcome was not reported; they get no report. */
    void (*close)(void *self);
};

/* A function that opens producers, and its context. */
struct mr_producer_opener {
    void *context;
    /* Blocks until the producer can be used. MR_OK: *out is filled. */
    enum mr_status (*open)(void *context, const struct mr_producer_user *user,
                           struct mr_producer_port *port, struct mr_error *err);
};

#endif
