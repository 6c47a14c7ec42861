#include "worker/config/topics.h"

bool mr_topics_at(const struct mr_config *config, size_t index, struct mr_topic *topic)
{
    const struct mr_topic others[] = {{config->tokens_topic, MR_TOPIC_TOKENS},
                                      {config->results_topic, MR_TOPIC_RESULTS},
                                      {config->cancel_topic, MR_TOPIC_CANCEL},
                                      {config->dlq_topic, MR_TOPIC_DLQ}};
    size_t request_topics = config->request_topic_count;
    if (index >= request_topics + sizeof others / sizeof *others) return false;
    *topic = index < request_topics
                 ? (struct mr_topic){config->request_topics[index].name, MR_TOPIC_REQUESTS}
                 : others[index - request_topics];
    return true;
}
