/* bench_fleet - measures a running fleet through Kafka as a producer would: publishes requests with
 * random prompts at their arrival times, reads token records and results, prints the figures. The
 * arrivals are an open loop: a slow fleet does not delay further requests, unless --concurrency
 * limits them. The topics must exist: a benchmark creates none. With --sweep it runs at several
 * rates and finds the highest one that meets the objectives; it ends early if all requests of a
 * rate fail, or if requests one after another miss the objectives in two runs.
 *
 * Owner:  one thread. Memory: bounded by --requests and --output-tokens, at most 64 MiB for gaps
 * between token records.
 * Errors: those of mr_client_open; MR_TIMEOUT when --timeout passes first (the figures so far are
 *         printed); MR_BAD_CONFIG when --output cannot be written;
 *         MR_BACKEND when no request succeeded (the figures are printed). */
#ifndef MR_WORKER_BENCH_BENCH_FLEET_H
#define MR_WORKER_BENCH_BENCH_FLEET_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

struct mr_bench_fleet_options {
    const struct mr_config *config;
    const char *brokers; /* replaces config->brokers; NULL: use config->brokers */
    FILE *table;         /* the measured figures are printed to this file */
    FILE *progress;      /* a progress line is printed to this file; NULL: none */
    FILE *notices;       /* as in mr_client_options; NULL: none */
    /* Called between records; the run ends when this returns true. May be NULL. */
    bool (*stop)(void *context);
    void *context;
};

enum mr_status mr_bench_fleet(const struct mr_bench_fleet_options *options, struct mr_error *err);

#endif
