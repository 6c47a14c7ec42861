#include "worker/bench/bench_objective.h"

#include "codec/text.h"
#include "worker/config/option_value.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* The search ends when the two rates differ by no more than this. */
#define CLOSE 1.1

static const struct {
    const char *name;
    size_t offset;
    bool stream;
} figures_table[] = {
    {"ttft", offsetof(struct mr_bench_figures, ttft_ms), true},
    {"tpot", offsetof(struct mr_bench_figures, tpot_ms), true},
    {"itl", offsetof(struct mr_bench_figures, itl_ms), true},
    {"e2el", offsetof(struct mr_bench_figures, e2el_ms), false},
};
#define FIGURES (sizeof figures_table / sizeof *figures_table)

static const struct {
    const char *name;
    size_t offset;
} statistics[] = {
    {"mean", offsetof(struct mr_bench_summary, mean)},
    {"median", offsetof(struct mr_bench_summary, median)},
    {"p75", offsetof(struct mr_bench_summary, p75)},
    {"p90", offsetof(struct mr_bench_summary, p90)},
    {"p95", offsetof(struct mr_bench_summary, p95)},
    {"p99", offsetof(struct mr_bench_summary, p99)},
    {"max", offsetof(struct mr_bench_summary, max)},
};
#define STATISTICS (sizeof statistics / sizeof *statistics)

enum mr_status mr_bench_objective_parse(struct mr_bench_objective *out, const char *text,
                                        struct mr_error *err)
{
    const char *dash = strchr(text, '-'), *equals = strchr(text, '=');
    uint64_t limit_ns = 0;
    *out = (struct mr_bench_objective){0};
    if (!dash || !equals || dash > equals || !mr_parse_duration(equals + 1, &limit_ns))
        return mr_fail(err, MR_BAD_CONFIG,
                       "objective %.64s is not FIGURE-STATISTIC=TIME, such as ttft-p99=500ms",
                       text);
    const struct mr_text figure = {text, (size_t)(dash - text)};
    const struct mr_text statistic = {dash + 1, (size_t)(equals - dash - 1)};
    for (size_t i = 0; i < FIGURES; i++)
        if (mr_text_is(figure, figures_table[i].name)) out->figure = figures_table[i].name;
    for (size_t i = 0; i < STATISTICS; i++)
        if (mr_text_is(statistic, statistics[i].name)) out->statistic = statistics[i].name;
    out->limit_ms = (double)limit_ns / 1e6;
    if (!out->figure)
        return mr_fail(err, MR_BAD_CONFIG, "objective %.64s begins with none of ttft tpot itl e2el",
                       text);
    if (!out->statistic)
        return mr_fail(err, MR_BAD_CONFIG,
                       "objective %.64s has none of mean median p75 p90 p95 p99 max", text);
    return MR_OK;
}

bool mr_bench_objective_needs_stream(const struct mr_bench_objective *objective)
{
    for (size_t i = 0; i < FIGURES; i++)
        if (strcmp(figures_table[i].name, objective->figure) == 0) return figures_table[i].stream;
    return false;
}

bool mr_bench_objective_value(const struct mr_bench_objective *objective,
                              const struct mr_bench_figures *figures, double *ms)
{
    const char *summary = NULL;
    for (size_t i = 0; i < FIGURES; i++)
        if (strcmp(figures_table[i].name, objective->figure) == 0)
            summary = (const char *)figures + figures_table[i].offset;
    if (!summary || ((const struct mr_bench_summary *)(const void *)summary)->count == 0)
        return false;
    for (size_t i = 0; i < STATISTICS; i++)
        if (strcmp(statistics[i].name, objective->statistic) == 0)
            *ms = *(const double *)(const void *)(summary + statistics[i].offset);
    return true;
}

bool mr_bench_objectives_met(const struct mr_bench_objective *objectives, size_t count,
                             const struct mr_bench_figures *figures)
{
    bool met = figures->failed == 0;
    for (size_t i = 0; i < count; i++) {
        double ms = 0;
        met = met && mr_bench_objective_value(&objectives[i], figures, &ms) &&
              ms <= objectives[i].limit_ms;
    }
    return met;
}

double mr_bench_sweep_next(const struct mr_bench_sweep *sweep, double first)
{
    if (sweep->tried == 0) return first;
    if (sweep->tried >= MR_BENCH_SWEEP_MAX) return 0;
    if (sweep->bad <= 0) return sweep->good * 2;
    if (sweep->good <= 0) return sweep->bad / 2;
    return sweep->bad / sweep->good <= CLOSE ? 0 : sqrt(sweep->good * sweep->bad);
}

void mr_bench_sweep_note(struct mr_bench_sweep *sweep, double rate, bool met)
{
    sweep->tried++;
    if (met && rate > sweep->good) sweep->good = rate;
    if (!met && (sweep->bad <= 0 || rate < sweep->bad)) sweep->bad = rate;
}
