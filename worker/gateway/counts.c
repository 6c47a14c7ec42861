#include "worker/gateway/counts.h"

#include "worker/metrics/metric_text.h"
#include "worker/metrics/process_metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Upper bounds in seconds, as those of a worker's time to first token and latency. */
static const double bounds[] = {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300};

static const struct {
    const char *name, *help;
} counter_names[MR_GATEWAY_COUNTER_COUNT] = {
#define X(name, text, help) [MR_GATEWAY_##name] = {"millrace_gateway_" text "_total", help},
    MR_GATEWAY_COUNTER_LIST(X)
#undef X
};

void mr_gateway_counts_open(struct mr_gateway_counts *counts)
{
    memset(counts, 0, sizeof *counts);
    pthread_mutex_init(&counts->lock, NULL);
    mr_histogram_init(&counts->first_token, bounds, sizeof bounds / sizeof *bounds);
    mr_histogram_init(&counts->total, bounds, sizeof bounds / sizeof *bounds);
}

void mr_gateway_counts_close(struct mr_gateway_counts *counts)
{
    pthread_mutex_destroy(&counts->lock);
}

void mr_gateway_count(struct mr_gateway_counts *counts, enum mr_gateway_counter counter,
                      uint64_t count)
{
    atomic_fetch_add_explicit(&counts->counters[counter], count, memory_order_relaxed);
}

void mr_gateway_count_call(struct mr_gateway_counts *counts, unsigned endpoint, unsigned status)
{
    const unsigned row = endpoint < MR_OPENAI_ENDPOINTS ? endpoint : MR_OPENAI_ENDPOINTS;
    if (status < MR_GATEWAY_STATUSES)
        atomic_fetch_add_explicit(&counts->calls[row][status], 1, memory_order_relaxed);
}

void mr_gateway_observe(struct mr_gateway_counts *counts, uint64_t first_ns, uint64_t total_ns)
{
    pthread_mutex_lock(&counts->lock);
    if (first_ns > 0) mr_histogram_observe(&counts->first_token, (double)first_ns / 1e9);
    if (total_ns > 0) mr_histogram_observe(&counts->total, (double)total_ns / 1e9);
    pthread_mutex_unlock(&counts->lock);
}

static void print_calls(struct mr_gateway_counts *counts, FILE *out)
{
    static const char name[] = "millrace_gateway_calls_total";
    mr_metric_put_head(out, name, "counter", "HTTP calls that were answered.");
    for (unsigned row = 0; row <= MR_OPENAI_ENDPOINTS; row++) {
        for (unsigned status = 0; status < MR_GATEWAY_STATUSES; status++) {
            const uint64_t count = atomic_load(&counts->calls[row][status]);
            if (count == 0) continue;
            fprintf(out, "%s{path=\"%s\",code=\"%u\"} %" PRIu64 "\n", name,
                    row < MR_OPENAI_ENDPOINTS ? mr_openai_path((enum mr_openai_endpoint)row)
                                              : "other",
                    status, count);
        }
    }
}

static void print_gauges(const struct mr_gateway_gauges *gauges, FILE *out)
{
    mr_metric_put_value(out, "millrace_gateway_calls_in_flight", "gauge",
                        "Calls that wait for the rest of their answer.", gauges->in_flight);
    mr_metric_put_value(out, "millrace_gateway_connections", "gauge", "Open HTTP connections.",
                        gauges->connections);
    mr_metric_put_value(out, "millrace_gateway_buffered_bytes", "gauge",
                        "Bytes of bodies and of answers that wait for their readers.",
                        (double)gauges->buffered_bytes);
    mr_metric_put_value(out, "millrace_gateway_broker_up", "gauge",
                        "1 if a broker answered the last query, else 0.", gauges->broker);
    mr_metric_put_value(out, "millrace_gateway_workers_up", "gauge",
                        "1 if at least one worker is known to read the requests topic, else 0.",
                        gauges->workers);
}

enum mr_status mr_gateway_page(struct mr_gateway_counts *counts,
                               const struct mr_gateway_gauges *gauges, char **text, size_t *length,
                               struct mr_error *err)
{
    static const char first[] = "millrace_gateway_time_to_first_token_seconds";
    static const char total[] = "millrace_gateway_call_seconds";
    *text = NULL;
    FILE *out = open_memstream(text, length);
    if (!out) return mr_fail(err, MR_NOMEM, "no memory for the metrics");
    print_calls(counts, out);
    for (unsigned i = 0; i < MR_GATEWAY_COUNTER_COUNT; i++)
        mr_metric_put_value(out, counter_names[i].name, "counter", counter_names[i].help,
                            (double)atomic_load(&counts->counters[i]));
    print_gauges(gauges, out);
    pthread_mutex_lock(&counts->lock);
    struct mr_histogram copies[] = {counts->first_token, counts->total};
    pthread_mutex_unlock(&counts->lock);
    mr_metric_put_head(out, first, "histogram",
                       "Time from the end of a call's body to its first token record.");
    mr_metric_put_histogram(&copies[0], first, "", out);
    mr_metric_put_head(out, total, "histogram",
                       "Time from the end of a call's body to its result.");
    mr_metric_put_histogram(&copies[1], total, "", out);
    mr_process_metrics_print(out);
    return fclose(out) == 0 ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for the metrics");
}
