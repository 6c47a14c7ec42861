#include "worker/lag/lag_view.h"

#include "codec/wire/json_writer.h"
#include "worker/metrics/metric_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define JSON_BYTES_MAX ((size_t)1 << 20)

/* ---- the figures of a topic ---- */

static double age_s(const struct mr_lag_view *view, const struct mr_lag_figures *figures)
{
    if (figures->oldest_ms == 0) return (double)NAN;
    return fmax(0, (double)(view->now_ms - figures->oldest_ms) / 1e3);
}

static double deadline_s(const struct mr_lag_view *view, const struct mr_lag_figures *figures)
{
    if (figures->deadline_ms == 0) return (double)NAN;
    return (double)(figures->deadline_ms - view->now_ms) / 1e3;
}

enum { WAITING, STARTED, UNREAD, EXPIRED, TOKENS, WORKER_SECONDS, SECONDS, LATE, AGE, DEADLINE };

static const struct figure {
    const char *json, *metric, *help;
    const char *column; /* NULL: not in the table */
    int width, decimals;
} figure_names[] = {
    [WAITING] = {"waiting", "millrace_lag_requests_waiting",
                 "Requests that have no committed result and whose deadline has not passed. "
                 "Includes those that workers are running.",
                 "WAITING", 9, 0},
    [STARTED] = {"started", "millrace_lag_requests_started",
                 "Waiting requests that a worker has started, by the last commit.", "STARTED", 8,
                 0},
    [UNREAD] = {"unread", "millrace_lag_requests_unread",
                "Waiting requests that are counted by their offsets, because their records were "
                "not read yet. Their deadlines are not known.",
                NULL, 0, 0},
    [EXPIRED] = {"expired", "millrace_lag_requests_expired",
                 "Requests that have no committed result and whose deadline has passed.", "EXPIRED",
                 8, 0},
    [TOKENS] = {"tokens", "millrace_lag_tokens", "Estimated tokens of the waiting requests.",
                "TOKENS", 10, 0},
    [WORKER_SECONDS] = {"worker_seconds", "millrace_lag_worker_seconds",
                        "Time that one worker needs for the waiting requests.", NULL, 0, 0},
    [SECONDS] = {"seconds", "millrace_lag_seconds",
                 "Time until the current workers are done with the waiting requests; without a "
                 "worker, the time that one needs.",
                 "SECONDS", 9, 1},
    [LATE] = {"late", "millrace_lag_requests_late",
              "Waiting requests that will miss their deadline with the current workers.", "LATE", 6,
              0},
    [AGE] = {"oldest_seconds", "millrace_lag_oldest_seconds",
             "Age of the oldest waiting request, by its record's timestamp.", "OLDEST", 8, 1},
    [DEADLINE] = {"deadline_seconds", "millrace_lag_deadline_seconds",
                  "Time until the nearest deadline of a waiting request.", "DEADLINE", 9, 1},
};
#define FIGURES (sizeof figure_names / sizeof *figure_names)

static double figure_of(const struct mr_lag_view *view, const struct mr_lag_figures *figures,
                        size_t figure)
{
    const double values[FIGURES] = {
        [WAITING] = (double)figures->waiting, [STARTED] = (double)figures->started,
        [UNREAD] = (double)figures->unread,   [EXPIRED] = (double)figures->expired,
        [TOKENS] = figures->tokens,           [WORKER_SECONDS] = figures->worker_seconds,
        [SECONDS] = figures->seconds,         [LATE] = figures->late,
        [AGE] = age_s(view, figures),         [DEADLINE] = deadline_s(view, figures)};
    return values[figure];
}

/* ---- table ---- */

static void print_row(const struct mr_lag_view *view, const char *topic, const char *tenant,
                      const struct mr_lag_figures *figures, FILE *out)
{
    fprintf(out, "%-24s %-12s", topic, tenant);
    for (size_t i = 0; i < FIGURES; i++) {
        const struct figure *figure = &figure_names[i];
        const double value = figure_of(view, figures, i);
        if (!figure->column) continue;
        if (isnan(value))
            fprintf(out, " %*s", figure->width, "-");
        else
            fprintf(out, " %*.*f", figure->width, figure->decimals, value);
    }
    fputc('\n', out);
}

