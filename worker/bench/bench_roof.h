/* bench_roof - the limits of the machine: bytes read from memory, and floating point operations of
 * the matrix product in use, each measured in a separate loop on all threads of the parallel team.
 * The least time of a piece of work follows from these rates (the roofline model, Williams,
 * Waterman and Patterson, 2009). A product of integers is also two operations, a multiplication and
 * an addition.
 *
 * Threads: the engine thread, while no step runs. Memory: freed before the call returns.
 * Errors:  _memory and _measure MR_NOMEM. */
#ifndef MR_WORKER_BENCH_BENCH_ROOF_H
#define MR_WORKER_BENCH_BENCH_ROOF_H

#include "codec/status.h"
#include "ops/model/model.h"

struct mr_bench_roof {
    double bytes_per_s, flops_per_s; /* 0: unknown, as with any backend but cpu */
};

/* Reads 512 MiB several times in the way in which the products read panels of weights. MR_NOMEM. */
enum mr_status mr_bench_roof_memory(double *bytes_per_s, struct mr_error *err);
/* Measures memory as _memory does, and runs a layer of the model's size, 512 rows at a time, with
 * weights in the model's kind of numbers; takes less than 2 s. */
enum mr_status mr_bench_roof_measure(struct mr_bench_roof *out, const struct mr_model_info *info,
                                     struct mr_error *err);

/* The least amount of bytes and operations that a test needs. */
struct mr_bench_work {
    double bytes, flops;
};
/* Adds `count` passes over the weights that need logits of `rows` rows each. */
void mr_bench_work_add_weights(struct mr_bench_work *work, const struct mr_model_info *info,
                               double count, double rows);
/* Adds the products of `tokens` new tokens of one sequence that has `context` tokens before them:
 * their layers and their attention. reads_kv: K and V of the context are read from memory. */
void mr_bench_work_add_tokens(struct mr_bench_work *work, const struct mr_model_info *info,
                              double tokens, double context, bool reads_kv);
/* Returns the least time of the work in seconds; 0 when the roof is unknown, or when the model has
 * experts, because their share of a step is unknown. */
double mr_bench_roof_seconds(const struct mr_bench_roof *roof, const struct mr_model_info *info,
                             const struct mr_bench_work *work);

#endif
