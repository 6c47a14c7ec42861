/* millrace top [HOST:PORT...]: a table of workers, refreshed until a signal, from their /metrics
 * pages; without an address the worker of this machine (the default of --http). --once prints one
 * table and ends; with --json each worker is an object. Rates and latencies are those of the last
 * interval. On a terminal keys sort the rows (worker/cli/top_order.h); plain ANSI is enough for
 * that, so there is no ncurses. */
#include "codec/wire/json_writer.h"
#include "worker/base/clock.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/cli/top_order.h"
#include "worker/client/scrape.h"
#include "worker/client/slowest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
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
    if (mr_scrape_page(worker->address, "/metrics", TIMEOUT_MS, &worker->now, &err) != MR_OK)
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

static void print_row(const char *name, const struct row *row)
{
    printf("%-21s", name);
    for (size_t i = 0; i < COLUMNS; i++) {
        double value = value_of(row, &columns[i]);
        if (isnan(value))
            printf(" %*s", columns[i].width, "-");
        else if (isinf(value))
            printf(" %*s", columns[i].width, "max");
        else
            printf(" %*.*f", columns[i].width, columns[i].decimals, value);
    }
    putchar('\n');
}

static void print_text(const struct worker *worker)
{
    if (!worker->now) {
        printf("%-21s %s\n", worker->address, worker->error);
        return;
    }
    struct row row = row_of(worker);
    print_row(worker->address, &row);
}

/* The sums of the columns that can be added up. */
static void print_fleet(const struct worker *workers, size_t count)
{
    struct row sum = {.kv = NAN, .cache_hits = NAN, .first_token = NAN, .gap = NAN, .redis = NAN};
    for (size_t i = 0; i < count; i++) {
        if (!workers[i].now) continue;
        struct row row = row_of(&workers[i]);
        sum.ready += row.ready;
        sum.running += row.running;
        sum.waiting += row.waiting;
        sum.parked += row.parked;
        sum.lag += row.lag;
        /* a worker that has only just answered has no rates yet */
        sum.finished += isnan(row.finished) ? 0 : row.finished;
        sum.prompt_tokens += isnan(row.prompt_tokens) ? 0 : row.prompt_tokens;
        sum.output_tokens += isnan(row.output_tokens) ? 0 : row.output_tokens;
    }
    print_row("all", &sum);
}

static void print_partitions(const struct worker *workers, size_t count)
{
    struct mr_scrape_series series;
    printf("\nLAG by partition\n");
    for (size_t i = 0; i < count; i++) {
        const char *at = workers[i].now;
        while (mr_scrape_next(&at, "millrace_consumer_lag", &series))
            printf("%-21s %10.0f  %.*s\n", workers[i].address, series.value,
                   (int)series.labels_length, series.labels);
    }
}

/* Asks each worker that answered the last time. */
static void print_slowest(const struct worker *workers, size_t count)
{
    struct mr_slowest slowest = {.count = 0};
    printf("\n%9s %-10s %-16s %-21s %s\n", "SECONDS", "STATE", "TENANT", "WORKER", "REQUEST");
    for (size_t i = 0; i < count; i++) {
        struct mr_error err = {0};
        char *page = NULL;
        if (!workers[i].now) continue;
        if (mr_scrape_page(workers[i].address, "/requests", TIMEOUT_MS, &page, &err) != MR_OK ||
            mr_slowest_add(&slowest, workers[i].address, page, &err) != MR_OK)
            printf("%s\n", err.detail);
        free(page);
    }
    for (size_t i = 0; i < slowest.count; i++) {
        const struct mr_slow_request *request = &slowest.requests[i];
        printf("%9.1f %-10s %-16s %-21s %s\n", request->seconds, request->state, request->tenant,
               request->worker, request->id);
    }
}

/* The values of the rows in the column that they are sorted by, and the order. */
static void sort_rows(const struct mr_top_order *order, const struct worker *workers, size_t count,
                      size_t *sequence)
{
    double values[WORKERS_MAX];
    for (size_t i = 0; i < count; i++) {
        struct row row = {0};
        if (workers[i].now) row = row_of(&workers[i]);
        values[i] = workers[i].now ? value_of(&row, &columns[order->column]) : (double)NAN;
    }
    mr_top_order_sort(order, values, count, sequence);
}

