/* kafka_reader - reads all partitions of some topics without a consumer group and without commits:
 * the cancel topic in every worker, answers in the client commands.
 *
 * Owner:  one thread. Arriving records ring the wake. Memory: about 8 MiB of fetched records.
 * Errors: MR_UNREACHABLE, MR_BAD_CONFIG at creation. */
#ifndef MR_WORKER_KAFKA_KAFKA_READER_H
#define MR_WORKER_KAFKA_KAFKA_READER_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_reader;

enum mr_kafka_from {
    MR_KAFKA_FROM_END, /* the end as of _create: later records are read */
    MR_KAFKA_FROM_BEGINNING,
    MR_KAFKA_FROM_AGE, /* records younger than age_ms; from the end if the lookup fails */
    MR_KAFKA_FROM_TIME /* records since since_ms; all records with the embedded broker */
};

struct mr_kafka_reader_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* may be NULL */
    const char *const *topics;  /* at least one must exist */
    size_t topic_count;
    enum mr_kafka_from from;
    uint64_t age_ms;
    int64_t since_ms;    /* unix */
    bool until_end;      /* _is_behind is exact even if transactions leave gaps in the offsets */
    bool uncommitted;    /* with until_end: also records of open and aborted transactions */
    uint32_t timeout_ms; /* of each request in _create */
};

enum mr_status mr_kafka_reader_create(struct mr_kafka_reader **out,
                                      const struct mr_kafka_reader_options *options,
                                      struct mr_error *err);
void mr_kafka_reader_destroy(struct mr_kafka_reader *reader);
/* True until _take has returned every record that existed at _create after the start position. */
bool mr_kafka_reader_is_behind(const struct mr_kafka_reader *reader);
/* Waits up to timeout_ms for the next record, borrowed until the next call; false: none. */
bool mr_kafka_reader_take(struct mr_kafka_reader *reader, uint32_t timeout_ms,
                          struct mr_kafka_record *record);

/* *offset: the lowest offset that the partition still has. */
enum mr_status mr_kafka_reader_first(struct mr_kafka_reader *reader, const char *topic,
                                     int32_t partition, uint32_t timeout_ms, int64_t *offset,
                                     struct mr_error *err);

#endif
