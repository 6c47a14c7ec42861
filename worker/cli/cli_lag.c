/* millrace lag: prints the requests that wait in Kafka and their waiting time, and ends. With
 * --listen it serves the same over HTTP until a signal: /metrics for Prometheus, /lag as JSON for
 * KEDA's metrics-api, /livez. No worker needs to be alive (worker/lag/lag_reader.h).
 *
 * The main thread refreshes the figures. It makes both pages and replaces those that the HTTP
 * library's thread serves, under a mutex. After a refresh that failed, and during one that does not
 * end, no old figures are served: /lag answers 503, and /metrics has no figures of what waits. */
#include "worker/base/clock.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/http/http.h"
#include "worker/lag/lag_reader.h"
#include "worker/lag/lag_view.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS   10000u
#define READ_ONCE_MS 10000u
/* of a refresh with --listen: records that are not read in this time are read in the next one */
#define READ_MS 1000u
/* Older figures are not served, and /livez reports that the program is stuck. A refresh has four
 * queries, each with the timeout. */
#define STALE_NS (6 * TIMEOUT_MS * UINT64_C(1000000))

struct page {
    char *text; /* malloc'ed; NULL: none */
    size_t length;
};

struct serving {
    const struct mr_config *config;
    pthread_mutex_t mutex; /* of the fields below */
    struct page json, metrics;
    uint64_t refreshed_ns;             /* when the last refresh ended, also one that failed */
    char error[MR_ERROR_DETAIL_BYTES]; /* why the last refresh failed; "": it succeeded */
    uint64_t failures;
};

/* ---- HTTP ---- */

static void reply_copy(struct mr_http_reply *reply, unsigned code, const char *text, size_t length)
{
    reply->code = code;
    reply->body = malloc(length > 0 ? length : 1);
    if (!reply->body) reply->code = 503;
    if (!reply->body || length == 0) return;
    memcpy(reply->body, text, length);
    reply->length = length;
}

static void reply_line(struct mr_http_reply *reply, unsigned code, const char *line)
{
    char text[MR_ERROR_DETAIL_BYTES + 2];
    const int length = snprintf(text, sizeof text, "%s\n", line);
    reply_copy(reply, code, text, (size_t)length);
}

/* Threads: the HTTP library's thread. */
static void answer(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    struct serving *serving = context;
    pthread_mutex_lock(&serving->mutex);
    const bool stale = mr_clock_ns() - serving->refreshed_ns > STALE_NS;
    const bool fails = stale || serving->error[0] || !serving->json.text;
    const char *reason = stale               ? "the last refresh does not end"
                         : serving->error[0] ? serving->error
                                             : "there are no figures yet";
    if (page == MR_HTTP_LIVEZ)
        reply_line(reply, stale ? 503 : 200, stale ? reason : "alive");
    else if (page == MR_HTTP_METRICS && serving->metrics.text && !stale)
        reply_copy(reply, 200, serving->metrics.text, serving->metrics.length);
    else if (page == MR_HTTP_LAG && !fails) {
        reply_copy(reply, 200, serving->json.text, serving->json.length);
        reply->content_type = "application/json";
    } else if (page == MR_HTTP_LAG || page == MR_HTTP_METRICS)
        reply_line(reply, 503, reason);
    else
        reply->code = 404;
    pthread_mutex_unlock(&serving->mutex);
}

/* Replaces the pages. forecast NULL: the refresh failed with err. */
static void publish(struct serving *serving, const struct mr_lag_forecast *forecast, int64_t now_ms,
                    struct mr_error *err)
{
    struct mr_lag_view view = {.config = serving->config,
                               .forecast = forecast,
                               .now_ms = now_ms,
                               .failures = serving->failures + !forecast};
    struct page json = {NULL, 0}, metrics = {NULL, 0};
    if (forecast) mr_lag_view_json(&view, &json.text, &json.length, err);
    mr_lag_view_metrics(&view, &metrics.text, &metrics.length, err);
    pthread_mutex_lock(&serving->mutex);
    free(serving->json.text);
    free(serving->metrics.text);
    serving->json = json;
    serving->metrics = metrics;
    serving->refreshed_ns = mr_clock_ns();
    serving->failures = view.failures;
    snprintf(serving->error, sizeof serving->error, "%s", json.text ? "" : err->detail);
    pthread_mutex_unlock(&serving->mutex);
}

/* ---- commands ---- */

static void refresh(struct serving *serving, struct mr_lag_reader *reader, struct mr_log *log)
{
    struct mr_error err = {0};
    const struct mr_lag_forecast *forecast;
    const struct mr_time now = mr_clock_now();
    const bool failed = serving->error[0] != '\0';
    mr_lag_reader_refresh(reader, now, mr_cli_timeout_ms(serving->config, TIMEOUT_MS), READ_MS,
                          &forecast, &err);
    publish(serving, forecast, now.unix_ms, &err);
    if (!forecast && !failed) mr_log_warn(log, "no figures: %s", err.detail);
    if (forecast && failed) mr_log_info(log, "the figures are up to date again");
}

static int serve(const struct mr_config *config, struct mr_lag_reader *reader, struct mr_log *log)
{
    struct serving serving = {.config = config, .refreshed_ns = mr_clock_ns()};
    struct mr_cli_signals signals;
    struct mr_http *http = NULL;
    struct mr_error err = {0};
    mr_cli_signals_open(&signals);
    pthread_mutex_init(&serving.mutex, NULL);
    enum mr_status status = mr_http_start(&http, config->listen, answer, &serving, &err);
    if (status == MR_OK)
        mr_log_event(log, MR_LOG_INFO, NULL, "listening",
                     MR_LOG_NUMBER("http_port", mr_http_port(http)));
    if (status == MR_OK) do
            refresh(&serving, reader, log);
        while (!mr_cli_signals_wait(&signals, -1, (int)(config->interval_ns / 1000000)));
    mr_http_stop(http);
    mr_cli_signals_close(&signals);
    pthread_mutex_destroy(&serving.mutex);
    free(serving.json.text);
    free(serving.metrics.text);
    if (status == MR_OK) return MR_EXIT_DONE;
    mr_fail(&err, MR_BAD_CONFIG, "--listen: %.180s", err.detail);
    return mr_cli_fail(&err);
}

static int print_once(const struct mr_config *config, struct mr_lag_reader *reader)
{
    struct mr_error err = {0};
    const struct mr_time now = mr_clock_now();
    struct mr_lag_view view = {.config = config, .now_ms = now.unix_ms};
    enum mr_status status =
        mr_lag_reader_refresh(reader, now, mr_cli_timeout_ms(config, TIMEOUT_MS),
                              mr_cli_timeout_ms(config, READ_ONCE_MS), &view.forecast, &err);
    if (status != MR_OK) return mr_cli_fail(&err);
    if (!config->json) {
        mr_lag_view_table(&view, stdout);
        return MR_EXIT_DONE;
    }
    char *text = NULL;
    size_t length;
    status = mr_lag_view_json(&view, &text, &length, &err);
    if (status != MR_OK) return mr_cli_fail(&err);
    puts(text);
    free(text);
    return MR_EXIT_DONE;
}

int mr_cli_lag(const struct mr_config *config, struct mr_log *log)
{
    struct mr_error err = {0};
    struct mr_lag_reader *reader = NULL;
    if (mr_lag_reader_open(&reader, config, mr_cli_timeout_ms(config, TIMEOUT_MS), &err) != MR_OK)
        return mr_cli_fail(&err);
    const int code = config->listen[0] ? serve(config, reader, log) : print_once(config, reader);
    mr_lag_reader_close(reader);
    return code;
}
