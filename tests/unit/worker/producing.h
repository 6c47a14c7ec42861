/* A producer that waits for the report of each record, and a broker with such a producer. */
#ifndef MR_TESTS_WORKER_PRODUCING_H
#define MR_TESTS_WORKER_PRODUCING_H

#include "tests/unit/worker/broker.h"
#include "worker/kafka/kafka_out.h"

#include <stdlib.h>
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

/* The state of a BUS_TEST. */
struct bus {
    struct broker broker;
    struct producing producing;
};

static inline int open_bus(void **state)
{
    struct bus *bus = *state = calloc(1, sizeof *bus);
    assert_non_null(bus);
    open_broker(&bus->broker);
    open_producing(&bus->producing, &bus->broker);
    return 0;
}

static inline int close_bus(void **state)
{
    struct bus *bus = *state;
    mr_kafka_out_destroy(bus->producing.out);
    close_broker(&bus->broker);
    free(bus);
    return 0;
}

#define BUS_TEST(name) cmocka_unit_test_setup_teardown(name, open_bus, close_bus)

#endif
