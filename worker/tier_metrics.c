#include "worker/tier_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(FILE *out, const char *name, const char *type, const char *help, double value)
{
    fprintf(out, "# HELP millrace_tier_%s %s\n# TYPE millrace_tier_%s %s\nmillrace_tier_%s %.17g\n",
            name, help, name, type, name, value);
}

static void put_counters(FILE *out, const struct mr_tier_redis_stats *stats)
{
    static const char *const names[] = {
#define X(name, text, help) text "_total",
        MR_TIER_COUNTER_LIST(X)
#undef X
    };
    static const char *const helps[] = {
#define X(name, text, help) help,
        MR_TIER_COUNTER_LIST(X)
#undef X
    };
    for (size_t i = 0; i < MR_TIER_COUNTER_COUNT; i++)
        put(out, names[i], "counter", helps[i], (double)stats->queue.counters[i]);
}

static void put_client(FILE *out, const struct mr_redis_client_stats *client)
{
    put(out, "connects_total", "counter", "Attempts to connect", (double)client->connects);
    put(out, "connection_failures_total", "counter", "Connections that ended or did not stand",
        (double)client->failures);
    put(out, "breaker_openings_total", "counter", "Times a circuit breaker opened",
        (double)client->breaker_openings);
    put(out, "breaker_state", "gauge", "Of look-ups: 0 closed, 1 open, 2 half open",
        (double)client->breaker);
    put(out, "redirects_total", "counter", "Commands sent on by a cluster",
        (double)client->redirects);
    put(out, "sent_bytes_total", "counter", "Bytes sent to Redis",
        (double)client->bytes.sent_bytes);
    put(out, "received_bytes_total", "counter", "Bytes received from Redis",
        (double)client->bytes.received_bytes);
    put(out, "copied_bytes_total", "counter", "Bytes of values that were copied once received",
        (double)client->bytes.copied_bytes);
}

static void put_all(FILE *out, const struct mr_tier_redis_stats *stats)
{
    put(out, "up", "gauge", "1 while look-ups are taken", stats->rates.up);
    put(out, "bytes_per_second", "gauge", "Measured rate of loads", stats->rates.bytes_per_second);
    put(out, "round_trip_seconds", "gauge", "Measured time of a look-up",
        (double)stats->rates.round_trip_ns / 1e9);
    put(out, "waiting_load_bytes", "gauge", "Bytes of loads not over",
        (double)stats->queue.waiting_load_bytes);
    put(out, "waiting_store_bytes", "gauge", "Bytes of stores not over",
        (double)stats->queue.waiting_store_bytes);
    put_counters(out, stats);
    put_client(out, &stats->client);
}

enum mr_status mr_tier_metrics_append(const struct mr_tier_redis_stats *stats, char **text,
                                      size_t *length, struct mr_error *err)
{
    char *more = NULL;
    size_t more_length = 0;
    FILE *out = open_memstream(&more, &more_length);
    if (!out) return mr_fail(err, MR_NOMEM, "no memory for the tier's metrics");
    put_all(out, stats);
    char *joined = fclose(out) == 0 ? realloc(*text, *length + more_length + 1) : NULL;
    if (!joined) {
        free(more);
        return mr_fail(err, MR_NOMEM, "no memory for the tier's metrics");
    }
    memcpy(joined + *length, more, more_length + 1);
    *text = joined;
    *length += more_length;
    free(more);
    return MR_OK;
}
