/* bus - the topics that a worker writes, in memory, for lives in one thread. It keeps the records
 * that the broker has acknowledged, in their order. Two producers write to it, one with
 * transactions and one without. It also wraps memory_kafka for intake, to record the commits.
 *
 * It checks the guarantees with tests/integration/verdict/verdict.h: every request has a result,
 * and no offset was committed before the result of its record was acknowledged.
 *
 * Owner: the test. Memory: fixed. Errors: SWEEP_CHECK. */
#ifndef MR_TESTS_SWEEP_BUS_H
#define MR_TESTS_SWEEP_BUS_H

#include "tests/fakes/memory_kafka.h"
#include "worker/intake/intake.h"
#include "worker/kafka/kafka_transactions_port.h"

#define BUS_RECORDS_MAX 512u
#define BUS_COMMITS_MAX 512u
#define BUS_VALUE_BYTES 2048u

struct bus_record {
    char topic[16];
    char value[BUS_VALUE_BYTES];
    size_t length;
    int32_t from_partition; /* for a dead letter: partition and offset of the rejected record; -1:
                               unknown */
    int64_t from_offset;
    void *opaque;
    bool transactional, reported,
        dropped;   /* dropped: its transaction was aborted, or its producer closed */
    int64_t order; /* when the broker acknowledged the record; 0: it did not */
};

struct bus_commit {
    int32_t partition;
    int64_t offset, order;
    char metadata[MEMORY_METADATA];
};

struct bus {
    struct memory_kafka kafka;
    struct bus_record records[BUS_RECORDS_MAX];
    uint32_t record_count, closed_count; /* records below closed_count belong to closed producers */
    struct bus_commit commits[BUS_COMMITS_MAX];
    uint32_t commit_count;
    int64_t order; /* of the last event */
    struct mr_producer_user user;
    struct mr_transactions_user transactions_user;
    const char *cancel_id; /* the one cancel record that a reader gets; NULL: none */
    bool cancel_read;
};

void bus_init(struct bus *bus);
/* A worker ends, or has crashed: the group may assign its partitions to the next one. */
void bus_release(struct bus *bus);
struct mr_producer_opener bus_producer(struct bus *bus);
struct mr_transactions_opener bus_transactions(struct bus *bus);
/* For mr_intake_options; the context is the bus. */
enum mr_status bus_open_consumer(void *context, const struct mr_kafka_consumer_options *options,
                                 struct mr_kafka_consumer_port *out, struct mr_error *err);
enum mr_status bus_open_reader(void *context, const struct mr_kafka_reader_options *options,
                               struct mr_kafka_reader_port *out, struct mr_error *err);

/* Whether every offset is committed. */
bool bus_is_done(const struct bus *bus);
/* Checks all guarantees. Call this when every request must have been answered. */
void bus_judge(const struct bus *bus);

#endif
