/* An embedded broker and client options with short timeouts. The first rebalance of a group lasts
 * 3 s, in which its members send no heartbeats, and later ones a second less than the session
 * timeout. */
#ifndef MR_TESTS_WORKER_BROKER_H
#define MR_TESTS_WORKER_BROKER_H

#include "tests/fakes/kafka_fault.h"
#include "worker/kafka/kafka_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct broker {
    struct mr_kafka_mock *mock;
    struct mr_kafka_options kafka;
};

static inline void open_broker(struct broker *broker)
{
    struct mr_error err = {0};
    if (mr_kafka_mock_create(&broker->mock, 1, &err) != MR_OK) fail_msg("%s", err.detail);
    broker->kafka = (struct mr_kafka_options){.brokers = mr_kafka_mock_bootstrap(broker->mock),
                                              .group = "g",
                                              .client_id = "test",
                                              .session_timeout_ns = 4000000000u,
                                              .poll_interval_max_ns = 60000000000u,
                                              .embedded = true};
}

static inline void add_topic(struct broker *broker, const char *topic, uint32_t partitions)
{
    assert_int_equal(mr_kafka_mock_topic(broker->mock, topic, partitions, NULL), MR_OK);
}

static inline void close_broker(struct broker *broker)
{
    mr_kafka_mock_destroy(broker->mock);
}

#endif
