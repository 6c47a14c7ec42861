/* topic_report - inspects one topic in Kafka and reports its partitions and faults, for millrace
 * check and millrace topics. Changes nothing.
 *
 * Owner: main thread. Memory: none. Errors: they become lines of the report. */
#ifndef MR_WORKER_CLI_TOPIC_REPORT_H
#define MR_WORKER_CLI_TOPIC_REPORT_H

#include "worker/cli/report.h"
#include "worker/cli/topic_rules.h"

struct mr_topic_reporter {
    struct mr_report *report;
    const struct mr_config *config;
    struct mr_kafka_admin *admin;
    uint32_t timeout_ms; /* of each query to the broker */
};

/* Fills *topic with topic number `index`: the topics of mr_topics_at, then each reply topic that is
 * a full name, with the role MR_TOPIC_REPLIES. False when there are no more. */
bool mr_topic_reporter_at(const struct mr_config *config, size_t index, struct mr_topic *topic);
void mr_topic_report(const struct mr_topic_reporter *reporter, const struct mr_topic *topic);

#endif
