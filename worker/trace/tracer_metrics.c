#include "worker/trace/tracer_metrics.h"

#include "worker/metrics/metric_text.h"

static void put_all(FILE *out, const void *all)
{
    const struct mr_tracer_stats *stats = all;
    mr_metric_put_value(out, "millrace_trace_spans_sent_total", "counter",
                        "Spans that the trace collector has accepted.", (double)stats->spans);
    mr_metric_put_value(out, "millrace_trace_spans_rejected_total", "counter",
                        "Spans that the trace collector refused.", (double)stats->rejected);
    mr_metric_put_value(out, "millrace_trace_requests_dropped_total", "counter",
                        "Requests whose spans were dropped because the trace collector did not "
                        "accept them in time.",
                        (double)stats->dropped);
    mr_metric_put_value(out, "millrace_trace_failures_total", "counter",
                        "Attempts to deliver spans to the trace collector that failed.",
                        (double)stats->failures);
    mr_metric_put_value(out, "millrace_trace_requests_waiting", "gauge",
                        "Requests whose spans wait to be sent to the trace collector.",
                        stats->waiting);
}

enum mr_status mr_tracer_metrics_append(const struct mr_tracer_stats *stats, char **text,
                                        size_t *length, struct mr_error *err)
{
    return mr_metric_append(text, length, put_all, stats, err);
}
