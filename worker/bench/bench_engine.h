/* bench_engine - measures the engine alone, without Kafka: prefill of one prompt, decode of several
 * sequences, and a mix of both, in the manner of llama-bench (average and deviation over
 * repetitions, one warm-up before). Tokens are random, end tokens ignored. The engine is set up as
 * a worker's is, caches included, so that the two can be compared; but no prompt comes twice.
 *
 * Threads: the calling thread becomes the engine thread. Memory: one model, one engine at a time.
 * Errors:  those of mr_model_open, mr_engine_create and mr_engine_step. */
#ifndef MR_WORKER_BENCH_BENCH_ENGINE_H
#define MR_WORKER_BENCH_BENCH_ENGINE_H

#include "codec/status.h"
#include "worker/config/config.h"

#include <stdio.h>

/* Runs every test, or with config->mix only the mix with config->requests requests, on the model
 * config names, prints a table to `table` and writes JSON to
 * config->output when it is not "". */
enum mr_status mr_bench_engine(const struct mr_config *config, FILE *table, struct mr_error *err);

#endif
