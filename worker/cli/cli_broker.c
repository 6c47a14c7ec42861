/* millrace broker: the embedded broker alone. */
#include "worker/cli/cli.h"
#include "worker/kafka/kafka_mock.h"

static enum mr_status add_topics(struct mr_kafka_mock *mock, const struct mr_config *config,
                                 struct mr_error *err)
{
    const char *topics[] = {config->tokens_topic, config->results_topic, config->cancel_topic,
                            config->dlq_topic};
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < config->request_topic_count && status == MR_OK; i++)
        status = mr_kafka_mock_topic(mock, config->request_topics[i].name, config->partitions, err);
    for (size_t i = 0; i < sizeof topics / sizeof *topics && status == MR_OK; i++)
        status = mr_kafka_mock_topic(mock, topics[i], config->partitions, err);
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
        printf("bootstrap %s\n", mr_kafka_mock_bootstrap(mock));
        fflush(stdout);
        fprintf(stderr, "This is a test broker inside one process: records are in memory, at most\n"
                        "5 MiB a partition (the oldest go first, read or not), nothing survives\n"
                        "its end, no TLS, no transactions. Stop it with Ctrl-C.\n");
        while (!mr_cli_signals_wait(&signals, -1, -1))
            ;
    } else {
        code = mr_cli_fail(&err);
    }
    mr_kafka_mock_destroy(mock);
    mr_cli_signals_close(&signals);
    return code;
}
