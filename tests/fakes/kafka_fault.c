#include "tests/fakes/kafka_fault.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

void mr_kafka_mock_fail(struct mr_kafka_mock *mock, int16_t api_key, int code, uint32_t count)
{
    rd_kafka_mock_clear_request_errors(mr_kafka_mock_cluster(mock), api_key);
    for (uint32_t i = 0; i < count; i++)
        rd_kafka_mock_push_request_errors(mr_kafka_mock_cluster(mock), api_key, 1,
                                          (rd_kafka_resp_err_t)code);
}

void mr_kafka_mock_fail_at(struct mr_kafka_mock *mock, int32_t broker, int16_t api_key, int code,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        rd_kafka_mock_broker_push_request_error_rtts(mr_kafka_mock_cluster(mock), broker, api_key,
                                                     1, (rd_kafka_resp_err_t)code, 0);
}

void mr_kafka_mock_hide(struct mr_kafka_mock *mock, const char *topic, bool hidden)
{
    rd_kafka_mock_topic_set_error(mr_kafka_mock_cluster(mock), topic,
                                  hidden ? RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                                         : RD_KAFKA_RESP_ERR_NO_ERROR);
}

void mr_kafka_mock_lead(struct mr_kafka_mock *mock, const char *topic, int32_t partition,
                        int32_t broker)
{
    rd_kafka_mock_partition_set_leader(mr_kafka_mock_cluster(mock), topic, partition, broker);
}

void mr_kafka_mock_coordinate(struct mr_kafka_mock *mock, const char *group, int32_t broker)
{
    rd_kafka_mock_coordinator_set(mr_kafka_mock_cluster(mock), "group", group, broker);
}

void mr_kafka_mock_set_down(struct mr_kafka_mock *mock, int32_t broker, bool down)
{
    if (down)
        rd_kafka_mock_broker_set_down(mr_kafka_mock_cluster(mock), broker);
    else
        rd_kafka_mock_broker_set_up(mr_kafka_mock_cluster(mock), broker);
}

void mr_kafka_mock_delay(struct mr_kafka_mock *mock, int32_t broker, int16_t api_key, int code,
                         uint32_t delay_ms)
{
    rd_kafka_mock_broker_push_request_error_rtts(mr_kafka_mock_cluster(mock), broker, api_key, 1,
                                                 (rd_kafka_resp_err_t)code, (int)delay_ms);
}
