/* banner - the summary that a worker prints at its start: model, device, KV pool, Kafka topics and
 * HTTP address, in at most 15 lines, or as one line of a JSON log.
 *
 * Owner: main thread. Memory: none. Errors: none. */
#ifndef MR_WORKER_SERVE_BANNER_H
#define MR_WORKER_SERVE_BANNER_H

#include "ops/model/model.h"
#include "worker/base/log.h"
#include "worker/config/config.h"
#include "worker/engine/machine.h"

#include <stdio.h>

struct mr_banner {
    const struct mr_config *config;
    const struct mr_model_info *model;
    const struct mr_machine *machine;
    uint32_t thread_count;
    const char *brokers;
    bool embedded; /* the broker is the embedded test broker */
    uint32_t context_tokens, partition_count;
    uint16_t http_port;   /* 0: no HTTP server */
    double start_seconds; /* until every part ran */
};

/* The conditions that a worker has waited for before /readyz answered 200. */
struct mr_banner_ready {
    double start_seconds; /* for the checks, the model and the broker */
    double group_seconds; /* after that, until the group had assigned its partitions */
};

void mr_banner_print(const struct mr_banner *banner, FILE *out);
void mr_banner_log(const struct mr_banner *banner, struct mr_log *log);
/* The line that follows when the worker is ready. */
void mr_banner_print_ready(const struct mr_banner_ready *ready, FILE *out);
void mr_banner_log_ready(const struct mr_banner_ready *ready, struct mr_log *log);

#endif
