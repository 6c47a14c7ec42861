#include "worker/remote_cache/remote_metrics.h"

#include "worker/metrics/metric_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static void put(FILE *out, const char *name, const char *type, const char *help, double value)
{
    fprintf(out, "# HELP millrace_tier_%s %s\n# TYPE millrace_tier_%s %s\nmillrace_tier_%s %.17g\n",
            name, help, name, type, name, value);
}

static void put_counters(FILE *out, const struct mr_redis_cache_stats *stats)
{
    static const char *const names[] = {
#define X(name, metric, help) metric "_total",
        MR_REMOTE_COUNTER_LIST(X)
#undef X
    };
    static const char *const helps[] = {
#define X(name, metric, help) help,
        MR_REMOTE_COUNTER_LIST(X)
#undef X
    };
    for (size_t i = 0; i < MR_REMOTE_COUNTER_COUNT; i++)
        put(out, names[i], "counter", helps[i], (double)stats->queue.counters[i]);
}

static void put_causes(FILE *out, const struct mr_redis_cache_stats *stats)
{
    fputs("# HELP millrace_tier_verify_failures_total Slices of values rejected after a load, "
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
    mr_metric_put_histogram(histogram, name, "", out);
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
        (double)client->bytes.received_bytes);
    put(out, "copied_bytes_total", "counter",
        "Bytes of values that were copied after they were received",
        (double)client->bytes.copied_bytes);
}

static void put_all(FILE *out, const void *all)
{
    const struct mr_redis_cache_stats *stats = all;
    put(out, "up", "gauge", "1 while Redis is connected and answers", stats->rates.up);
    put(out, "bytes_per_second", "gauge", "Measured bandwidth of loads from Redis",
        stats->rates.bytes_per_second);
    put(out, "round_trip_seconds", "gauge", "Running mean of the duration of a lookup",
        (double)stats->rates.round_trip_ns / 1e9);
    put(out, "waiting_load_bytes", "gauge", "Bytes of loads accepted and not finished",
        (double)stats->queue.waiting_load_bytes);
    put(out, "waiting_store_bytes", "gauge", "Bytes of stores accepted and not finished",
        (double)stats->queue.waiting_store_bytes);
    put_counters(out, stats);
    put_causes(out, stats);
    put_histogram(out, "millrace_tier_look_seconds", "Duration of the lookups that Redis answered",
                  &stats->queue.lookup_seconds);
    put_histogram(out, "millrace_tier_load_seconds",
                  "Duration of the loads that received at least one byte",
                  &stats->queue.load_seconds);
    put_client(out, &stats->client);
}

enum mr_status mr_remote_metrics_append(const struct mr_redis_cache_stats *stats, char **text,
                                        size_t *length, struct mr_error *err)
{
    return mr_metric_append(text, length, put_all, stats, err);
}

static uint64_t count_damaged(const struct mr_redis_cache_stats *stats)
{
    uint64_t sum = 0;
    for (unsigned i = MR_VERDICT_GOOD + 1; i < MR_VERDICT_COUNT; i++)
        sum += stats->queue.damaged[i];
    return sum;
}

static double megabytes(uint64_t bytes)
{
    return round((double)bytes / 1e6);
}

void mr_remote_metrics_log(const struct mr_redis_cache_stats *stats,
                           const struct mr_remote_prefix_stats *shared, struct mr_log *log)
{
    const uint64_t *counters = stats->queue.counters;
    uint64_t waiting_bytes = stats->queue.waiting_load_bytes + stats->queue.waiting_store_bytes;
    mr_log_event(log, MR_LOG_INFO, NULL, "Redis statistics", MR_LOG_NUMBER("up", stats->rates.up),
                 MR_LOG_NUMBER("round_trip_us", (double)(stats->rates.round_trip_ns / 1000)),
                 MR_LOG_NUMBER("load_mb_per_second", round(stats->rates.bytes_per_second / 1e6)),
                 MR_LOG_NUMBER("lookups", counters[MR_REMOTE_LOOKUPS]),
                 MR_LOG_NUMBER("late", counters[MR_REMOTE_LOOKUPS_LATE]),
                 MR_LOG_NUMBER("items_found", counters[MR_REMOTE_VALUES_FOUND]),
                 MR_LOG_NUMBER("items_loaded", counters[MR_REMOTE_VALUES_LOADED]),
                 MR_LOG_NUMBER("items_gone", counters[MR_REMOTE_VALUES_GONE]),
                 MR_LOG_NUMBER("items_damaged", count_damaged(stats)),
                 MR_LOG_NUMBER("items_stored", counters[MR_REMOTE_VALUES_STORED]),
                 MR_LOG_NUMBER("items_dropped", counters[MR_REMOTE_VALUES_DROPPED]),
                 MR_LOG_NUMBER("waiting_mb", megabytes(waiting_bytes)),
                 MR_LOG_NUMBER("tokens_looked_up", shared->lookup_tokens),
                 MR_LOG_NUMBER("tokens_loaded", shared->loaded_tokens),
                 MR_LOG_NUMBER("loaded_mb", megabytes(shared->loaded_bytes)),
                 MR_LOG_NUMBER("stored_mb", megabytes(shared->stored_bytes)));
}
