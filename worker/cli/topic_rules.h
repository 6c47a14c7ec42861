/* topic_rules - the settings that the topics of a fleet need: those for creating them, and the
 * faults of existing ones.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_CLI_TOPIC_RULES_H
#define MR_WORKER_CLI_TOPIC_RULES_H

#include "worker/config/config.h"
#include "worker/config/topics.h"
#include "worker/kafka/kafka_admin.h"

/* The settings with rules, by index. */
enum mr_topic_setting {
    MR_TOPIC_CLEANUP,   /* cleanup.policy */
    MR_TOPIC_RETENTION, /* retention.ms */
    MR_TOPIC_BYTES,     /* max.message.bytes */
    MR_TOPIC_SETTINGS
};
extern const char *const mr_topic_setting_names[MR_TOPIC_SETTINGS];

struct mr_topic_wishes {
    uint32_t partitions;
    char values[MR_TOPIC_SETTINGS][MR_KAFKA_SETTING_BYTES];
};

/* Fills in the settings with which to create a topic of this role. */
void mr_topic_rules_wish(struct mr_topic_wishes *wishes, const struct mr_config *config,
                         enum mr_topic_role role);

/* Called with each fault. fails: a worker would lose or repeat requests; otherwise it is a warning.
 */
typedef void mr_topic_rules_report(void *context, bool fails, const char *text);

/* values: the topic's settings; "": unknown. */
void mr_topic_rules_check(const struct mr_config *config, const struct mr_topic *topic,
                          uint32_t partitions, char (*values)[MR_KAFKA_SETTING_BYTES],
                          mr_topic_rules_report *report, void *context);

#endif
