/* millrace top [HOST:PORT...]: a table of workers, refreshed until a signal, from their /metrics
 * pages (worker/top/top_fleet.h says which workers). --once prints one table and ends; with --json
 * each worker is an object. On a terminal keys sort the rows, choose a tenant, and cancel one of
 * the slowest requests (worker/top/top_order.h); plain ANSI is enough for that, so there is no
 * ncurses. */
#include "codec/wire/json_writer.h"
#include "worker/base/clock.h"
#include "worker/base/printable.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/client/client.h"
#include "worker/top/scrape.h"
#include "worker/top/slowest.h"
#include "worker/top/top_fleet.h"
#include "worker/top/top_order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define ROW_BYTES  ((size_t)4096)
#define CANCEL_MS  5000u
#define KAFKA_MS   10000u
#define NOTE_BYTES ((size_t)512)

struct screen {
    const struct mr_config *config;
    struct mr_cli_signals signals;
    struct mr_top_fleet fleet;
    struct mr_top_order order;
    bool live;
    char tenant[MR_TOP_TENANT_BYTES]; /* "": all */
    struct mr_slowest slowest;
    char cancelling[MR_SLOWEST_TEXT_BYTES]; /* the request that waits for the user's confirmation */
    struct mr_client *client;               /* NULL until something was cancelled */
    char note[NOTE_BYTES];                  /* the last line, until the next key */
};

static void print_json(const struct mr_top_worker *worker, const char *tenant)
{
    struct mr_json_writer json;
    char *bytes = NULL;
    size_t length;
    mr_json_writer_init(&json, ROW_BYTES);
    mr_json_begin_object(&json);
    mr_json_name(&json, "worker");
    mr_json_put_string(&json, worker->address);
    if (worker->now) {
        struct mr_top_row row;
        mr_top_fleet_row(worker, tenant, &row);
        for (size_t i = 0; i < MR_TOP_COLUMNS; i++) {
            mr_json_name(&json, mr_top_columns[i].json);
            mr_json_put_double(&json, row.values[i]); /* NaN becomes null */
        }
    } else {
        mr_json_name(&json, "error");
        mr_json_put_string(&json, worker->error);
    }
    mr_json_end(&json);
    if (mr_json_writer_take(&json, &bytes, &length, NULL) == MR_OK) puts(bytes);
    free(bytes);
}

static void print_row(const char *name, const struct mr_top_row *row)
{
    printf("%-21s", name);
    for (size_t i = 0; i < MR_TOP_COLUMNS; i++) {
        const struct mr_top_column *column = &mr_top_columns[i];
        if (isnan(row->values[i]))
            printf(" %*s", column->width, "-");
        else if (isinf(row->values[i]))
            printf(" %*s", column->width, "max");
        else
            printf(" %*.*f", column->width, column->decimals, row->values[i]);
    }
    putchar('\n');
}

/* The sums of the columns that can be added up. */
static void print_sums(const struct screen *screen)
{
    struct mr_top_row sum, row;
    for (size_t k = 0; k < MR_TOP_COLUMNS; k++)
        sum.values[k] = mr_top_columns[k].adds ? 0 : (double)NAN;
    for (size_t i = 0; i < screen->fleet.count; i++) {
        const struct mr_top_worker *worker = &screen->fleet.workers[i];
        if (!worker->now) continue;
        mr_top_fleet_row(worker, screen->tenant, &row);
        /* a worker that has only just answered has no rates yet */
        for (size_t k = 0; k < MR_TOP_COLUMNS; k++)
            if (mr_top_columns[k].adds && !isnan(row.values[k])) sum.values[k] += row.values[k];
    }
    print_row("all", &sum);
}

/* The labels are from a page, which may be hostile. */
static void print_lag(const char *address, const struct mr_scrape_series *series)
{
    printf("%-21s %10.0f  ", address, series->value);
    mr_print_escaped(stdout, (struct mr_text){series->labels, series->labels_length}, "");
    putchar('\n');
}

static void print_partitions(const struct screen *screen)
{
    struct mr_scrape_series series;
    printf("\nLAG by partition\n");
    for (size_t i = 0; i < screen->fleet.count; i++) {
        const struct mr_top_worker *worker = &screen->fleet.workers[i];
        for (const char *at = worker->now; mr_scrape_next(&at, "millrace_consumer_lag", &series);)
            if (mr_top_row_is_of(worker->now, screen->tenant, series.labels, series.labels_length))
                print_lag(worker->address, &series);
    }
}

