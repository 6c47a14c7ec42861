#include "worker/bench/bench_results.h"

const struct mr_bench_run *mr_bench_results_best(const struct mr_bench_results *results)
{
    const struct mr_bench_run *best = &results->runs[results->run_count - 1];
    for (size_t i = 0; results->highest_rate > 0 && i < results->run_count; i++)
        if (results->runs[i].met && results->runs[i].setting.rate >= results->highest_rate)
            best = &results->runs[i];
    return best;
}
