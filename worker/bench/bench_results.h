/* bench_results - the results of a fleet benchmark: one run, or the runs of a search for the
 * highest rate. worker/bench/bench_report.h prints them as text and JSON, worker/bench/bench_page.h
 * as a page.
 *
 * Threads: any. Memory: plain data. */
#ifndef MR_WORKER_BENCH_BENCH_RESULTS_H
#define MR_WORKER_BENCH_BENCH_RESULTS_H

#include "worker/bench/bench_objective.h"
#include "worker/bench/bench_tally.h"

#define MR_BENCH_POINTS         ((size_t)60)
#define MR_BENCH_OBJECTIVES_MAX ((size_t)8)

/* The settings of a run, for its report. */
struct mr_bench_setting {
    uint32_t concurrency; /* most requests in flight; 0: no limit */
    double rate;          /* requests sent per second; 0: all at once */
    bool stream; /* false: the workers write no token records, so token times are unknown */
};

struct mr_bench_run {
    struct mr_bench_setting setting;
    struct mr_bench_figures figures;
    struct mr_bench_point points[MR_BENCH_POINTS];
    bool met; /* no request failed and all objectives are met */
};

struct mr_bench_results {
    struct mr_bench_objective objectives[MR_BENCH_OBJECTIVES_MAX];
    size_t objective_count;
    struct mr_bench_run runs[MR_BENCH_SWEEP_MAX]; /* in the order of the search */
    size_t run_count;
    bool sweep;
    bool
        unattainable; /* of a sweep: requests one after another missed the objectives in two runs */
    double highest_rate; /* of a sweep: the highest rate that met the objectives; 0: none did */
};

/* Returns the run to show: for a sweep the run with the highest rate that met the objectives, or
 * the last one if none did. */
const struct mr_bench_run *mr_bench_results_best(const struct mr_bench_results *results);

#endif
