/* Transactions over the embedded broker: it runs their protocol, but readers see records of open
 * and aborted transactions, and nobody is fenced. tests/integration shows both on Apache Kafka. */
#ifndef MR_TESTS_UNIT_WORKER_KAFKA_TRANSACTING_H
#define MR_TESTS_UNIT_WORKER_KAFKA_TRANSACTING_H

#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_in.h"
#include "worker/kafka/kafka_txn.h"

#include <stdlib.h>

#define API_END_TXN      26
#define INVALID_PRODUCER 47 /* INVALID_PRODUCER_EPOCH: fenced */
#define ROOMY_NS         30000000000u
#define BRIEF_NS         3000000000u /* longer than the rest of a test takes, even on a busy machine */

struct rig {
    struct broker broker;
    struct producing producing;
    struct mr_request_topic topics[2];
    struct mr_kafka_consumer_topic read;
    struct mr_kafka_txn *txn;
    struct mr_kafka_in *in;
    struct mr_wake wake;
    atomic_bool stopping;
};

static inline enum mr_status open_txn(struct rig *rig, struct mr_error *err)
{
    struct mr_kafka_txn_options options = {.out = {.kafka = &rig->broker.kafka,
                                                   .transactional_id = "t-w",
                                                   .reported = count_report,
                                                   .context = &rig->producing},
                                           .topics = rig->topics,
                                           .timeout_ms = 10000,
                                           .stopping = &rig->stopping};
    return mr_kafka_txn_create(&rig->txn, &options, err);
}

static inline int open_broker_rig(void **state)
{
    struct rig *rig = *state = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->topics[0].name = "r";
    rig->topics[1].name = "other";
    open_broker(&rig->broker);
    rig->broker.kafka.transaction_timeout_ns = ROOMY_NS;
    add_topic(&rig->broker, "r", 1);
    add_topic(&rig->broker, "other", 1);
    add_topic(&rig->broker, "results", 1);
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    rig->read = (struct mr_kafka_consumer_topic){"r", 1};
    struct mr_kafka_consumer_options options = {
        .kafka = &rig->broker.kafka, .wake = &rig->wake, .topics = &rig->read, .topic_count = 1};
    assert_int_equal(mr_kafka_in_create(&rig->in, &options, NULL), MR_OK);
    struct mr_kafka_event assigned;
    while (!mr_kafka_in_next_event(rig->in, &assigned))
        mr_clock_sleep_ms(10);
    mr_kafka_in_complete_rebalance(rig->in);
    return 0;
}

static inline int open_rig(void **state)
{
    struct mr_error err = {0};
    open_broker_rig(state);
    if (open_txn(*state, &err) != MR_OK) fail_msg("%s", err.detail);
    return 0;
}

/* Also ends an open transaction. */
static inline int close_rig(void **state)
{
    struct rig *rig = *state;
    mr_kafka_txn_destroy(rig->txn);
    assert_true(mr_kafka_in_close(rig->in, 10000));
    mr_wake_close(&rig->wake);
    close_broker(&rig->broker);
    free(rig);
    return 0;
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

static inline void write_one(struct rig *rig)
{
    struct mr_kafka_record record = {.topic = "results", .partition = -1, .value = {"v", 1}};
    assert_int_equal(mr_kafka_out_produce(mr_kafka_txn_out(rig->txn), &record, NULL, NULL), MR_OK);
}

static inline enum mr_status commit_offsets(struct rig *rig, const struct mr_kafka_commit *commits,
                                            size_t count, struct mr_error *err)
{
    struct mr_kafka_membership *membership = mr_kafka_in_membership(rig->in);
    const struct mr_transaction_offsets offsets = {commits, count, membership};
    enum mr_status status = mr_kafka_txn_commit(rig->txn, &offsets, err);
    mr_kafka_membership_free(membership);
    return status;
}

static inline enum mr_status commit(struct rig *rig, struct mr_error *err)
{
    const struct mr_kafka_commit offset = {.offset = 3, .metadata = "text"};
    return commit_offsets(rig, &offset, 1, err);
}

#endif
