#include "worker/redis/tier_metrics.h"

#include "worker/metrics/metric_text.h"

#include <inttypes.h>
#include <stdio.h>

static void put(FILE *out, const char *name, const char *type, const char *help, double value)
{
    fprintf(out, "# HELP millrace_tier_%s %s\n# TYPE millrace_tier_%s %s\nmillrace_tier_%s %.17g\n",
            name, help, name, type, name, value);
}

static void put_counters(FILE *out, const struct mr_tier_redis_stats *stats)
{
    static const char *const names[] = {
#define X(name, metric, help) metric "_total",
        MR_TIER_COUNTER_LIST(X)
#undef X
    };
    static const char *const helps[] = {
#define X(name, metric, help) help,
        MR_TIER_COUNTER_LIST(X)
#undef X
    };
    for (size_t i = 0; i < MR_TIER_COUNTER_COUNT; i++)
        put(out, names[i], "counter", helps[i], (double)stats->queue.counters[i]);
}

static void put_causes(FILE *out, const struct mr_tier_redis_stats *stats)
{
    fputs("# HELP millrace_tier_verify_failures_total Values of KV blocks rejected after a load, "
          "by cause\n"
          "# TYPE millrace_tier_verify_failures_total counter\n",
          out);
    for (unsigned i = MR_VERDICT_GOOD + 1; i < MR_VERDICT_COUNT; i++)
        fprintf(out, "millrace_tier_verify_failures_total{cause=\"%s\"} %" PRIu64 "\n",
                mr_verdict_text((enum mr_verdict)i), stats->queue.damaged[i]);
}

static void put_redirects(FILE *out, const struct mr_redis_client_stats *client)
{
    fprintf(
        out,
        "# HELP millrace_tier_redirects_total Commands that a Redis Cluster redirected to another "
        "node\n"
        "# TYPE millrace_tier_redirects_total counter\n"
        "millrace_tier_redirects_total{kind=\"moved\"} %" PRIu64 "\n"
        "millrace_tier_redirects_total{kind=\"ask\"} %" PRIu64 "\n",
        client->moved, client->asked);
}

static void put_histogram(FILE *out, const char *name, const char *help,
                          const struct mr_histogram *histogram)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    mr_histogram_print(histogram, name, "", out);
}

static void put_client(FILE *out, const struct mr_redis_client_stats *client)
{
    put(out, "connects_total", "counter", "Attempts to connect to Redis", (double)client->connects);
    put(out, "connection_failures_total", "counter",
        "Connections to Redis that failed or were closed", (double)client->failures);
    put(out, "breaker_openings_total", "counter",
        "Times the circuit breaker of a Redis node opened", (double)client->breaker_openings);
    put(out, "breaker_state", "gauge",
        "Circuit breaker of the lookup connection: 0 closed, 1 open, 2 half open",
        (double)client->breaker);
    put_redirects(out, client);
    put(out, "sent_bytes_total", "counter", "Bytes sent to Redis",
        (double)client->bytes.sent_bytes);
    put(out, "received_bytes_total", "counter", "Bytes received from Redis",
        (double)client->bytes.read.received_bytes);
    put(out, "copied_bytes_total", "counter",
        "Bytes of values that were copied after they were received",
        (double)client->bytes.read.copied_bytes);
}

static void put_all(FILE *out, const void *all)
{
    const struct mr_tier_redis_stats *stats = all;
    put(out, "up", "gauge", "1 while Redis is connected and answers", stats->rates.up);
    put(out, "bytes_per_second", "gauge", "Measured bandwidth of loads from Redis",
        stats->rates.bytes_per_second);
    put(out, "round_trip_seconds", "gauge", "Measured time of a lookup, running mean",
        (double)stats->rates.round_trip_ns / 1e9);
    put(out, "waiting_load_bytes", "gauge", "Bytes of loads that are not finished",
        (double)stats->queue.waiting_load_bytes);
    put(out, "waiting_store_bytes", "gauge", "Bytes of stores that are not finished",
        (double)stats->queue.waiting_store_bytes);
    put_counters(out, stats);
    put_causes(out, stats);
    put_histogram(out, "millrace_tier_look_seconds", "Time of the lookups that were answered",
                  &stats->queue.lookup_seconds);
    put_histogram(out, "millrace_tier_load_seconds", "Time of the loads that received anything",
                  &stats->queue.load_seconds);
    put_client(out, &stats->client);
}

enum mr_status mr_tier_metrics_append(const struct mr_tier_redis_stats *stats, char **text,
                                      size_t *length, struct mr_error *err)
{
    return mr_metric_append(text, length, put_all, stats, err);
}

static uint64_t count_damaged(const struct mr_tier_redis_stats *stats)
{
    uint64_t sum = 0;
    for (unsigned i = MR_VERDICT_GOOD + 1; i < MR_VERDICT_COUNT; i++)
        sum += stats->queue.damaged[i];
    return sum;
}

void mr_tier_metrics_line(const struct mr_tier_redis_stats *stats, char text[MR_TIER_LINE_BYTES])
{
    const uint64_t *counters = stats->queue.counters;
    snprintf(text, MR_TIER_LINE_BYTES,
             "%s, lookup %.2f ms, load %.2f GB/s; lookups %" PRIu64 ", late %" PRIu64
             "; items found %" PRIu64 ", loaded %" PRIu64 ", gone %" PRIu64 ", damaged %" PRIu64
             ", stored %" PRIu64 ", dropped %" PRIu64 "; waiting %.0f MB",
             stats->rates.up ? "up" : "down", (double)stats->rates.round_trip_ns / 1e6,
             stats->rates.bytes_per_second / 1e9, counters[MR_TIER_LOOKUPS],
             counters[MR_TIER_LOOKUPS_LATE], counters[MR_TIER_ITEMS_FOUND],
             counters[MR_TIER_ITEMS_LOADED], counters[MR_TIER_ITEMS_GONE], count_damaged(stats),
             counters[MR_TIER_ITEMS_STORED], counters[MR_TIER_ITEMS_DROPPED],
             (double)(stats->queue.waiting_load_bytes + stats->queue.waiting_store_bytes) / 1e6);
}
