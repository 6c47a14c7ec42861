/* A producer that waits for the report of each record. */
#ifndef MR_TESTS_WORKER_PRODUCING_H
#define MR_TESTS_WORKER_PRODUCING_H

#include "tests/unit/worker/broker.h"
#include "worker/kafka_out.h"

#include <string.h>

struct producing {
    struct mr_kafka_out *out;
    uint32_t reports, failures;
    enum mr_status last;
    void *last_opaque;
};

static inline void count_report(void *context, void *opaque, enum mr_status status,
                                const char *reason)
{
    (void)reason;
    struct producing *producing = context;
    producing->reports++;
    if (status != MR_OK) producing->failures++;
    producing->last = status;
    producing->last_opaque = opaque;
}

static inline void open_producing(struct producing *producing, const struct broker *broker)
{
    struct mr_error err = {0};
    *producing = (struct producing){0};
    struct mr_kafka_out_options options = {
        .kafka = &broker->kafka, .reported = count_report, .context = producing};
    if (mr_kafka_out_create(&producing->out, &options, &err) != MR_OK) fail_msg("%s", err.detail);
}

static inline struct mr_text text_of(const char *text)
{
    return (struct mr_text){text, text ? strlen(text) : 0};
}

static inline void produce(struct producing *producing, const char *topic, int32_t partition,
                           const char *key, const char *value)
{
    struct mr_error err = {0};
    struct mr_kafka_record record = {
        .topic = topic, .partition = partition, .key = text_of(key), .value = text_of(value)};
    if (mr_kafka_out_produce(producing->out, &record, NULL, &err) != MR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(mr_kafka_out_flush(producing->out, 10000), MR_OK);
    assert_int_equal(producing->last, MR_OK);
}

#endif
