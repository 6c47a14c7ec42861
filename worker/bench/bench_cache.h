/* bench_cache - what the prefix cache is worth: a trace of requests that begin with one of 20 texts
 * of --prompt-tokens tokens, drawn by Zipf's law, each with 32 tokens of its own, run one after
 * another with the cache on and with it off; and how long KV blocks take out of the pool and in.
 *
 * Threads: the calling thread becomes the engine thread. Memory: one model, one engine at a time.
 * Errors:  those of mr_model_open, mr_engine_create and mr_engine_step. */
#ifndef MR_WORKER_BENCH_BENCH_CACHE_H
#define MR_WORKER_BENCH_BENCH_CACHE_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

/* config->requests of them; prints a table. */
enum mr_status mr_bench_cache(const struct mr_config *config, FILE *table, struct mr_error *err);

#endif
