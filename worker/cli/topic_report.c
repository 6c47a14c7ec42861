#include "worker/cli/topic_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 640

bool mr_topic_reporter_at(const struct mr_config *config, size_t index, struct mr_topic *topic)
{
    size_t own = 0;
    if (mr_topics_at(config, index, topic)) return true;
    while (mr_topics_at(config, own, topic))
        own++;
    size_t skipped = index - own;
    for (size_t i = 0; i < config->reply_topics.count; i++) {
        const char *name = config->reply_topics.values[i];
        if (strchr(name, '*') || skipped-- > 0) continue;
        *topic = (struct mr_topic){name, MR_TOPIC_RESULTS};
        return true;
    }
    return false;
}

struct finding {
    const struct mr_topic_reporter *reporter;
    const struct mr_topic *topic;
};

static void on_finding(void *context, bool fails, const char *text)
{
    const struct finding *finding = context;
    char line[TEXT_BYTES];
    snprintf(line, sizeof line, "%s: %s", finding->topic->name, text);
    if (fails)
        mr_report_failure(finding->reporter->report, "topic", MR_EXIT_USAGE, line);
    else
        mr_report(finding->reporter->report, "warn", "topic", line);
}

void mr_topic_report(const struct mr_topic_reporter *reporter, const struct mr_topic *topic)
{
    struct mr_error err = {0};
    struct mr_report *report = reporter->report;
    struct finding finding = {reporter, topic};
    char values[MR_TOPIC_SETTINGS][MR_KAFKA_SETTING_BYTES], text[TEXT_BYTES];
    uint32_t count = 0;
    if (mr_kafka_admin_partitions(reporter->admin, topic->name, reporter->timeout_ms, &count,
                                  &err) != MR_OK) {
        mr_report_failure(report, "topic", MR_EXIT_UNREACHABLE, err.detail);
        return;
    }
    if (count == 0) {
        snprintf(text, sizeof text,
                 "%s does not exist; a worker creates it with the broker's settings when it "
                 "starts, millrace topics create with better ones",
                 topic->name);
        mr_report(report, "note", "topic", text);
        return;
    }
    snprintf(text, sizeof text, "%s, %" PRIu32 " partitions", topic->name, count);
    mr_report(report, "ok", "topic", text);
    const struct mr_kafka_settings settings = {mr_topic_setting_names, values, MR_TOPIC_SETTINGS};
    if (mr_kafka_admin_settings(reporter->admin, topic->name, &settings, reporter->timeout_ms,
                                &err) != MR_OK)
        mr_report(report, "note", "topic", err.detail); /* it needs DescribeConfigs */
    mr_topic_rules_check(reporter->config, topic, count, values, on_finding, &finding);
}
