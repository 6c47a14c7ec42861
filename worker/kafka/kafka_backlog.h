/* kafka_backlog - reads the unfinished records of a consumer group, without joining the group: the
 * ends of each partition, the group's committed offsets with their metadata, and records by offset.
 *
 * The client commits nothing and causes no rebalance. It needs the rights Describe on the group and
 * Read on the topics.
 *
 * Owner:  one thread. Memory: a librdkafka consumer with up to 8 MiB of fetched records.
 * Errors: MR_UNREACHABLE, MR_BAD_CONFIG. A call blocks for at most about four times its timeout: it
 *         sends up to four requests one after the other. */
#ifndef MR_WORKER_KAFKA_KAFKA_BACKLOG_H
#define MR_WORKER_KAFKA_KAFKA_BACKLOG_H

#include "worker/kafka/kafka_conf.h"
#include "worker/kafka/kafka_record.h"

struct mr_kafka_backlog;

/* kafka: borrowed; kafka->group is the group whose commits are read. */
enum mr_status mr_kafka_backlog_open(struct mr_kafka_backlog **out,
                                     const struct mr_kafka_options *kafka, struct mr_error *err);
/* backlog may be NULL. */
void mr_kafka_backlog_close(struct mr_kafka_backlog *backlog);

struct mr_kafka_backlog_partition {
    size_t topic; /* index among the topics of _read */
    int32_t partition;
    /* Offset of the first record, and the last stable offset: the end of what readers of committed
     * records can read. */
    int64_t begin, end;
    int64_t committed;       /* -1: the group has no committed offset */
    struct mr_text metadata; /* of that commit; borrowed until _visit returns */
};

struct mr_kafka_topics {
    const char *const *names;
    size_t count;
};

/* Calls visit for each partition of those topics that exist. The committed offsets are older than
 * the ends, so that no unfinished record is missed. */
enum mr_status mr_kafka_backlog_read(struct mr_kafka_backlog *backlog,
                                     const struct mr_kafka_topics *topics, uint32_t timeout_ms,
                                     void (*visit)(void *context,
                                                   const struct mr_kafka_backlog_partition *at),
                                     void *context, struct mr_error *err);

/* Records to read: those with from <= offset < to. */
struct mr_kafka_range {
    const char *topic;
    int32_t partition;
    int64_t from, to;
    int64_t next; /* set by _scan: every record of the range below `next` was visited */
};

struct mr_kafka_scan {
    struct mr_kafka_range *ranges; /* [count] with from < to */
    size_t count;
    uint32_t timeout_ms;
    /* The record is borrowed until the call returns. False: end the scan. */
    bool (*visit)(void *context, size_t range, const struct mr_kafka_record *record);
    void *context;
};

/* Visits the committed records of the ranges, in the order of each partition. Offsets without a
 * record, such as transaction markers, are skipped. Returns when all ranges are read, when visit
 * returns false, or after the timeout, also with MR_OK. MR_UNREACHABLE: reading is not allowed, or
 * a topic is gone. */
enum mr_status mr_kafka_backlog_scan(struct mr_kafka_backlog *backlog,
                                     const struct mr_kafka_scan *scan, struct mr_error *err);

#endif
