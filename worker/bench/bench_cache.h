/* bench_cache - measures the gain of the prefix cache: requests that begin with one of 20 texts of
 * --prompt-tokens tokens (drawn by Zipf's law) and end with 32 unique tokens run one after another,
 * with the cache on and off. Also measures copying KV blocks into and out of the pool.
 *
 * Threads: the calling thread becomes the engine thread. Memory: one model, one engine at a time.
 * Errors:  those of mr_model_open, mr_engine_create and mr_engine_step. */
#ifndef MR_WORKER_BENCH_BENCH_CACHE_H
#define MR_WORKER_BENCH_BENCH_CACHE_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

/* Runs config->requests requests twice and prints a table. */
enum mr_status mr_bench_cache(const struct mr_config *config, FILE *table, struct mr_error *err);

#endif
