/* kafka_fault - faults of the embedded broker, for tests: errors, delays, brokers that are down,
 * topics that vanish. Broker ids begin with 1. API keys and error codes are Kafka's.
 *
 * Threads: as worker/kafka/kafka_mock.h. Memory: none. Errors: none. */
#ifndef MR_TESTS_FAKES_KAFKA_FAULT_H
#define MR_TESTS_FAKES_KAFKA_FAULT_H

#include "worker/kafka/kafka_mock.h"

#include <stdbool.h>

/* The next `count` requests with this API key fail with this error code. This replaces an earlier
 * call for the same key. */
void mr_kafka_mock_fail(struct mr_kafka_mock *mock, int16_t api_key, int code, uint32_t count);
/* Like mr_kafka_mock_fail, but only requests to one broker fail. */
void mr_kafka_mock_fail_at(struct mr_kafka_mock *mock, int32_t broker, int16_t api_key, int code,
                           uint32_t count);
/* Hides a topic as if it was deleted, or shows it again: in the answers to metadata requests, not
 * in others. */
void mr_kafka_mock_hide(struct mr_kafka_mock *mock, const char *topic, bool hidden);
/* Makes the broker the leader of a partition (_lead), or the coordinator of a group
 * (_coordinate). */
void mr_kafka_mock_lead(struct mr_kafka_mock *mock, const char *topic, int32_t partition,
                        int32_t broker);
void mr_kafka_mock_coordinate(struct mr_kafka_mock *mock, const char *group, int32_t broker);
/* Stops or restarts a broker. A stopped (down) broker closes its connections and accepts none. */
void mr_kafka_mock_set_down(struct mr_kafka_mock *mock, int32_t broker, bool down);
/* The next request with this API key to this broker is answered delay_ms late, with this error
 * code; 0: without an error. */
void mr_kafka_mock_delay(struct mr_kafka_mock *mock, int32_t broker, int16_t api_key, int code,
                         uint32_t delay_ms);

#endif
