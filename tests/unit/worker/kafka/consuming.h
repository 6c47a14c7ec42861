/* consuming - a consumer of request topics for tests, which handles its events at once. */
#ifndef MR_TESTS_UNIT_WORKER_KAFKA_CONSUMING_H
#define MR_TESTS_UNIT_WORKER_KAFKA_CONSUMING_H

#include "tests/unit/worker/broker.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_in.h"

#include <stdio.h>
#include <string.h>

#define WAIT_NS        60000000000u
#define PARTITIONS_MAX 70

/* A consumer, and the events that it has returned. */
struct consuming {
    struct mr_kafka_in *in;
    struct mr_wake wake;
    int64_t committed[PARTITIONS_MAX], start[PARTITIONS_MAX];
    char metadata[PARTITIONS_MAX][64];
    int32_t generation[PARTITIONS_MAX];
    bool held[PARTITIONS_MAX], closed_gate[PARTITIONS_MAX], lost;
    uint32_t revoked;
    enum mr_kafka_revoke how;
    uint32_t commits_ok, commits_failed;
    uint64_t number, committed_number;
    enum mr_status committed_status;
    size_t refused; /* partitions in the last commit outcome, and the first of them */
    int32_t refused_partition;
    bool keep_revoking, revoking; /* the test completes revocations itself */
};

static inline void on_assigned(struct consuming *consuming, struct mr_kafka_claim *claims,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t partition = claims[i].partition;
        consuming->held[partition] = true;
        consuming->committed[partition] = claims[i].committed;
        consuming->generation[partition] = claims[i].generation;
        if (consuming->start[partition] >= 0) claims[i].start = consuming->start[partition];
        assert_true(claims[i].metadata.length < sizeof consuming->metadata[0]);
        memset(consuming->metadata[partition], 0, sizeof consuming->metadata[0]);
        if (claims[i].metadata.length > 0)
            memcpy(consuming->metadata[partition], claims[i].metadata.bytes,
                   claims[i].metadata.length);
    }
}

static inline void on_revoked(struct consuming *consuming, const struct mr_kafka_event *event)
{
    consuming->lost = event->how == MR_KAFKA_REVOKE_LOST;
    consuming->how = event->how;
    consuming->revoked += (uint32_t)event->claim_count;
    for (size_t i = 0; i < event->claim_count; i++)
        consuming->held[event->claims[i].partition] = false;
}

/* Serves the consumer and handles its events; assignments are completed at once, and with
 * hold_revoke the test completes revocations. */
static inline enum mr_status serve(struct consuming *consuming, struct mr_error *err)
{
    struct mr_kafka_event event;
    enum mr_status status = mr_kafka_in_serve(consuming->in, err);
    while (mr_kafka_in_next_event(consuming->in, &event)) {
        if (event.kind == MR_KAFKA_EVENT_COMMITTED) {
            consuming->committed_status = event.status;
            consuming->committed_number = event.number;
            consuming->refused = event.claim_count;
            if (event.claim_count > 0) consuming->refused_partition = event.claims[0].partition;
            if (event.status == MR_OK)
                consuming->commits_ok++;
            else
                consuming->commits_failed++;
            continue;
        }
        if (event.kind == MR_KAFKA_EVENT_ASSIGNED)
            on_assigned(consuming, event.claims, event.claim_count);
        else
            on_revoked(consuming, &event);
        consuming->revoking = event.kind == MR_KAFKA_EVENT_REVOKED;
        if (!consuming->revoking || !consuming->keep_revoking)
            mr_kafka_in_complete_rebalance(consuming->in);
    }
    return status;
}

/* Commits and waits for the outcome. */
static inline enum mr_status commit(struct consuming *consuming,
                                    const struct mr_kafka_commit *commits, size_t count)
{
    uint32_t outcomes = consuming->commits_ok + consuming->commits_failed;
    assert_int_equal(mr_kafka_in_commit(consuming->in, commits, count, ++consuming->number, NULL),
                     MR_OK);
    while (consuming->commits_ok + consuming->commits_failed == outcomes) {
        assert_int_equal(serve(consuming, NULL), MR_OK);
        mr_wake_wait(&consuming->wake, 50000000u);
    }
    assert_int_equal(consuming->committed_number, consuming->number);
    return consuming->committed_status;
}

static inline void open_consuming(struct consuming *consuming, struct broker *broker,
                                  const struct mr_kafka_consumer_topic *topics, size_t count,
                                  bool join_group)
{
    struct mr_error err = {0};
    *consuming = (struct consuming){.in = NULL};
    for (int i = 0; i < PARTITIONS_MAX; i++)
        consuming->start[i] = -1;
    assert_int_equal(mr_wake_open(&consuming->wake, NULL), MR_OK);
    struct mr_kafka_consumer_options options = {.kafka = &broker->kafka,
                                                .wake = &consuming->wake,
                                                .topics = topics,
                                                .topic_count = count,
                                                .join_group = join_group};
    if (mr_kafka_in_create(&consuming->in, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    while (!join_group && !consuming->held[0]) {
        assert_int_equal(serve(consuming, NULL), MR_OK);
        mr_wake_wait(&consuming->wake, 50000000u);
    }
}

static inline void close_consuming(struct consuming *consuming)
{
    assert_true(mr_kafka_in_close(consuming->in, 10000));
    mr_wake_close(&consuming->wake);
}

static inline bool gate(void *context, size_t topic_index, int32_t partition)
{
    (void)topic_index;
    struct consuming *consuming = context;
    return !consuming->closed_gate[partition];
}

/* Waits for the next record; false: none comes within a minute. */
static inline bool take(struct consuming *consuming, struct mr_kafka_record *record)
{
    size_t index = 0;
    uint64_t until_ns = mr_clock_ns() + WAIT_NS;
    while (mr_clock_ns() < until_ns) {
        struct mr_error err = {0};
        if (serve(consuming, &err) != MR_OK) fail_msg("%s", err.detail);
        if (mr_kafka_in_take(consuming->in, gate, consuming, record, &index)) return true;
        mr_wake_wait(&consuming->wake, 50000000u);
    }
    return false;
}

#endif