/* Queries each worker that answered the last time. */
static void fetch_slowest(struct screen *screen)
{
    screen->slowest.count = 0;
    for (size_t i = 0; i < screen->fleet.count; i++) {
        const struct mr_top_worker *worker = &screen->fleet.workers[i];
        struct mr_error err = {0};
        char *page = NULL;
        if (!worker->now) continue;
        if (mr_scrape_page(worker->address, "/requests", MR_TOP_TIMEOUT_MS, &page, &err) != MR_OK ||
            mr_slowest_add(&screen->slowest, worker->address, screen->tenant, page, &err) != MR_OK)
            snprintf(screen->note, NOTE_BYTES, "%s", err.detail);
        free(page);
    }
    if (screen->order.chosen >= screen->slowest.count)
        screen->order.chosen = screen->slowest.count > 0 ? screen->slowest.count - 1 : 0;
}

static void print_slowest(const struct screen *screen)
{
    printf("\n%9s %-10s %-16s %-21s %s\n", "SECONDS", "STATE", "TENANT", "WORKER", "REQUEST");
    for (size_t i = 0; i < screen->slowest.count; i++) {
        const struct mr_slow_request *request = &screen->slowest.requests[i];
        bool marked = screen->live && screen->order.chosen == i;
        printf("%s%9.1f %-10s %-16s %-21s %s%s\n", marked ? "\033[7m" : "", request->seconds,
               request->state, request->tenant, request->worker, request->id,
               marked ? "\033[0m" : "");
    }
}

static void print_workers(const struct screen *screen)
{
    const struct mr_top_fleet *fleet = &screen->fleet;
    double values[MR_TOP_WORKERS_MAX];
    size_t sequence[MR_TOP_WORKERS_MAX];
    struct mr_top_row row;
    for (size_t i = 0; i < fleet->count; i++) {
        if (fleet->workers[i].now) mr_top_fleet_row(&fleet->workers[i], screen->tenant, &row);
        values[i] = fleet->workers[i].now ? row.values[screen->order.column] : (double)NAN;
    }
    mr_top_order_sort(&screen->order, values, fleet->count, sequence);
    for (size_t i = 0; i < fleet->count; i++) {
        const struct mr_top_worker *worker = &fleet->workers[sequence[i]];
        if (worker->now) mr_top_fleet_row(worker, screen->tenant, &row);
        if (worker->now)
            print_row(worker->address, &row);
        else
            printf("%-21s %s\n", worker->address, worker->error);
    }
    if (fleet->count > 1) print_sums(screen);
}

static void print_keys(const struct screen *screen)
{
    if (screen->order.cancel == MR_TOP_CANCEL_ASKED)
        printf("\ncancel the request %s? y yes, any other key no\n", screen->cancelling);
    else if (screen->note[0])
        printf("\n%s\n", screen->note);
    else
        printf("\n< > sort  r reverse  o given order  p partitions  t tenant  s slowest requests%s"
               "  q quit\n",
               screen->order.slowest ? "  j k choose  c cancel" : "");
}

static void print_screen(const struct screen *screen)
{
    const struct mr_top_order *order = &screen->order;
    if (screen->live) fputs("\033[H\033[2J", stdout);
    if (screen->tenant[0]) printf("REQ/s, LAG and requests of the tenant %s\n", screen->tenant);
    printf("%-21s", "WORKER");
    for (size_t i = 0; i < MR_TOP_COLUMNS; i++) {
        bool marked = screen->live && order->sorted && order->column == i;
        printf("%s %*s%s", marked ? "\033[7m" : "", mr_top_columns[i].width, mr_top_columns[i].name,
               marked ? "\033[0m" : "");
    }
    putchar('\n');
    print_workers(screen);
    if (order->partitions) print_partitions(screen);
    if (order->slowest) print_slowest(screen);
    if (screen->live) print_keys(screen);
}

static void print_all(const struct screen *screen)
{
    if (screen->config->json)
        for (size_t i = 0; i < screen->fleet.count; i++)
            print_json(&screen->fleet.workers[i], screen->tenant);
    else
        print_screen(screen);
    fflush(stdout);
}

/* ---- keys ---- */

static void show_next_tenant(struct screen *screen)
{
    char next[MR_TOP_TENANT_BYTES] = "";
    for (size_t i = 0; i < screen->fleet.count; i++)
        if (screen->fleet.workers[i].now)
            mr_top_row_next_tenant(screen->fleet.workers[i].now, screen->tenant, next);
    mr_make_printable(next);
    memcpy(screen->tenant, next, sizeof next);
    screen->order.next_tenant = false;
}

