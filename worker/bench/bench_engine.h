/* bench_engine - measures the engine without Kafka: prefill of one prompt, decode of several
 * sequences, and a mix of both. As in llama-bench there is one warm-up run, then mean and deviation
 * over the repetitions. Tokens are random and end tokens are ignored. The engine has the settings
 * of a worker, caches included, but every prompt is new, so that no cache hit is measured.
 *
 * Threads: the calling thread becomes the engine thread. Memory: one model, one engine at a time.
 * Errors:  those of mr_model_open, mr_engine_create and mr_engine_step. */
#ifndef MR_WORKER_BENCH_BENCH_ENGINE_H
#define MR_WORKER_BENCH_BENCH_ENGINE_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

/* Runs every test; if config->mix, only the mix with config->requests requests; if config->batch is
 * above 0, only prefill and decode of that batch with config's lengths. Prints to `table`, and
 * writes JSON to the file config->output unless that name is "". */
enum mr_status mr_bench_engine(const struct mr_config *config, FILE *table, struct mr_error *err);

#endif
