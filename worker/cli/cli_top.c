/* millrace top [HOST:PORT...]: a table of workers, refreshed until a signal, from their /metrics
 * pages; without an address the worker of this machine (the default of --http). --once prints one
 * table and ends; with --json each worker is an object. Rates and latencies are those of the last
 * interval. */
#include "codec/wire/json_writer.h"
#include "worker/base/clock.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/client/scrape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS_DEFAULT "127.0.0.1:9464"
#define TIMEOUT_MS      2000u
#define WORKERS_MAX     ((size_t)256)
#define ROW_BYTES       ((size_t)4096)

struct worker {
    const char *address;
    char *before, *now; /* the last two pages; NULL: it did not answer */
    uint64_t before_ns, now_ns;
    char error[MR_ERROR_DETAIL_BYTES];
};

/* One row. NaN: not known. */
struct row {
    double ready, running, waiting, parked, lag, finished, prompt_tokens, output_tokens, kv,
        cache_hits, first_token, gap, redis;
};

/* Columns in the order of the screen. */
static const struct column {
    const char *name, *json;
    size_t offset;
    int width, decimals;
} columns[] = {
    {"READY", "ready", offsetof(struct row, ready), 5, 0},
    {"RUN", "running", offsetof(struct row, running), 5, 0},
    {"WAIT", "waiting", offsetof(struct row, waiting), 5, 0},
    {"PARK", "parked", offsetof(struct row, parked), 5, 0},
    {"LAG", "lag", offsetof(struct row, lag), 7, 0},
    {"REQ/s", "requests_per_second", offsetof(struct row, finished), 7, 1},
    {"PROMPT/s", "prompt_tokens_per_second", offsetof(struct row, prompt_tokens), 9, 0},
    {"TOK/s", "output_tokens_per_second", offsetof(struct row, output_tokens), 7, 0},
    {"KV%", "kv_percent", offsetof(struct row, kv), 5, 0},
    {"HIT%", "prefix_hit_percent", offsetof(struct row, cache_hits), 5, 0},
    {"TTFT95", "first_token_p95_seconds", offsetof(struct row, first_token), 7, 2},
    {"ITL99", "inter_token_p99_seconds", offsetof(struct row, gap), 7, 3},
    {"REDIS", "redis_up", offsetof(struct row, redis), 5, 0},
};
#define COLUMNS (sizeof columns / sizeof *columns)

static double value_of(const struct row *row, const struct column *column)
{
    return *(const double *)(const void *)((const char *)row + column->offset);
}

static void fetch(struct worker *worker)
{
    struct mr_error err = {0};
    free(worker->before);
    worker->before = worker->now;
    worker->before_ns = worker->now_ns;
    worker->now_ns = mr_clock_ns();
    worker->error[0] = '\0';
    if (mr_scrape_page(worker->address, TIMEOUT_MS, &worker->now, &err) != MR_OK)
        snprintf(worker->error, sizeof worker->error, "%s", err.detail);
}

/* A counter's growth between the two pages; NaN: there are not two. */
static double growth(const struct worker *worker, const char *name)
{
    if (!worker->before || !worker->now) return NAN;
    return mr_scrape_sum(worker->now, name, "") - mr_scrape_sum(worker->before, name, "");
}

static double rate(const struct worker *worker, const char *name)
{
    return growth(worker, name) / ((double)(worker->now_ns - worker->before_ns) / 1e9);
}

static struct row row_of(const struct worker *worker)
{
    const char *now = worker->now;
    double queries = growth(worker, "millrace_prefix_cache_queries_tokens_total");
    double hits = growth(worker, "millrace_prefix_cache_hits_tokens_total");
    bool redis = strstr(now, "\nmillrace_tier_up ") != NULL;
    return (struct row){
        .ready = mr_scrape_sum(now, "millrace_ready", ""),
        .running = mr_scrape_sum(now, "millrace_requests_running", ""),
        .waiting = mr_scrape_sum(now, "millrace_requests_waiting", ""),
        .parked = mr_scrape_sum(now, "millrace_requests_parked", ""),
        .lag = mr_scrape_sum(now, "millrace_consumer_lag", ""),
        .finished = rate(worker, "millrace_requests_finished_total"),
        .prompt_tokens = rate(worker, "millrace_prompt_tokens_total"),
        .output_tokens = rate(worker, "millrace_generation_tokens_total"),
        .kv = 100 * mr_scrape_sum(now, "millrace_kv_usage_ratio", ""),
        .cache_hits = queries > 0 ? 100 * hits / queries : NAN,
        .first_token = worker->before
                           ? mr_scrape_quantile(now, worker->before,
                                                "millrace_time_to_first_token_seconds", 0.95)
                           : NAN,
        .gap = worker->before ? mr_scrape_quantile(now, worker->before,
                                                   "millrace_inter_token_latency_seconds", 0.99)
                              : NAN,
        .redis = redis ? mr_scrape_sum(now, "millrace_tier_up", "") : NAN};
}

