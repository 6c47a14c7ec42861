/* publish_stats - counts of what the publish thread has done since mr_publish_create. */
#ifndef MR_WORKER_PUBLISH_PUBLISH_STATS_H
#define MR_WORKER_PUBLISH_PUBLISH_STATS_H

#include "worker/publish/terminal.h"

struct mr_publish_stats {
    uint64_t token_records, refusals;
    struct mr_terminal_stats terminal;
    /* token records lost; terminal records produced again after a refusal */
    uint64_t tokens_lost, resent;
    uint64_t dropped; /* requests that ended without any record */
    /* time from the engine step that made the tokens to producing the token record */
    uint64_t delay_ns_sum, delay_ns_max;
    uint64_t bytes;
    uint32_t unreported; /* records produced and not acknowledged yet */
    /* one of the worker's own topics that refused its last record, because the topic is gone or the
     * worker may not write to it; NULL: none */
    const char *refused_topic;
};

#endif
