#include "worker/top/scrape.h"

#include "worker/base/clock.h"
#include "worker/http/http_client.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_BYTES ((size_t)352)
#define BUCKETS_MAX   64

/* ---- the page ---- */

enum mr_status mr_scrape_page(const char *address, const char *path, uint32_t timeout_ms,
                              char **body, struct mr_error *err)
{
    char request[REQUEST_BYTES], *reply = NULL;
    struct mr_http_address server;
    atomic_uint_least64_t deadline_ns = mr_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    *body = NULL;
    enum mr_status status = mr_http_address_read(&server, address, err);
    if (status != MR_OK) return status;
    int length =
        snprintf(request, sizeof request,
                 "GET %.32s HTTP/1.0\r\nHost: %.200s\r\nConnection: close\r\n\r\n", path, address);
    struct mr_http_call call = {.host = server.host,
                                .port = server.port,
                                .name = address,
                                .head = {request, (size_t)length},
                                .deadline_ns = &deadline_ns,
                                .reply_bytes_max = MR_SCRAPE_BYTES_MAX};
    status = mr_http_exchange(&call, &reply, err);
    if (status != MR_OK) return status;
    const char *start = mr_http_reply_body(reply);
    bool is_whole = start && strlen(reply) < MR_SCRAPE_BYTES_MAX;
    if (is_whole && mr_http_reply_code(reply) == 200) *body = strdup(start);
    free(reply);
    if (*body) return MR_OK;
    return mr_fail(err, MR_UNREACHABLE, "%.100s: %s", address,
                   is_whole ? "the worker loads its model" : "no answer");
}

/* ---- values ---- */

/* The next series of this name from `at` on; NULL: none. *value: its value. */
static const char *next_series(const char *at, const char *name, double *value)
{
    size_t length = strlen(name);
    for (; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, name, length) != 0 || (at[length] != '{' && at[length] != ' ')) continue;
        const char *number = at + length;
        if (*number == '{') number = strstr(number, "} ");
        if (!number) return NULL;
        *value = strtod(number + (*number == '}' ? 2 : 1), NULL);
        return at;
    }
    return NULL;
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : NULL;
}

/* Whether the labels of the series, which end at its line's end, contain the text. */
static bool has_labels(const char *series, const char *labels)
{
    const char *found = strstr(series, labels), *end = strchr(series, '\n');
    return !labels[0] || (found && (!end || found < end));
}

double mr_scrape_sum(const char *page, const char *name, const char *labels)
{
    double sum = 0, value = 0;
    for (const char *at = page; at && (at = next_series(at, name, &value)); at = next_line(at))
        if (has_labels(at, labels)) sum += value;
    return sum;
}

bool mr_scrape_next(const char **at, const char *name, struct mr_scrape_series *series)
{
    const char *found = *at ? next_series(*at, name, &series->value) : NULL;
    *at = found ? next_line(found) : NULL;
    if (!found) return false;
    const char *open = found + strlen(name), *close = *open == '{' ? strstr(open, "} ") : NULL;
    series->labels = close ? open + 1 : open;
    series->labels_length = close ? (size_t)(close - open - 1) : 0;
    return true;
}

/* The buckets of a histogram by their upper bounds, increasing; counts are cumulative. */
struct buckets {
    double bounds[BUCKETS_MAX], counts[BUCKETS_MAX];
    size_t count;
};

static void add_buckets(struct buckets *buckets, const char *page, const char *name, double sign)
{
    double value = 0;
    for (const char *at = page; at && (at = next_series(at, name, &value)); at = next_line(at)) {
        const char *bound = strstr(at, "le=\"");
        size_t i = 0;
        if (!bound) continue;
        double upper = strtod(bound + 4, NULL); /* "+Inf" is infinity */
        while (i < buckets->count && buckets->bounds[i] != upper)
            i++;
        if (i == BUCKETS_MAX) continue;
        if (i == buckets->count) buckets->bounds[buckets->count++] = upper;
        buckets->counts[i] += sign * value;
    }
}

double mr_scrape_quantile(const char *page, const char *before, const char *name, double q)
{
    char series[128];
    struct buckets buckets = {.count = 0};
    snprintf(series, sizeof series, "%s_bucket", name);
    add_buckets(&buckets, page, series, 1);
    if (before) add_buckets(&buckets, before, series, -1);
    if (buckets.count == 0 || buckets.counts[buckets.count - 1] <= 0) return NAN;
    double wanted = q * buckets.counts[buckets.count - 1];
    size_t i = 0;
    while (i + 1 < buckets.count && buckets.counts[i] < wanted)
        i++;
    return buckets.bounds[i];
}
