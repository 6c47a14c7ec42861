#include "worker/bench/bench_page.h"

#include "worker/base/version.h"
#include "worker/bench/bench_chart.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

static const char style[] =
    ":root{--back:#fff;--text:#1c2330;--soft:#667085;--line:#e4e7ec;--s0:#2563eb;--s1:#d97706;"
    "--s2:#b91c1c;--s3:#0f766e}"
    "@media(prefers-color-scheme:dark){:root{--back:#12161d;--text:#e6e9ef;--soft:#98a2b3;"
    "--line:#2b3340;--s0:#6ea8fe;--s1:#f2b84b;--s2:#f58a8a;--s3:#5ec9bd}}"
    "body{background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif;"
    "max-width:1100px;margin:2rem auto;padding:0 1rem}"
    "small,.soft{color:var(--soft)}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));"
    "gap:1.5rem}figure{margin:0}svg{width:100%;height:auto;display:block}"
    "figcaption{font-weight:600}text{font-size:11px;fill:var(--soft)}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.grid{stroke:var(--line)}"
    ".limit{stroke:var(--text);stroke-dasharray:5 4}.line{fill:none;stroke-width:2}"
    "path.s0{stroke:var(--s0)}path.s1{stroke:var(--s1)}path.s2{stroke:var(--s2)}"
    "path.s3{stroke:var(--s3)}circle.s0{fill:var(--s0)}circle.s1{fill:var(--s1)}"
    "circle.s2{fill:var(--s2)}circle.s3{fill:var(--s3)}.legend{margin:.2rem 0}"
    ".legend span{margin-right:1rem;color:var(--soft)}"
    ".legend span::before{content:\"\";display:inline-block;width:.8em;height:.8em;"
    "margin-right:.4em;border-radius:2px;background:var(--text)}"
    ".legend .s0::before{background:var(--s0)}.legend .s1::before{background:var(--s1)}"
    ".legend .s2::before{background:var(--s2)}.legend .s3::before{background:var(--s3)}"
    ".table{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}"
    "th,td{padding:.25rem .8rem;border-bottom:1px solid var(--line);text-align:right;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}th:first-child,td:first-child"
    "{text-align:left}.worse{color:var(--s2)}.better{color:var(--s3)}";

void mr_bench_page_begin(const char *headline, FILE *out)
{
    char date[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts)) strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &parts);
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          out);
    mr_bench_chart_text(headline, out);
    fprintf(out, "</title>\n<style>%s</style></head><body>\n<h1>", style);
    mr_bench_chart_text(headline, out);
    fprintf(out, "</h1>\n<p class=\"soft\">millrace %s, %s</p>\n", mr_version, date);
}

void mr_bench_page_end(FILE *out)
{
    fputs("</body></html>\n", out);
}

/* ---- tables ---- */

static void put_cell(double value, FILE *out)
{
    if (isfinite(value))
        fprintf(out, "<td>%.2f</td>", value);
    else
        fputs("<td>-</td>", out);
}

static void put_count(const char *name, double value, const char *unit, FILE *out)
{
    fprintf(out, "<tr><td>%s</td><td>%.6g</td><td>%s</td></tr>\n", name, value, unit);
}

static void put_summary(const char *name, const struct mr_bench_summary *summary, FILE *out)
{
    const double values[] = {summary->mean, summary->median, summary->p90,
                             summary->p95,  summary->p99,    summary->max};
    if (summary->count == 0) return;
    fprintf(out, "<tr><td>%s</td>", name);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        put_cell(values[i], out);
    fputs("</tr>\n", out);
}

static void put_objectives(const struct mr_bench_results *results,
                           const struct mr_bench_figures *figures, FILE *out)
{
    for (size_t i = 0; i < results->objective_count; i++) {
        const struct mr_bench_objective *objective = &results->objectives[i];
        double ms = (double)NAN;
        bool met = mr_bench_objective_value(objective, figures, &ms) && ms <= objective->limit_ms;
        fprintf(out,
                "<p>Objective %s %s at most %.6g ms: <span class=\"%s\">%.6g ms, %s</span></p>\n",
                objective->figure, objective->statistic, objective->limit_ms,
                met ? "better" : "worse", ms, met ? "met" : "missed");
    }
}

