#include "worker/cli/topic_report.h"

#include "worker/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 640
/* Clocks that are synchronized differ less. */
#define SKEW_MS 5000

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
        *topic = (struct mr_topic){name, MR_TOPIC_REPLIES};
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

/* Producers stamp records with their clocks. */
static void report_clocks(const struct mr_topic_reporter *reporter, const struct mr_topic *topic,
                          uint32_t partitions)
{
    struct mr_error err = {0};
    char text[TEXT_BYTES];
    bool ahead = false;
    struct mr_kafka_since since = {topic->name, partitions, mr_clock_unix_ms() + SKEW_MS};
    if (mr_kafka_admin_has_since(reporter->admin, &since, reporter->timeout_ms, &ahead, &err) !=
        MR_OK) {
        mr_report(reporter->report, "note", "topic", err.detail);
        return;
    }
    if (!ahead) return;
    snprintf(text, sizeof text,
             "%s: has records whose timestamps are more than 5 seconds in the future: the clock of "
             "a producer or of this machine is wrong, so deadlines and queue times are wrong too",
             topic->name);
    mr_report(reporter->report, "warn", "topic", text);
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
                 "%s does not exist; %smillrace topics create creates it with suitable settings",
                 topic->name,
                 topic->role == MR_TOPIC_REPLIES
                     ? "workers do not create it; "
                     : "a starting worker creates it with the broker's settings; ");
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
    if (topic->role == MR_TOPIC_REQUESTS) report_clocks(reporter, topic, count);
}
