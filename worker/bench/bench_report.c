#include "worker/bench/bench_report.h"

#include "codec/wire/json_writer.h"
#include "worker/base/version.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH          50
#define JSON_BYTES_MAX ((size_t)65536)

static void print_headline(FILE *out, const char *text, char fill)
{
    int length = (int)strlen(text), before = (WIDTH - length) / 2;
    for (int i = 0; i < before; i++)
        fputc(fill, out);
    fputs(text, out);
    for (int i = before + length; i < WIDTH; i++)
        fputc(fill, out);
    fputc('\n', out);
}

static void print_count(FILE *out, const char *label, uint64_t value)
{
    fprintf(out, "%-40s %-10llu\n", label, (unsigned long long)value);
}

static void print_number(FILE *out, const char *label, double value)
{
    fprintf(out, "%-40s %-10.2f\n", label, value);
}

static void print_summary(FILE *out, const char *headline, const char *name,
                          const struct mr_bench_summary *summary)
{
    char label[64];
    print_headline(out, headline, '-');
    snprintf(label, sizeof label, "Mean %s (ms):", name);
    print_number(out, label, summary->mean);
    snprintf(label, sizeof label, "Median %s (ms):", name);
    print_number(out, label, summary->median);
    snprintf(label, sizeof label, "P99 %s (ms):", name);
    print_number(out, label, summary->p99);
}

void mr_bench_report_print(const struct mr_bench_figures *figures,
                           const struct mr_bench_setting *setting, FILE *out)
{
    print_headline(out, " Serving Benchmark Result ", '=');
    print_count(out, "Successful requests:", figures->completed);
    print_count(out, "Failed requests:", figures->failed);
    if (figures->failed > 0) fprintf(out, "%-40s %s\n", "First failure:", figures->first_failure);
    if (setting->concurrency)
        print_count(out, "Maximum request concurrency:", setting->concurrency);
    if (setting->rate > 0) print_number(out, "Request rate configured (RPS):", setting->rate);
    print_number(out, "Benchmark duration (s):", figures->duration_s);
    print_count(out, "Total input tokens:", figures->input_tokens);
    print_count(out, "Total generated tokens:", figures->output_tokens);
    print_number(out, "Request throughput (req/s):", figures->request_throughput);
    print_number(out, "Output token throughput (tok/s):", figures->output_throughput);
    if (setting->stream)
        print_number(out, "Peak output token throughput (tok/s):", figures->peak_output_throughput);
    print_number(out, "Peak concurrent requests:", (double)figures->peak_concurrent);
    print_number(out, "Total token throughput (tok/s):", figures->total_throughput);
    if (setting->stream) {
        print_summary(out, "Time to First Token", "TTFT", &figures->ttft_ms);
        print_summary(out, "Time per Output Token (excl. 1st token)", "TPOT", &figures->tpot_ms);
        print_summary(out, "Inter-token Latency", "ITL", &figures->itl_ms);
    }
    print_summary(out, "End-to-end Latency", "E2EL", &figures->e2el_ms);
    print_headline(out, "", '=');
}

static void print_sweep(const struct mr_bench_results *results, FILE *out)
{
    for (size_t i = 0; i < results->run_count; i++) {
        const struct mr_bench_run *run = &results->runs[i];
        fprintf(out, "%10.4g requests/s: %9.1f tok/s, P99 TTFT %.1f ms, P99 ITL %.1f ms: %s\n",
                run->setting.rate, run->figures.output_throughput, run->figures.ttft_ms.p99,
                run->figures.itl_ms.p99, run->met ? "met" : "missed");
    }
    if (results->highest_rate > 0)
        print_number(out, "Highest rate that meets them (RPS):", results->highest_rate);
    else
        fprintf(out, "No rate that was tried meets the objectives%s.\n",
                results->unattainable ? ", nor do requests one after another" : "");
}

void mr_bench_report_print_objectives(const struct mr_bench_results *results, FILE *out)
{
    const struct mr_bench_figures *figures = &mr_bench_results_best(results)->figures;
    for (size_t i = 0; i < results->objective_count; i++) {
        const struct mr_bench_objective *objective = &results->objectives[i];
        double ms = 0;
        bool known = mr_bench_objective_value(objective, figures, &ms);
        char label[64];
        snprintf(label, sizeof label, "Objective %s %s <= %.6g ms:", objective->figure,
                 objective->statistic, objective->limit_ms);
        fprintf(out, "%-40s %.2f, %s\n", label, ms,
                known && ms <= objective->limit_ms ? "met" : "missed");
    }
    if (results->sweep) print_sweep(results, out);
    print_headline(out, "", '=');
}

static void put_number(struct mr_json_writer *json, const char *name, double value)
{
    mr_json_name(json, name);
    mr_json_put_double(json, value);
}

static void put_count(struct mr_json_writer *json, const char *name, uint64_t value)
{
    mr_json_name(json, name);
    mr_json_put_uint(json, value);
}