static void print_screen(const struct mr_top_order *order, bool live, const struct worker *workers,
                         size_t count)
{
    size_t sequence[WORKERS_MAX];
    if (live) fputs("\033[H\033[2J", stdout);
    printf("%-21s", "WORKER");
    for (size_t i = 0; i < COLUMNS; i++) {
        bool marked = live && order->sorted && order->column == i;
        printf("%s %*s%s", marked ? "\033[7m" : "", columns[i].width, columns[i].name,
               marked ? "\033[0m" : "");
    }
    putchar('\n');
    sort_rows(order, workers, count, sequence);
    for (size_t i = 0; i < count; i++)
        print_text(&workers[sequence[i]]);
    if (count > 1) print_fleet(workers, count);
    if (order->partitions) print_partitions(workers, count);
    if (order->slowest) print_slowest(workers, count);
    if (live)
        printf("\n< > sort  r reverse  o given order  p partitions  s slowest requests  q quit\n");
}

static void print_all(const struct mr_config *config, const struct mr_top_order *order, bool live,
                      const struct worker *workers, size_t count)
{
    if (config->json)
        for (size_t i = 0; i < count; i++)
            print_json(&workers[i]);
    else
        print_screen(order, live, workers, count);
    fflush(stdout);
}

/* ---- the terminal ---- */

/* Keys without Enter and without an echo. False: the terminal stays as it is. */
static bool open_keys(struct termios *usual)
{
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, usual) != 0) return false;
    struct termios raw = *usual;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

/* Waits for the next refresh and takes keys meanwhile, each of which shows the rows anew. False:
 * the user or a signal ends it. */
static bool wait_keys(struct mr_cli_signals *signals, const struct mr_config *config,
                      struct mr_top_order *order, const struct worker *workers, size_t count)
{
    uint64_t until_ns = mr_clock_ns() + config->interval_ns, now_ns;
    while (!order->quit && (now_ns = mr_clock_ns()) < until_ns) {
        char key;
        if (mr_cli_signals_wait(signals, STDIN_FILENO, (int)mr_clock_left_ms(now_ns, until_ns)))
            return false;
        while (!order->quit && read(STDIN_FILENO, &key, 1) == 1)
            if (mr_top_order_key(order, COLUMNS, key))
                print_all(config, order, true, workers, count);
    }
    return !order->quit;
}

/* Shows the workers until it ends; true if any answered the last time. */
static bool show(const struct mr_config *config, struct mr_cli_signals *signals,
                 struct worker *workers, size_t count)
{
    struct mr_top_order order = {.sorted = false};
    struct termios usual;
    bool live = !config->once && !config->json && isatty(STDOUT_FILENO), answers = false;
    bool keys = live && open_keys(&usual);
    for (unsigned round = 0; !config->once || round < 2; round++) {
        int pause_ms = round > 0 ? (int)(config->interval_ns / 1000000) : 0;
        if (keys && round > 0 && !wait_keys(signals, config, &order, workers, count)) break;
        if (mr_cli_signals_wait(signals, -1, keys ? 0 : pause_ms)) break;
        answers = false;
        for (size_t i = 0; i < count; i++) {
            fetch(&workers[i]);
            answers |= workers[i].now != NULL;
        }
        if (!config->once || round == 1) print_all(config, &order, live, workers, count);
    }
    if (keys) tcsetattr(STDIN_FILENO, TCSANOW, &usual);
    return answers;
}

int mr_cli_top(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_cli_signals signals;
    struct mr_error err = {0};
    size_t count = config->argument_count > 0 ? config->argument_count : 1;
    if (count > WORKERS_MAX) {
        mr_fail(&err, MR_BAD_CONFIG, "top shows at most %zu workers", WORKERS_MAX);
        return mr_cli_fail(&err);
    }
    struct worker *workers = calloc(count, sizeof *workers);
    if (!workers) return MR_EXIT_FAILED;
    mr_cli_signals_open(&signals);
    for (size_t i = 0; i < count; i++)
        workers[i].address = config->argument_count > 0 ? config->arguments[i] : ADDRESS_DEFAULT;
    bool answers = show(config, &signals, workers, count);
    for (size_t i = 0; i < count; i++) {
        free(workers[i].before);
        free(workers[i].now);
    }
    free(workers);
    mr_cli_signals_close(&signals);
    return answers ? MR_EXIT_DONE : MR_EXIT_UNREACHABLE;
}
