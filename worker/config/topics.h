/* topics - lists all Kafka topics that a configuration names, each with its role (requests, tokens,
 * results, cancel or dead letters).
 *
 * Threads: any (pure function). Memory: names are borrowed from the configuration. Errors: none. */
#ifndef MR_WORKER_CONFIG_TOPICS_H
#define MR_WORKER_CONFIG_TOPICS_H

#include "worker/config/config.h"

enum mr_topic_role {
    MR_TOPIC_REQUESTS, /* request topics: the only role that several topics can have */
    MR_TOPIC_TOKENS,
    MR_TOPIC_RESULTS,
    MR_TOPIC_CANCEL,
    MR_TOPIC_DLQ,    /* the topic of dead letters */
    MR_TOPIC_REPLIES /* a topic of --reply-topic; workers write to it and do not create it */
};

struct mr_topic {
    const char *name;
    enum mr_topic_role role;
};

/* Fills *topic with topic number `index` of the configuration, request topics first; false when
 * there are no more. */
bool mr_topics_at(const struct mr_config *config, size_t index, struct mr_topic *topic);

#endif
