/* millrace check: verifies that a worker with this configuration could start. Opens the model's
 * files, connects to the broker and looks up the topics; changes nothing; reports every failure. */
#include "ops/files/model_files.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/config/topics.h"
#include "worker/kafka/kafka_admin.h"

#include <inttypes.h>

#define BROKER_TIMEOUT_MS 10000u

struct checking {
    const struct mr_config *config;
    int code; /* exit code for the first failure; MR_EXIT_DONE: no failure yet */
};

static void report_failure(struct checking *checking, const char *what, enum mr_exit code,
                           const struct mr_error *err)
{
    printf("FAIL  %-8s %s\n", what, err->detail);
    if (checking->code == MR_EXIT_DONE) checking->code = (int)code;
}

static void check_model(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_model_source source = {0};
    if (mr_model_files_read(&source, checking->config->model, &err) != MR_OK) {
        report_failure(checking, "model", MR_EXIT_MODEL, &err);
        return;
    }
    printf("ok    %-8s %s, vocabulary %" PRIu32 ", chat template %s\n", "model", source.name,
           mr_tokenizer_vocab_size(source.tokenizer),
           source.chat_template.length > 0 ? "yes" : "no");
    mr_model_source_close(&source);
}

static void check_topic(struct checking *checking, struct mr_kafka_admin *admin, const char *topic)
{
    struct mr_error err = {0};
    uint32_t count = 0;
    if (mr_kafka_admin_partitions(admin, topic, BROKER_TIMEOUT_MS, &count, &err) != MR_OK)
        report_failure(checking, "topic", MR_EXIT_UNREACHABLE, &err);
    else if (count > 0)
        printf("ok    %-8s %s, %" PRIu32 " partitions\n", "topic", topic, count);
    else
        printf("note  %-8s %s does not exist; a worker creates it when it starts\n", "topic",
               topic);
}

static void check_broker(struct checking *checking)
{
    struct mr_error err = {0};
    struct mr_kafka_admin *admin = NULL;
    struct mr_topic topic;
    bool embedded = false;
    struct mr_kafka_options options = {.brokers = checking->config->brokers,
                                       .group = checking->config->group,
                                       .client_id = "millrace-check",
                                       .properties = &checking->config->kafka};
    enum mr_status status = mr_kafka_conf_check(&options, &err);
    if (status == MR_OK) status = mr_kafka_admin_open(&admin, &options, &err);
    if (status == MR_OK) status = mr_kafka_admin_probe(admin, BROKER_TIMEOUT_MS, &embedded, &err);
    if (status == MR_OK) {
        printf("ok    %-8s %s%s\n", "broker", checking->config->brokers,
               embedded ? " (embedded test broker)" : "");
        for (size_t i = 0; mr_topics_at(checking->config, i, &topic); i++)
            check_topic(checking, admin, topic.name);
    } else {
        report_failure(checking, "broker",
                       status == MR_BAD_CONFIG ? MR_EXIT_USAGE : MR_EXIT_UNREACHABLE, &err);
    }
    mr_kafka_admin_close(admin);
}

int mr_cli_check(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct checking checking = {config, MR_EXIT_DONE};
    printf("ok    %-8s valid\n", "options");
    check_model(&checking);
    check_broker(&checking);
    return checking.code;
}