static void cancel(struct screen *screen)
{
    struct mr_error err = {0};
    enum mr_status status = MR_OK;
    struct mr_client_options options = {
        .config = screen->config, .timeout_ms = CANCEL_MS, .send_timeout_ms = CANCEL_MS};
    screen->order.cancel = MR_TOP_CANCEL_NONE;
    if (!screen->config->brokers[0])
        status = mr_fail(&err, MR_BAD_CONFIG, "to cancel a request, start top with --brokers");
    else if (!screen->client)
        status = mr_client_open(&screen->client, &options, &err);
    if (status == MR_OK)
        status = mr_client_cancel(
            screen->client, (struct mr_text){screen->cancelling, strlen(screen->cancelling)}, &err);
    snprintf(screen->note, NOTE_BYTES, "%s%s", status == MR_OK ? "cancelled " : "",
             status == MR_OK ? screen->cancelling : err.detail);
}

static void take_key(struct screen *screen, char key)
{
    struct mr_top_order *order = &screen->order;
    enum mr_top_cancel before = order->cancel;
    if (!mr_top_order_key(order, MR_TOP_COLUMNS, key)) return;
    screen->note[0] = '\0';
    if (order->next_tenant) show_next_tenant(screen);
    if (order->cancel == MR_TOP_CANCEL_NONE && order->slowest) fetch_slowest(screen);
    if (order->cancel == MR_TOP_CANCEL_ASKED && before != order->cancel) {
        if (order->chosen < screen->slowest.count)
            memcpy(screen->cancelling, screen->slowest.requests[order->chosen].id,
                   sizeof screen->cancelling);
        else
            order->cancel = MR_TOP_CANCEL_NONE;
    }
    if (order->cancel == MR_TOP_CANCEL_SURE) cancel(screen);
    print_all(screen);
}

/* Keys without Enter and without an echo. False: the terminal stays as it is. */
static bool open_keys(struct termios *usual)
{
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, usual) != 0) return false;
    struct termios raw = *usual;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    return tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

/* Waits for the next refresh. Each key pressed meanwhile redraws the screen. False: the user or a
 * signal ends it. */
static bool wait_keys(struct screen *screen)
{
    uint64_t until_ns = mr_clock_ns() + screen->config->interval_ns, now_ns;
    while (!screen->order.quit && (now_ns = mr_clock_ns()) < until_ns) {
        char key;
        if (mr_cli_signals_wait(&screen->signals, STDIN_FILENO,
                                (int)mr_clock_left_ms(now_ns, until_ns)))
            return false;
        while (!screen->order.quit && read(STDIN_FILENO, &key, 1) == 1)
            take_key(screen, key);
    }
    return !screen->order.quit;
}

/* Shows the workers until it ends; true if any answered the last time. */
static bool show(struct screen *screen)
{
    const struct mr_config *config = screen->config;
    struct termios usual;
    bool answers = false, keys = screen->live && open_keys(&usual);
    for (unsigned round = 0; !config->once || round < 2; round++) {
        int pause_ms = round > 0 ? (int)(config->interval_ns / 1000000) : 0;
        if (keys && round > 0 && !wait_keys(screen)) break;
        if (mr_cli_signals_wait(&screen->signals, -1, keys ? 0 : pause_ms)) break;
        answers = mr_top_fleet_refresh(&screen->fleet);
        if (screen->order.slowest && screen->order.cancel == MR_TOP_CANCEL_NONE)
            fetch_slowest(screen);
        if (!config->once || round == 1) print_all(screen);
        if (mr_cli_output_failed()) break;
    }
    if (keys) tcsetattr(STDIN_FILENO, TCSANOW, &usual);
    return answers;
}

int mr_cli_top(const struct mr_config *config, struct mr_log *log)
{
    (void)log;
    struct mr_error err = {0};
    struct screen *screen = calloc(1, sizeof *screen);
    if (!screen) return MR_EXIT_FAILED;
    screen->config = config;
    screen->live = !config->once && !config->json && isatty(STDOUT_FILENO);
    snprintf(screen->tenant, sizeof screen->tenant, "%s", config->tenant);
    mr_cli_signals_open(&screen->signals);
    int code = MR_EXIT_UNREACHABLE;
    uint32_t kafka_ms = mr_cli_timeout_ms(config, KAFKA_MS);
    if (mr_top_fleet_open(&screen->fleet, config, kafka_ms, &err) != MR_OK)
        code = mr_cli_fail(&err);
    else if (show(screen))
        code = MR_EXIT_DONE;
    mr_top_fleet_close(&screen->fleet);
    mr_client_close(screen->client);
    mr_cli_signals_close(&screen->signals);
    free(screen);
    return code;
}
