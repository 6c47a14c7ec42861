/* bench_objective - an objective of a fleet, such as ttft-p99=500ms: a figure of a benchmark, a
 * statistic and its upper limit. Also the search for the highest rate at which all objectives are
 * met.
 *
 * Threads: any (pure functions). Memory: none. Errors: MR_BAD_CONFIG for a malformed objective. */
#ifndef MR_WORKER_BENCH_BENCH_OBJECTIVE_H
#define MR_WORKER_BENCH_BENCH_OBJECTIVE_H

#include "worker/bench/bench_tally.h"

struct mr_bench_objective {
    const char *figure, *statistic; /* such as "ttft" and "p99"; static texts */
    double limit_ms;
};

/* Parses FIGURE-STATISTIC=TIME: ttft, tpot, itl or e2el; mean, median, p75, p90, p95, p99 or max.
 */
enum mr_status mr_bench_objective_parse(struct mr_bench_objective *out, const char *text,
                                        struct mr_error *err);
/* True when only token records show the figure. */
bool mr_bench_objective_needs_stream(const struct mr_bench_objective *objective);
/* The measured value; false: nothing was measured. */
bool mr_bench_objective_value(const struct mr_bench_objective *objective,
                              const struct mr_bench_figures *figures, double *ms);
/* Whether no request failed and every objective is met. */
bool mr_bench_objectives_met(const struct mr_bench_objective *objectives, size_t count,
                             const struct mr_bench_figures *figures);

/* Runs of one search at most. */
#define MR_BENCH_SWEEP_MAX ((size_t)16)

/* Start with a zeroed struct. The rate is doubled, or halved if the first one is too high, until
 * one rate meets the objectives and another does not. After that the geometric mean of the two is
 * tried until they differ by at most 10 %. */
struct mr_bench_sweep {
    double good, bad; /* highest rate that met the objectives, lowest that did not; 0: none */
    size_t tried;
};

/* The next rate to try, the first time `first`; 0: the search has ended, with the answer in
 * sweep->good. */
double mr_bench_sweep_next(const struct mr_bench_sweep *sweep, double first);
void mr_bench_sweep_note(struct mr_bench_sweep *sweep, double rate, bool met);

#endif
