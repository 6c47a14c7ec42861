#include "worker/top/scrape.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define HOST_BYTES   ((size_t)256)
#define BUCKETS_MAX  64
#define START_BYTES  ((size_t)65536)
#define STATUS_BYTES 12 /* "HTTP/1.1 200" */

/* ---- the page ---- */

/* address: HOST:PORT or [HOST]:PORT. -1: no connection. */
static int connect_to(const char *address, uint32_t timeout_ms, struct mr_error *err)
{
    char host[HOST_BYTES];
    const char *colon = strrchr(address, ':');
    bool brackets = colon && address[0] == '[' && colon[-1] == ']';
    size_t length = colon ? (size_t)(colon - address) - (brackets ? 2 : 0) : 0;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (length == 0 || length >= sizeof host) {
        mr_fail(err, MR_BAD_CONFIG, "%.100s is not HOST:PORT", address);
        return -1;
    }
    snprintf(host, sizeof host, "%.*s", (int)length, address + brackets);
    int code = getaddrinfo(host, colon + 1, &hints, &found), fd = -1;
    if (code != 0) mr_fail(err, MR_UNREACHABLE, "%.100s: %s", address, gai_strerror(code));
    const struct timeval limit = {.tv_sec = timeout_ms / 1000,
                                  .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    for (const struct addrinfo *each = found; each && fd < 0; each = each->ai_next) {
        fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, each->ai_addr, each->ai_addrlen) == 0) continue;
        mr_fail(err, MR_UNREACHABLE, "%.100s: %s", address, strerror(errno));
        close(fd);
        fd = -1;
    }
    if (found) freeaddrinfo(found);
    return fd;
}

/* Everything until the server closes the connection, NUL-terminated; NULL: an error, or too much.
 */
static char *receive_all(int fd)
{
    size_t room = START_BYTES, length = 0;
    char *text = malloc(room);
    while (text) {
        ssize_t got = recv(fd, text + length, room - length - 1, 0);
        if (got == 0) break;
        if (got > 0) length += (size_t)got;
        char *grown = text;
        if (got > 0 && length + 1 == room)
            grown = room < MR_SCRAPE_BYTES_MAX ? realloc(text, room *= 2) : NULL;
        if (got > 0 && grown) {
            text = grown;
            continue;
        }
        free(text);
        return NULL;
    }
    if (text) text[length] = '\0';
    return text;
}

enum mr_status mr_scrape_page(const char *address, const char *path, uint32_t timeout_ms,
                              char **body, struct mr_error *err)
{
    char request[HOST_BYTES + 96];
    *body = NULL;
    int fd = connect_to(address, timeout_ms, err);
    if (fd < 0) return err ? err->status : MR_UNREACHABLE;
    int length =
        snprintf(request, sizeof request,
                 "GET %.32s HTTP/1.0\r\nHost: %.200s\r\nConnection: close\r\n\r\n", path, address);
    char *reply = NULL;
    if (send(fd, request, (size_t)length, MSG_NOSIGNAL) == length) reply = receive_all(fd);
    close(fd);
    const char *start = reply ? strstr(reply, "\r\n\r\n") : NULL;
    bool good = start && strlen(reply) > STATUS_BYTES && memcmp(reply + 9, "200", 3) == 0;
    if (good) *body = strdup(start + 4);
    free(reply);
    if (*body) return MR_OK;
    return mr_fail(err, MR_UNREACHABLE, "%.100s: %s", address,
                   start ? "the worker loads its model" : "no answer");
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