static void put_run(const struct mr_bench_results *results, const struct mr_bench_run *run,
                    FILE *out)
{
    const struct mr_bench_figures *figures = &run->figures;
    put_objectives(results, figures, out);
    fputs("<div class=\"table\"><table>\n", out);
    put_count("Successful requests", figures->completed, "", out);
    put_count("Failed requests", figures->failed, "", out);
    if (run->setting.rate > 0) put_count("Rate configured", run->setting.rate, "requests/s", out);
    if (run->setting.concurrency > 0)
        put_count("Concurrency configured", run->setting.concurrency, "requests", out);
    put_count("Duration", figures->duration_s, "s", out);
    put_count("Requests", figures->request_throughput, "requests/s", out);
    put_count("Output tokens", figures->output_throughput, "tokens/s", out);
    put_count("All tokens", figures->total_throughput, "tokens/s", out);
    put_count("Most requests in flight", figures->peak_concurrent, "requests", out);
    fputs("</table></div>\n<div class=\"table\"><table>\n<tr><th>Time in ms</th><th>mean</th>"
          "<th>median</th><th>P90</th><th>P95</th><th>P99</th><th>longest</th></tr>\n",
          out);
    put_summary("First token (TTFT)", &figures->ttft_ms, out);
    put_summary("Per output token (TPOT)", &figures->tpot_ms, out);
    put_summary("Between tokens (ITL)", &figures->itl_ms, out);
    put_summary("Whole request (E2EL)", &figures->e2el_ms, out);
    put_summary("In the worker's queue", &figures->queue_ms, out);
    put_summary("Prefill", &figures->prefill_ms, out);
    fputs("</table></div>\n", out);
}

/* ---- charts ---- */

/* The upper limit of the first objective of this figure, for a chart; 0: none. */
static double limit_of(const struct mr_bench_results *results, const char *figure)
{
    for (size_t i = 0; i < results->objective_count; i++)
        if (strcmp(results->objectives[i].figure, figure) == 0)
            return results->objectives[i].limit_ms;
    return 0;
}

/* Copies one field of every point. */
static const double *field_of(const struct mr_bench_run *run, size_t offset, double *values)
{
    for (size_t i = 0; i < MR_BENCH_POINTS; i++)
        values[i] = *(const double *)(const void *)((const char *)&run->points[i] + offset);
    return values;
}

#define FIELD(name) offsetof(struct mr_bench_point, name)

/* One chart over time of up to three fields of the points. */
static void put_over_time(const struct mr_bench_run *run, const struct mr_bench_chart *form,
                          const size_t *fields, FILE *out)
{
    double at_s[MR_BENCH_POINTS], values[3][MR_BENCH_POINTS];
    struct mr_bench_chart chart = *form;
    chart.x_name = "seconds since the first request";
    chart.x = field_of(run, FIELD(at_s), at_s);
    chart.count = MR_BENCH_POINTS;
    for (size_t i = 0; i < chart.line_count; i++)
        chart.lines[i].values = field_of(run, fields[i], values[i]);
    mr_bench_chart_print(&chart, out);
}

static void put_times(const struct mr_bench_results *results, const struct mr_bench_run *run,
                      FILE *out)
{
    static const size_t tokens[] = {FIELD(output_tokens_per_s)}, flight[] = {FIELD(in_flight)};
    static const size_t ttft[] = {FIELD(ttft_median_ms), FIELD(ttft_p90_ms), FIELD(ttft_p99_ms)};
    static const size_t itl[] = {FIELD(itl_median_ms), FIELD(itl_p90_ms), FIELD(itl_p99_ms)};
    struct mr_bench_chart chart = {.title = "Output tokens",
                                   .y_name = "tokens/s",
                                   .lines = {{.name = "output tokens"}},
                                   .line_count = 1};
    fputs("<div class=\"charts\">\n", out);
    put_over_time(run, &chart, tokens, out);
    chart.title = "Requests in flight";
    chart.y_name = "requests";
    chart.lines[0].name = "in flight";
    put_over_time(run, &chart, flight, out);
    if (run->setting.stream) {
        struct mr_bench_chart times = {.title = "First token",
                                       .y_name = "ms (TTFT)",
                                       .lines = {{"median", NULL}, {"P90", NULL}, {"P99", NULL}},
                                       .line_count = 3,
                                       .limit = limit_of(results, "ttft")};
        put_over_time(run, &times, ttft, out);
        times.title = "Between two tokens";
        times.y_name = "ms (ITL)";
        times.limit = limit_of(results, "itl");
        put_over_time(run, &times, itl, out);
    }
    fputs("</div>\n", out);
}

/* ---- sweeps ---- */

/* The runs in the order of their rates. */
static size_t sort_runs(const struct mr_bench_results *results, const struct mr_bench_run **sorted)
{
    for (size_t i = 0; i < results->run_count; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1]->setting.rate > results->runs[i].setting.rate; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = &results->runs[i];
    }
    return results->run_count;
}