static void print_json(const struct worker *worker)
{
    struct mr_json_writer json;
    char *bytes = NULL;
    size_t length;
    mr_json_writer_init(&json, ROW_BYTES);
    mr_json_begin_object(&json);
    mr_json_name(&json, "worker");
    mr_json_put_string(&json, worker->address);
    if (worker->now) {
        struct row row = row_of(worker);
        for (size_t i = 0; i < COLUMNS; i++) {
            mr_json_name(&json, columns[i].json);
            mr_json_put_double(&json, value_of(&row, &columns[i])); /* NaN becomes null */
        }
    } else {
        mr_json_name(&json, "error");
        mr_json_put_string(&json, worker->error);
    }
    mr_json_end(&json);
    if (mr_json_writer_take(&json, &bytes, &length, NULL) == MR_OK) puts(bytes);
    free(bytes);
}

static void print_text(const struct worker *worker)
{
    printf("%-21s", worker->address);
    if (!worker->now) {
        printf(" %s\n", worker->error);
        return;
    }
    struct row row = row_of(worker);
    for (size_t i = 0; i < COLUMNS; i++) {
        double value = value_of(&row, &columns[i]);
        if (isnan(value))
            printf(" %*s", columns[i].width, "-");
        else if (isinf(value))
            printf(" %*s", columns[i].width, "max");
        else
            printf(" %*.*f", columns[i].width, columns[i].decimals, value);
    }
    putchar('\n');
}

static void print_all(const struct mr_config *config, const struct worker *workers, size_t count)
{
    if (!config->json) {
        if (!config->once && isatty(STDOUT_FILENO)) fputs("\033[H\033[2J", stdout);
        printf("%-21s", "WORKER");
        for (size_t i = 0; i < COLUMNS; i++)
            printf(" %*s", columns[i].width, columns[i].name);
        putchar('\n');
    }
    for (size_t i = 0; i < count; i++)
        if (config->json)
            print_json(&workers[i]);
        else
            print_text(&workers[i]);
    fflush(stdout);
}

int mr_cli_top(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_cli_signals signals;
    struct mr_error err = {0};
    size_t count = config->argument_count > 0 ? config->argument_count : 1, answers = 0;
    if (count > WORKERS_MAX) {
        mr_fail(&err, MR_BAD_CONFIG, "top shows at most %zu workers", WORKERS_MAX);
        return mr_cli_fail(&err);
    }
    struct worker *workers = calloc(count, sizeof *workers);
    if (!workers) return MR_EXIT_FAILED;
    mr_cli_signals_open(&signals);
    for (size_t i = 0; i < count; i++)
        workers[i].address = config->argument_count > 0 ? config->arguments[i] : ADDRESS_DEFAULT;
    for (unsigned round = 0; !config->once || round < 2; round++) {
        int pause_ms = round > 0 ? (int)(config->interval_ns / 1000000) : 0;
        if (mr_cli_signals_wait(&signals, -1, pause_ms)) break;
        for (size_t i = 0; i < count; i++)
            fetch(&workers[i]);
        if (!config->once || round == 1) print_all(config, workers, count);
    }
    for (size_t i = 0; i < count; i++) {
        answers += workers[i].now != NULL;
        free(workers[i].before);
        free(workers[i].now);
    }
    free(workers);
    mr_cli_signals_close(&signals);
    return answers > 0 ? MR_EXIT_DONE : MR_EXIT_UNREACHABLE;
}
