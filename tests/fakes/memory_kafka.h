/* memory_kafka - one request topic in memory that implements intake's Kafka ports, for tests in one
 * thread.
 *
 * The test replaces the group: it queues assignments and revocations, and decides when commits are
 * answered. Other topics are empty.
 *
 * Owner: the test. Memory: records of the test's own lifetime. Errors: asserted. */
#ifndef MR_TESTS_FAKES_MEMORY_KAFKA_H
#define MR_TESTS_FAKES_MEMORY_KAFKA_H

#include "worker/kafka/kafka_consumer_port.h"
#include "worker/kafka/kafka_reader_port.h"

#define MEMORY_PARTITIONS 4
#define MEMORY_RECORDS    64 /* of one partition */
#define MEMORY_EVENTS     16
#define MEMORY_METADATA   4096

struct memory_record {
    const char *value; /* borrowed */
    int64_t timestamp_ms;
};

struct memory_partition {
    struct memory_record records[MEMORY_RECORDS];
    int64_t end;      /* offset of the next record produced */
    int64_t position; /* of the next record taken */
    bool assigned;
    int64_t committed; /* -1: none */
    char metadata[MEMORY_METADATA];
};

struct memory_kafka {
    struct memory_partition partitions[MEMORY_PARTITIONS];
    struct mr_kafka_event events[MEMORY_EVENTS]; /* [first, end) */
    struct mr_kafka_claim claims[MEMORY_EVENTS][MEMORY_PARTITIONS];
    unsigned first, end;
    struct mr_kafka_event rebalance; /* if in_progress */
    bool in_progress;
    unsigned completed; /* rebalances */
    bool lost, closed;
    bool hold_commits; /* memory_kafka_answer gives the outcome; otherwise it is MR_OK at once */
    enum mr_status refuse;          /* status with which commits are refused; MR_OK: they succeed */
    unsigned commits, commits_held; /* commits made; commits without an outcome */
    uint64_t held[MEMORY_EVENTS];   /* [commits_held] numbers of the commits without an outcome,
                                       oldest first */
    struct mr_kafka_commit last[MEMORY_PARTITIONS]; /* of the last commit */
    size_t last_count;
};

void memory_kafka_init(struct memory_kafka *kafka);
void memory_kafka_produce(struct memory_kafka *kafka, int32_t partition, const char *value,
                          int64_t timestamp_ms);
/* Queues the event for partitions [first, first + count). */
void memory_kafka_assign(struct memory_kafka *kafka, int32_t first, int32_t count);
void memory_kafka_revoke(struct memory_kafka *kafka, int32_t first, int32_t count,
                         enum mr_kafka_revoke how);
/* Sets the outcome of the oldest commit that has none. */
void memory_kafka_answer(struct memory_kafka *kafka, enum mr_status status);

/* mr_kafka_consumer_open and mr_kafka_reader_open; the context is the memory_kafka. */
enum mr_status memory_kafka_open_consumer(void *context,
                                          const struct mr_kafka_consumer_options *options,
                                          struct mr_kafka_consumer_port *out, struct mr_error *err);
enum mr_status memory_kafka_open_reader(void *context,
                                        const struct mr_kafka_reader_options *options,
                                        struct mr_kafka_reader_port *out, struct mr_error *err);

#endif
