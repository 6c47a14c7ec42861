/* kafka_reader_port - reads whole Kafka topics without a consumer group, as a table of function
 * pointers. worker/kafka/kafka_reader.h fills the table; a test or a simulation fills it with a
 * broker in memory.
 *
 * Threads: all calls from the owner. Memory: a record is borrowed until the next take or close.
 * Errors: MR_UNREACHABLE, MR_BAD_CONFIG when the reader is opened. */
#ifndef MR_WORKER_KAFKA_KAFKA_READER_PORT_H
#define MR_WORKER_KAFKA_KAFKA_READER_PORT_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_options;

enum mr_kafka_from {
    MR_KAFKA_FROM_END, /* starts at the current end: only later records are read */
    MR_KAFKA_FROM_BEGINNING,
    /* starts with the records younger than age_ms; at the end if the lookup by time fails */
    MR_KAFKA_FROM_AGE,
    /* starts with the records since since_ms; with the embedded test broker at the beginning */
    MR_KAFKA_FROM_TIME,
    /* starts at `offsets`; a partition whose log does not reach there starts at the beginning */
    MR_KAFKA_FROM_OFFSETS
};

struct mr_kafka_reader_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* rung when records arrive; may be NULL */
    const char *const *topics;  /* [topic_count] topics to read; at least one must exist */
    size_t topic_count;
    bool one_partition; /* read only `partition` of each topic, instead of all */
    int32_t partition;
    enum mr_kafka_from from;
    uint64_t age_ms;
    int64_t since_ms; /* milliseconds since 1970 */
    /* with FROM_OFFSETS and one topic: [offset_count] of partitions 0 to offset_count - 1; further
     * partitions start at their beginning */
    const int64_t *offsets;
    size_t offset_count;
    bool until_end;      /* is_behind is exact even if transactions leave gaps in the offsets */
    bool uncommitted;    /* with until_end: also reads records of open and aborted transactions */
    uint32_t timeout_ms; /* limit for each request to the broker while the reader is opened */
};

struct mr_kafka_reader_port {
    void *self;
    /* Returns the next record; false: no record has arrived. */
    bool (*take)(void *self, struct mr_kafka_record *record);
    /* True: some record that existed when the reader was opened has not been taken yet. */
    bool (*is_behind)(void *self);
    enum mr_status (*ends)(void *self, const char *topic, int32_t partition, uint32_t timeout_ms,
                           struct mr_kafka_ends *ends, struct mr_error *err);
    void (*close)(void *self);
};

/* The function with which intake and recovery open their readers. */
typedef enum mr_status (*mr_kafka_reader_open)(void *context,
                                               const struct mr_kafka_reader_options *options,
                                               struct mr_kafka_reader_port *out,
                                               struct mr_error *err);

#endif
