/* publish_stats - counters of the publish thread since mr_publish_create. */
#ifndef MR_WORKER_PUBLISH_PUBLISH_STATS_H
#define MR_WORKER_PUBLISH_PUBLISH_STATS_H

#include "worker/publish/terminal.h"

struct mr_publish_stats {
    uint64_t token_records, refusals;
    struct mr_terminal_stats terminal;
    /* token records lost; terminal records produced again after a refusal */
    uint64_t tokens_lost, resent;
    uint64_t dropped; /* requests dropped before any terminal record was produced */
    /* time from the engine step that generated the tokens to the producing of their record */
    uint64_t delay_ns_sum, delay_ns_max;
    uint64_t bytes;
    uint32_t unreported; /* records produced and not acknowledged yet */
    /* one of the worker's own topics that refused the last record for it, because the topic is gone
     * or the worker may not write to it; NULL: none */
    const char *refused_topic;
};

#endif
