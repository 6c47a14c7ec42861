/* millrace broker: runs the embedded test broker until a signal. */
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/config/topics.h"
#include "worker/kafka/kafka_mock.h"

static enum mr_status add_topics(struct mr_kafka_mock *mock, const struct mr_config *config,
                                 struct mr_error *err)
{
    struct mr_topic topic;
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && mr_topics_at(config, i, &topic); i++)
        status = mr_kafka_mock_topic(mock, topic.name, config->partitions, err);
    return status;
}

int mr_cli_broker(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_cli_signals signals;
    struct mr_kafka_mock *mock = NULL;
    struct mr_error err = {0};
    mr_cli_signals_open(&signals);
    enum mr_status status = mr_kafka_mock_create(&mock, config->broker_count, &err);
    if (status == MR_OK) status = add_topics(mock, config, &err);
    int code = MR_EXIT_DONE;
    if (status == MR_OK) {
        /* the first line of stdout is for scripts; on a terminal the notice comes first */
        fprintf(stderr,
                "This broker is for tests: it keeps records in memory, at most 5 MiB per\n"
                "partition (older records are dropped, read or not), loses all of them at\n"
                "its end, and has no TLS and no transactions. It answers an empty fetch only\n"
                "after the client's fetch.wait.max.ms (500 in librdkafka): set that to 10 to\n"
                "see tokens as they come. Stop it with Ctrl-C.\n");
        printf("bootstrap %s\n", mr_kafka_mock_bootstrap(mock));
        fflush(stdout);
        while (!mr_cli_signals_wait(&signals, -1, -1))
            ;
    } else {
        code = mr_cli_fail(&err);
    }
    mr_kafka_mock_destroy(mock);
    mr_cli_signals_close(&signals);
    return code;
}
