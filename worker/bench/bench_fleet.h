/* bench_fleet - measures a running fleet through Kafka, as a producer sees it: publishes requests
 * with random prompts at their arrival times (an open loop: a slow fleet does not slow the arrivals
 * down, unless --concurrency bounds them), reads tokens and results, prints the figures.
 *
 * Owner:  one thread. Memory: bounded by --requests and --output-tokens, 64 MiB of gaps at most.
 * Errors: those of mr_client_open; MR_TIMEOUT when --timeout passes first (the figures are printed
 *         all the same); MR_BAD_CONFIG when --output cannot be written. */
#ifndef MR_WORKER_BENCH_BENCH_FLEET_H
#define MR_WORKER_BENCH_BENCH_FLEET_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

struct mr_bench_fleet_options {
    const struct mr_config *config;
    const char *brokers; /* instead of the configuration's; NULL: that one */
    FILE *table;         /* the figures */
    FILE *progress;      /* one line, rewritten; NULL: none */
    /* Asked between records; true: give up what is still running. May be NULL. */
    bool (*stop)(void *context);
    void *context;
};

enum mr_status mr_bench_fleet(const struct mr_bench_fleet_options *options, struct mr_error *err);

#endif