static void put_rates(const struct mr_bench_results *results, FILE *out)
{
    const struct mr_bench_run *runs[MR_BENCH_SWEEP_MAX];
    double rates[MR_BENCH_SWEEP_MAX], tokens[MR_BENCH_SWEEP_MAX];
    double ttft[2][MR_BENCH_SWEEP_MAX], itl[2][MR_BENCH_SWEEP_MAX];
    size_t count = sort_runs(results, runs);
    for (size_t i = 0; i < count; i++) {
        const struct mr_bench_figures *figures = &runs[i]->figures;
        bool none = figures->ttft_ms.count == 0, no_gaps = figures->itl_ms.count == 0;
        rates[i] = runs[i]->setting.rate;
        tokens[i] = figures->output_throughput;
        ttft[0][i] = none ? (double)NAN : figures->ttft_ms.median;
        ttft[1][i] = none ? (double)NAN : figures->ttft_ms.p99;
        itl[0][i] = no_gaps ? (double)NAN : figures->itl_ms.median;
        itl[1][i] = no_gaps ? (double)NAN : figures->itl_ms.p99;
    }
    struct mr_bench_chart chart = {.title = "Output tokens against the rate",
                                   .x_name = "requests/s sent",
                                   .y_name = "tokens/s",
                                   .x = rates,
                                   .count = count,
                                   .marks = true,
                                   .lines = {{"output tokens", tokens}},
                                   .line_count = 1};
    fputs("<div class=\"charts\">\n", out);
    mr_bench_chart_print(&chart, out);
    if (runs[0]->setting.stream) {
        chart.title = "First token against the rate";
        chart.y_name = "ms (TTFT)";
        chart.lines[0] = (struct mr_bench_line){"median", ttft[0]};
        chart.lines[1] = (struct mr_bench_line){"P99", ttft[1]};
        chart.line_count = 2;
        chart.limit = limit_of(results, "ttft");
        mr_bench_chart_print(&chart, out);
        chart.title = "Between two tokens against the rate";
        chart.y_name = "ms (ITL)";
        chart.lines[0].values = itl[0];
        chart.lines[1].values = itl[1];
        chart.limit = limit_of(results, "itl");
        mr_bench_chart_print(&chart, out);
    }
    fputs("</div>\n<div class=\"table\"><table>\n<tr><th>Rate, requests/s</th><th>tokens/s</th>"
          "<th>TTFT median</th><th>TTFT P99</th><th>ITL median</th><th>ITL P99</th>"
          "<th>failed</th><th>objectives</th></tr>\n",
          out);
    for (size_t i = 0; i < count; i++) {
        const double cells[] = {tokens[i], ttft[0][i], ttft[1][i], itl[0][i], itl[1][i]};
        fprintf(out, "<tr><td>%.6g</td>", rates[i]);
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            put_cell(cells[k], out);
        fprintf(out, "<td>%" PRIu32 "</td><td class=\"%s\">%s</td></tr>\n", runs[i]->figures.failed,
                runs[i]->met ? "better" : "worse", runs[i]->met ? "met" : "missed");
    }
    fputs("</table></div>\n", out);
}

enum mr_status mr_bench_page_write(const struct mr_bench_results *results, const char *path,
                                   struct mr_error *err)
{
    FILE *out = fopen(path, "w");
    if (!out) return mr_fail(err, MR_BAD_CONFIG, "cannot write %s", path);
    const struct mr_bench_run *run = mr_bench_results_best(results);
    mr_bench_page_begin(results->sweep ? "millrace bench: rate sweep" : "millrace bench", out);
    if (results->sweep && results->highest_rate > 0)
        fprintf(out, "<p>Highest rate that meets the objectives: <b>%.4g requests/s</b></p>\n",
                results->highest_rate);
    else if (results->sweep)
        fprintf(out, "<p>No rate that was tried meets the objectives%s.</p>\n",
                results->unattainable ? ", nor do requests one after another" : "");
    if (results->sweep) {
        put_rates(results, out);
        fprintf(out, "<h2>At %.4g requests/s</h2>\n", run->setting.rate);
    }
    put_run(results, run, out);
    put_times(results, run, out);
    mr_bench_page_end(out);
    bool failed = ferror(out) != 0;
    failed |= fclose(out) != 0;
    return failed ? mr_fail(err, MR_BAD_CONFIG, "cannot write %s", path) : MR_OK;
}
