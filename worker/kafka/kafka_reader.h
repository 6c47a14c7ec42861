/* kafka_reader - reads all partitions of some topics without a group: the cancel topic for every
 * worker, answers for the client commands.
 *
 * Owner:  one thread. Arrivals ring the wake, if there is one. Nothing is ever committed.
 * Memory: about 8 MiB of fetched records. Errors: MR_UNREACHABLE, MR_BAD_CONFIG at creation. */
#ifndef MR_WORKER_KAFKA_KAFKA_READER_H
#define MR_WORKER_KAFKA_KAFKA_READER_H

#include "worker/base/wake.h"
#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_reader;

enum mr_kafka_from {
    MR_KAFKA_FROM_END, /* fixed at creation: a record produced after _create returns is seen */
    MR_KAFKA_FROM_BEGINNING,
    MR_KAFKA_FROM_AGE, /* what is younger than age_ms; the end where the broker cannot say */
    MR_KAFKA_FROM_TIME /* what is not older than since_ms; all of it where the broker cannot say */
};

struct mr_kafka_reader_options {
    const struct mr_kafka_options *kafka;
    const struct mr_wake *wake; /* may be NULL */
    const char *const *topics;  /* must exist */
    size_t topic_count;
    enum mr_kafka_from from;
    uint64_t age_ms;
    int64_t since_ms;    /* unix */
    bool until_end;      /* _is_behind is exact where transactions leave gaps; for one reading */
    bool uncommitted;    /* with the records of transactions that are open or aborted */
    uint32_t timeout_ms; /* of each question asked while opening */
};

enum mr_status mr_kafka_reader_create(struct mr_kafka_reader **out,
                                      const struct mr_kafka_reader_options *options,
                                      struct mr_error *err);
void mr_kafka_reader_destroy(struct mr_kafka_reader *reader);
/* Some record that was there at creation, from where it reads on, has not been taken yet. */
bool mr_kafka_reader_is_behind(const struct mr_kafka_reader *reader);
/* The next record, waiting for it up to timeout_ms; borrowed until the next call. */
bool mr_kafka_reader_take(struct mr_kafka_reader *reader, uint32_t timeout_ms,
                          struct mr_kafka_record *record);

/* The lowest offset that a partition still has. */
enum mr_status mr_kafka_reader_first(struct mr_kafka_reader *reader, const char *topic,
                                     int32_t partition, uint32_t timeout_ms, int64_t *offset,
                                     struct mr_error *err);

#endif