void mr_lag_view_table(const struct mr_lag_view *view, FILE *out)
{
    const struct mr_lag_forecast *forecast = view->forecast;
    fprintf(out, "%-24s %-12s", "TOPIC", "TENANT");
    for (size_t i = 0; i < FIGURES; i++)
        if (figure_names[i].column)
            fprintf(out, " %*s", figure_names[i].width, figure_names[i].column);
    fputc('\n', out);
    for (size_t i = 0; i < view->config->request_topic_count; i++)
        print_row(view, view->config->request_topics[i].name,
                  view->config->request_topics[i].tenant, &forecast->topics[i], out);
    if (view->config->request_topic_count > 1) print_row(view, "all", "", &forecast->total, out);
    fprintf(out, "\nworkers: ");
    if (forecast->workers_known)
        fprintf(out, "%" PRIu32 " present, ", forecast->workers);
    else
        fprintf(out, "number not known, ");
    fprintf(out, "%" PRIu32 " wanted; ", forecast->workers_wanted);
    if (isnan(forecast->speed))
        fprintf(out, "speed of a worker not known\n");
    else
        fprintf(out, "%.0f tokens/s a worker at %.0f requests\n", forecast->speed,
                forecast->speed_requests);
}

/* ---- JSON ---- */

static void put_figures(struct mr_json_writer *json, const struct mr_lag_view *view,
                        const struct mr_lag_figures *figures)
{
    for (size_t i = 0; i < FIGURES; i++) {
        mr_json_name(json, figure_names[i].json);
        mr_json_put_double(json, figure_of(view, figures, i)); /* NaN becomes null */
    }
}

enum mr_status mr_lag_view_json(const struct mr_lag_view *view, char **text, size_t *length,
                                struct mr_error *err)
{
    const struct mr_lag_forecast *forecast = view->forecast;
    struct mr_json_writer json;
    mr_json_writer_init(&json, JSON_BYTES_MAX);
    mr_json_begin_object(&json);
    mr_json_name(&json, "workers_wanted");
    mr_json_put_uint(&json, forecast->workers_wanted);
    mr_json_name(&json, "workers");
    if (forecast->workers_known)
        mr_json_put_uint(&json, forecast->workers);
    else
        mr_json_put_null(&json);
    mr_json_name(&json, "tokens_per_second");
    mr_json_put_double(&json, forecast->speed);
    put_figures(&json, view, &forecast->total);
    mr_json_name(&json, "topics");
    mr_json_begin_array(&json);
    for (size_t i = 0; i < view->config->request_topic_count; i++) {
        mr_json_begin_object(&json);
        mr_json_name(&json, "topic");
        mr_json_put_string(&json, view->config->request_topics[i].name);
        mr_json_name(&json, "tenant");
        mr_json_put_string(&json, view->config->request_topics[i].tenant);
        put_figures(&json, view, &forecast->topics[i]);
        mr_json_end(&json);
    }
    mr_json_end(&json);
    mr_json_end(&json);
    return mr_json_writer_take(&json, text, length, err);
}

/* ---- Prometheus ---- */

/* One metric with a series for each topic; topics whose value is unknown have none. */
static void put_topics(FILE *out, const struct mr_lag_view *view, size_t figure)
{
    bool headed = false;
    for (size_t i = 0; i < view->config->request_topic_count; i++) {
        const struct mr_request_topic *topic = &view->config->request_topics[i];
        const double value = figure_of(view, &view->forecast->topics[i], figure);
        if (isnan(value)) continue;
        if (!headed)
            mr_metric_put_head(out, figure_names[figure].metric, "gauge",
                               figure_names[figure].help);
        headed = true;
        fprintf(out, "%s{", figure_names[figure].metric);
        mr_metric_put_label(out, "topic", topic->name);
        fputc(',', out);
        mr_metric_put_label(out, "tenant", topic->tenant);
        fprintf(out, "} %.17g\n", value);
    }
}

static void print_metrics(FILE *out, const void *context)
{
    const struct mr_lag_view *view = context;
    const struct mr_lag_forecast *forecast = view->forecast;
    mr_metric_put_value(out, "millrace_lag_up", "gauge",
                        "1 if the last refresh succeeded. Otherwise 0, and the page has no figures "
                        "of waiting requests.",
                        forecast != NULL);
    mr_metric_put_value(out, "millrace_lag_refresh_failures_total", "counter",
                        "Refreshes that failed.", (double)view->failures);
    if (!forecast) return;
    for (size_t i = 0; i < FIGURES; i++)
        put_topics(out, view, i);
    mr_metric_put_value(out, "millrace_lag_workers_wanted", "gauge",
                        "Workers needed to finish the waiting requests within --target and to meet "
                        "the deadlines. 0 only if no request waits.",
                        forecast->workers_wanted);
    if (forecast->workers_known)
        mr_metric_put_value(out, "millrace_lag_workers", "gauge", "Members of the group.",
                            forecast->workers);
    if (!isnan(forecast->speed))
        mr_metric_put_value(out, "millrace_lag_tokens_per_second", "gauge",
                            "Highest speed of one worker that was measured.", forecast->speed);
}

enum mr_status mr_lag_view_metrics(const struct mr_lag_view *view, char **text, size_t *length,
                                   struct mr_error *err)
{
    *text = NULL;
    *length = 0;
    return mr_metric_append(text, length, print_metrics, view, err);
}
