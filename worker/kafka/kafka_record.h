/* kafka_record - a Kafka record, an offset commit and the ends of a partition, as plain structs
 * without librdkafka. A record borrows its memory; the function that returns the record says from
 * whom and for how long. */
#ifndef MR_WORKER_KAFKA_KAFKA_RECORD_H
#define MR_WORKER_KAFKA_KAFKA_RECORD_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_kafka_header {
    const char *name;
    const void *value; /* NULL: the header has a null value */
    size_t length;
};

/* The offset to commit for one partition, with its metadata text. */
struct mr_kafka_commit {
    size_t topic_index; /* index among the request topics */
    int32_t partition;
    int64_t offset;
    const char *metadata; /* stored with the offset; NUL-terminated */
};

/* Offset of the first record that a partition still has, and the offset after the last one. */
struct mr_kafka_ends {
    int64_t begin, end;
};

/* most headers of one record; further headers are ignored */
#define MR_KAFKA_HEADERS_MAX ((size_t)128)

struct mr_kafka_record {
    const char *topic;
    int32_t partition; /* when producing: -1: chosen by hashing the key */
    int64_t offset;
    int64_t timestamp_ms; /* milliseconds since 1970; 0: unknown */
    bool append_time;     /* true: the broker set the timestamp; false: the producer did */
    struct mr_text key;   /* key.bytes NULL: the key is null */
    struct mr_text value; /* value.bytes NULL: the value is null (a tombstone) */
    const struct mr_kafka_header *headers;
    size_t header_count;
};

/* Returns the last header of that name, or NULL. */
const struct mr_kafka_header *mr_kafka_record_header(const struct mr_kafka_record *record,
                                                     const char *name);

#endif
