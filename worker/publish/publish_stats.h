/* publish_stats - what publish has done since it was created; a copy goes out by value. */
#ifndef MR_WORKER_PUBLISH_PUBLISH_STATS_H
#define MR_WORKER_PUBLISH_PUBLISH_STATS_H

#include "worker/publish/terminal.h"

struct mr_publish_stats {
    uint64_t token_records, refusals;
    struct mr_terminal_stats terminal;
    uint64_t tokens_lost, resent;        /* token records lost; terminal records produced again */
    uint64_t dropped;                    /* requests that ended without a record */
    uint64_t delay_ns_sum, delay_ns_max; /* token records: from the engine's step to produced */
    uint64_t bytes;
    uint32_t unreported; /* records produced and not acknowledged yet */
};

#endif
