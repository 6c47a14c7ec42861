#include "worker/cli/topic_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS ((int64_t)60000)
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)
/* bytes of key, headers and batch, and of the headers that a dead letter adds */
#define RECORD_OVERHEAD ((int64_t)100000)
/* the largest record of a worker (kafka_conf.c, message.max.bytes) */
#define RESULT_BYTES ((int64_t)4194304)
/* the broker's default for how long it keeps offsets of a group without members
 * (offsets.retention.minutes) */
#define OFFSETS_MS (7 * DAY_MS)

const char *const mr_topic_setting_names[MR_TOPIC_SETTINGS] = {"cleanup.policy", "retention.ms",
                                                               "max.message.bytes"};

/* Needs of a role. Bytes 0: the broker's default is enough. */
struct need {
    uint32_t partitions;      /* 0: --requests-partitions */
    int64_t retention_ms;     /* when created */
    int64_t retention_ms_min; /* below this, records may be deleted while they are needed */
    int64_t bytes;
};

static struct need need_of(const struct mr_config *config, enum mr_topic_role role)
{
    int64_t record = (int64_t)config->max_record_bytes + RECORD_OVERHEAD;
    switch (role) {
    case MR_TOPIC_REQUESTS:
        return (struct need){0, 3 * DAY_MS, HOUR_MS, record};
    case MR_TOPIC_TOKENS:
        return (struct need){8, HOUR_MS, 5 * MINUTE_MS, 0};
    case MR_TOPIC_RESULTS:
    case MR_TOPIC_REPLIES:
        return (struct need){8, DAY_MS, HOUR_MS, RESULT_BYTES};
    case MR_TOPIC_CANCEL:
        return (struct need){1, HOUR_MS, 10 * MINUTE_MS, 0};
    default:
        return (struct need){1, 14 * DAY_MS, DAY_MS, record};
    }
}

void mr_topic_rules_wish(struct mr_topic_wishes *wishes, const struct mr_config *config,
                         enum mr_topic_role role)
{
    struct need need = need_of(config, role);
    *wishes = (struct mr_topic_wishes){
        .partitions = need.partitions > 0 ? need.partitions : config->requests_partitions,
        .values[MR_TOPIC_CLEANUP] = "delete"};
    snprintf(wishes->values[MR_TOPIC_RETENTION], MR_KAFKA_SETTING_BYTES, "%" PRId64,
             need.retention_ms);
    if (need.bytes > 0)
        snprintf(wishes->values[MR_TOPIC_BYTES], MR_KAFKA_SETTING_BYTES, "%" PRId64, need.bytes);
}

static void check_retention(enum mr_topic_role role, const struct need *need, const char *text,
                            mr_topic_rules_report *report, void *context)
{
    char line[320];
    if (!text[0]) return;
    int64_t ms = strtoll(text, NULL, 10);
    bool requests = role == MR_TOPIC_REQUESTS;
    if (ms >= 0 && ms < need->retention_ms_min) {
        snprintf(line, sizeof line,
                 "retention.ms %" PRId64 " is short: records may be deleted before they are read; "
                 "topics create sets %" PRId64,
                 ms, need->retention_ms);
        report(context, requests || role == MR_TOPIC_RESULTS, line);
    }
    if (requests && (ms < 0 || ms >= OFFSETS_MS)) {
        snprintf(line, sizeof line,
                 "retention.ms %" PRId64 " is as long as Kafka keeps offsets of a group without "
                 "workers (7 days by default): after that, answered requests would run again",
                 ms);
        report(context, false, line);
    }
}

void mr_topic_rules_check(const struct mr_config *config, const struct mr_topic *topic,
                          uint32_t partitions, char (*values)[MR_KAFKA_SETTING_BYTES],
                          mr_topic_rules_report *report, void *context)
{
    char line[320];
    struct need need = need_of(config, topic->role);
    if (strstr(values[MR_TOPIC_CLEANUP], "compact")) {
        snprintf(line, sizeof line,
                 "cleanup.policy %s: compaction deletes records that are needed; set delete",
                 values[MR_TOPIC_CLEANUP]);
        report(context, true, line);
    }
    check_retention(topic->role, &need, values[MR_TOPIC_RETENTION], report, context);
    if (values[MR_TOPIC_BYTES][0] && strtoll(values[MR_TOPIC_BYTES], NULL, 10) < need.bytes) {
        snprintf(line, sizeof line,
                 "max.message.bytes %s: the broker refuses the largest records; topics create sets "
                 "%" PRId64,
                 values[MR_TOPIC_BYTES], need.bytes);
        report(context, false, line);
    }
    if (topic->role == MR_TOPIC_REQUESTS && partitions == 1)
        report(context, false, "1 partition: only one worker can read it");
}
