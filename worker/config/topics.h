/* topics - the Kafka topics of a configuration, one after the other with the role of each.
 *
 * Threads: any (pure function). Memory: names are borrowed from the configuration. Errors: none. */
#ifndef MR_WORKER_CONFIG_TOPICS_H
#define MR_WORKER_CONFIG_TOPICS_H

#include "worker/config/config.h"

enum mr_topic_role {
    MR_TOPIC_REQUESTS, /* the only role with several topics */
    MR_TOPIC_TOKENS,
    MR_TOPIC_RESULTS,
    MR_TOPIC_CANCEL,
    MR_TOPIC_DLQ /* dead letters */
};

struct mr_topic {
    const char *name;
    enum mr_topic_role role;
};

/* Topic number index, request topics first; false when the configuration has no more. */
bool mr_topics_at(const struct mr_config *config, size_t index, struct mr_topic *topic);

#endif
