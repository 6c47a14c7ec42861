/* kafka_record - a Kafka record and a commit as plain structs, without librdkafka. A record borrows
 * its memory; the function that returns it documents from whom and for how long. */
#ifndef MR_WORKER_KAFKA_KAFKA_RECORD_H
#define MR_WORKER_KAFKA_KAFKA_RECORD_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_kafka_header {
    const char *name;
    const void *value; /* NULL: a null value */
    size_t length;
};

/* The offset to commit for one partition. */
struct mr_kafka_commit {
    size_t topic_index; /* among the request topics */
    int32_t partition;
    int64_t offset;
    const char *metadata; /* NUL-terminated */
};

#define MR_KAFKA_HEADERS_MAX ((size_t)128) /* of one record; further ones are ignored */

struct mr_kafka_record {
    const char *topic;
    int32_t partition; /* when producing, -1: chosen by the key */
    int64_t offset;
    int64_t timestamp_ms; /* unix; 0: unknown */
    bool append_time;     /* the broker set the timestamp, not the producer */
    struct mr_text key;   /* bytes NULL: null key */
    struct mr_text value; /* bytes NULL: null value (a tombstone) */
    const struct mr_kafka_header *headers;
    size_t header_count;
};

/* The last header of that name, or NULL. */
const struct mr_kafka_header *mr_kafka_record_header(const struct mr_kafka_record *record,
                                                     const char *name);

#endif
