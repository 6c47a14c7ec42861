/* request_topic - the settings of one request topic, and the values of a repeatable option.
 *
 * Memory: texts belong to the configuration (worker/config/config.h). */
#ifndef MR_WORKER_CONFIG_REQUEST_TOPIC_H
#define MR_WORKER_CONFIG_REQUEST_TOPIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_TENANT_DEFAULT "default"    /* the tenant of a topic without one */
#define MR_LIST_MAX       ((size_t)64) /* most values of one repeatable option */

/* The values of a repeatable option. */
struct mr_text_list {
    const char *values[MR_LIST_MAX];
    size_t count;
};

/* One --requests-topic NAME[,priority=N]..., parsed; see the option's help. */
struct mr_request_topic {
    const char *name, *tenant;
    uint32_t tenant_index; /* same number for all topics of one tenant; below tenant_count */
    int32_t priority;      /* added to the priority of each request of this topic */
    uint32_t weight;       /* share of the records taken; 0: derived from priority */
    uint64_t queue_limit_ns, run_limit_ns; /* longest wait, run of a request; 0: no limit */
    uint32_t thinking_tokens; /* thinking_token_budget of a request without one; 0: none */
    const char *adapter;      /* of a request that names no model; NULL: the base model */
    bool strict;              /* rejects requests with unknown fields */
};

#endif
