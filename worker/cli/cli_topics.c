/* millrace topics create: creates the missing topics of the configuration with the settings of
 * worker/cli/topic_rules.h, and does not change existing ones. millrace topics check: changes
 * nothing and reports faults. */
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/cli/topic_report.h"
#include "worker/config/options_table.h"
#include "worker/kafka/kafka_admin.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS 10000u

static void create(const struct mr_topic_reporter *reporter, const struct mr_topic *topic)
{
    struct mr_error err = {0};
    struct mr_topic_wishes wishes;
    struct mr_kafka_setting settings[MR_TOPIC_SETTINGS];
    bool created = false;
    mr_topic_rules_wish(&wishes, reporter->config, topic->role);
    struct mr_kafka_topic_plan plan = {.partitions = wishes.partitions,
                                       .replicas = reporter->config->replicas,
                                       .settings = settings};
    for (size_t i = 0; i < MR_TOPIC_SETTINGS; i++)
        if (wishes.values[i][0])
            settings[plan.setting_count++] =
                (struct mr_kafka_setting){mr_topic_setting_names[i], wishes.values[i]};
    if (mr_kafka_admin_create(reporter->admin, topic->name, &plan, reporter->timeout_ms, &created,
                              &err) != MR_OK)
        mr_report_failure(reporter->report, "topic",
                          err.status == MR_BAD_CONFIG ? MR_EXIT_USAGE : MR_EXIT_UNREACHABLE,
                          err.detail);
    else if (created)
        mr_report(reporter->report, "new", "topic", topic->name);
}

int mr_cli_topics(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    struct mr_report report = {.json = config->json};
    struct mr_kafka_options options = {
        .brokers = config->brokers, .client_id = "millrace-topics", .properties = &config->kafka};
    struct mr_topic_reporter reporter = {
        .report = &report, .config = config, .timeout_ms = mr_cli_timeout_ms(config, TIMEOUT_MS)};
    bool creates = strcmp(config->arguments[0], "create") == 0;
    bool embedded = false;
    if (!creates && strcmp(config->arguments[0], "check") != 0) {
        static const char *const words[] = {"create", "check"};
        const char *nearest = mr_word_nearest(config->arguments[0], words, 2);
        mr_fail(&err, MR_BAD_CONFIG, "topics %.32s: the argument is create or check%s%s%s",
                config->arguments[0], nearest ? ": did you mean " : "", nearest ? nearest : "",
                nearest ? "?" : "");
        return mr_cli_fail(&err);
    }
    enum mr_status status = mr_kafka_conf_check(&options, &err);
    if (status == MR_OK) status = mr_kafka_admin_open(&reporter.admin, &options, &err);
    if (status == MR_OK)
        status = mr_kafka_admin_probe(reporter.admin, reporter.timeout_ms, &embedded, &err);
    struct mr_topic topic;
    for (size_t i = 0; status == MR_OK && mr_topic_reporter_at(config, i, &topic); i++) {
        if (creates) create(&reporter, &topic);
        mr_topic_report(&reporter, &topic);
    }
    mr_kafka_admin_close(reporter.admin);
    return status == MR_OK ? report.code : mr_cli_fail(&err);
}