static void put_summary(struct mr_json_writer *json, const char *name,
                        const struct mr_bench_summary *summary)
{
    const struct {
        const char *prefix;
        double value;
    } parts[] = {{"mean", summary->mean},     {"std", summary->std}, {"min", summary->min},
                 {"median", summary->median}, {"p75", summary->p75}, {"p90", summary->p90},
                 {"p95", summary->p95},       {"p99", summary->p99}, {"max", summary->max}};
    for (size_t i = 0; summary->count && i < sizeof parts / sizeof *parts; i++) {
        char label[64];
        snprintf(label, sizeof label, "%s_%s_ms", parts[i].prefix, name);
        put_number(json, label, parts[i].value);
    }
}

static void put_setting(struct mr_json_writer *json, const struct mr_bench_setting *setting)
{
    mr_json_name(json, "max_concurrency");
    if (setting->concurrency) {
        mr_json_put_uint(json, setting->concurrency);
    } else {
        mr_json_put_null(json);
    }
    mr_json_name(json, "request_rate");
    if (setting->rate > 0) {
        mr_json_put_double(json, setting->rate);
    } else {
        mr_json_put_string(json, "inf");
    }
}

static void put_objectives(struct mr_json_writer *json, const struct mr_bench_results *results,
                           const struct mr_bench_figures *figures)
{
    mr_json_name(json, "objectives");
    mr_json_begin_array(json);
    for (size_t i = 0; i < results->objective_count; i++) {
        const struct mr_bench_objective *objective = &results->objectives[i];
        double ms = 0;
        bool known = mr_bench_objective_value(objective, figures, &ms);
        mr_json_begin_object(json);
        mr_json_name(json, "figure");
        mr_json_put_string(json, objective->figure);
        mr_json_name(json, "statistic");
        mr_json_put_string(json, objective->statistic);
        put_number(json, "limit_ms", objective->limit_ms);
        if (known) put_number(json, "measured_ms", ms);
        mr_json_name(json, "met");
        mr_json_put_bool(json, known && ms <= objective->limit_ms);
        mr_json_end(json);
    }
    mr_json_end(json);
}

/* The members of one run, into an object that is open. */
static void put_run(struct mr_json_writer *json, const struct mr_bench_results *results,
                    const struct mr_bench_run *run)
{
    const struct mr_bench_figures *figures = &run->figures;
    put_setting(json, &run->setting);
    put_count(json, "completed", figures->completed);
    put_count(json, "failed", figures->failed);
    if (figures->failed > 0) {
        mr_json_name(json, "first_failure");
        mr_json_put_string(json, figures->first_failure);
    }
    put_number(json, "duration", figures->duration_s);
    put_count(json, "total_input_tokens", figures->input_tokens);
    put_count(json, "total_output_tokens", figures->output_tokens);
    put_number(json, "request_throughput", figures->request_throughput);
    put_number(json, "output_throughput", figures->output_throughput);
    put_number(json, "max_output_tokens_per_s", figures->peak_output_throughput);
    put_count(json, "max_concurrent_requests", figures->peak_concurrent);
    put_number(json, "total_token_throughput", figures->total_throughput);
    put_summary(json, "ttft", &figures->ttft_ms);
    put_summary(json, "tpot", &figures->tpot_ms);
    put_summary(json, "itl", &figures->itl_ms);
    put_summary(json, "e2el", &figures->e2el_ms);
    put_summary(json, "queue", &figures->queue_ms);
    put_summary(json, "prefill", &figures->prefill_ms);
    put_summary(json, "worker_itl_max", &figures->worker_itl_max_ms);
    put_count(json, "itl_left_out", figures->gaps_left_out);
    if (results->objective_count > 0) put_objectives(json, results, figures);
}

static void put_results(struct mr_json_writer *json, const struct mr_bench_results *results)
{
    mr_json_begin_object(json);
    mr_json_name(json, "program");
    char program[64];
    (void)snprintf(program, sizeof program, "millrace %s", mr_version);
    mr_json_put_string(json, program);
    if (results->sweep) put_number(json, "highest_rate", results->highest_rate);
    put_run(json, results, mr_bench_results_best(results));
    if (results->sweep) {
        mr_json_name(json, "runs");
        mr_json_begin_array(json);
        for (size_t i = 0; i < results->run_count; i++) {
            mr_json_begin_object(json);
            put_run(json, results, &results->runs[i]);
            mr_json_end(json);
        }
        mr_json_end(json);
    }
    mr_json_end(json);
}

enum mr_status mr_bench_report_write(const struct mr_bench_results *results, const char *path,
                                     struct mr_error *err)
{
    struct mr_json_writer json;
    char *text = NULL;
    size_t length = 0;
    mr_json_writer_init(&json, JSON_BYTES_MAX);
    put_results(&json, results);
    enum mr_status status = mr_json_writer_take(&json, &text, &length, err);
    if (status != MR_OK) return status;
    FILE *file = fopen(path, "w");
    if (!file) {
        free(text);
        return mr_fail(err, MR_BAD_CONFIG, "cannot write %s", path);
    }
    bool failed = fprintf(file, "%s\n", text) != (int)length + 1;
    failed |= fclose(file) != 0;
    free(text);
    return failed ? mr_fail(err, MR_BAD_CONFIG, "cannot write %s", path) : MR_OK;
}
