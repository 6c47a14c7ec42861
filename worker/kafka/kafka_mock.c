#include "worker/kafka/kafka_mock.h"

#include "codec/check.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdlib.h>

struct mr_kafka_mock {
    /* the librdkafka client that the mock cluster belongs to; it has no other use */
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *cluster;
};

enum mr_status mr_kafka_mock_create(struct mr_kafka_mock **out, uint32_t broker_count,
                                    struct mr_error *err)
{
    MR_ASSERT(broker_count > 0);
    *out = NULL;
    char reason[200];
    struct mr_kafka_mock *mock = calloc(1, sizeof *mock);
    if (!mock) return mr_fail(err, MR_NOMEM, "no memory for the embedded broker");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "client.id", "millrace-broker", reason, sizeof reason);
    rd_kafka_conf_set(conf, "log_level", "4", reason, sizeof reason);
    mock->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (!mock->host) {
        rd_kafka_conf_destroy(conf);
        mr_fail(err, MR_NOMEM, "embedded broker: %s", reason);
        goto fail_mock;
    }
    mock->cluster = rd_kafka_mock_cluster_new(mock->host, (int)broker_count);
    if (!mock->cluster) {
        mr_fail(err, MR_NOMEM, "the embedded broker could not open a local port");
        goto fail_host;
    }
    *out = mock;
    return MR_OK;

fail_host:
    rd_kafka_destroy(mock->host);
fail_mock:
    free(mock);
    return MR_NOMEM;
}

void mr_kafka_mock_destroy(struct mr_kafka_mock *mock)
{
    if (!mock) return;
    rd_kafka_mock_cluster_destroy(mock->cluster);
    rd_kafka_destroy(mock->host);
    free(mock);
}

const char *mr_kafka_mock_bootstrap(const struct mr_kafka_mock *mock)
{
    return rd_kafka_mock_cluster_bootstraps(mock->cluster);
}

enum mr_status mr_kafka_mock_topic(struct mr_kafka_mock *mock, const char *topic,
                                   uint32_t partition_count, struct mr_error *err)
{
    if (partition_count == 0)
        return mr_fail(err, MR_BAD_CONFIG, "topic %s needs at least one partition", topic);
    rd_kafka_resp_err_t code =
        rd_kafka_mock_topic_create(mock->cluster, topic, (int)partition_count, 1);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        return MR_OK;
    return mr_fail(err, MR_BAD_CONFIG, "embedded broker: topic %s: %s", topic,
                   rd_kafka_err2str(code));
}

struct rd_kafka_mock_cluster_s *mr_kafka_mock_cluster(const struct mr_kafka_mock *mock)
{
    return mock->cluster;
}
