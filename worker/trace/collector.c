#include "worker/trace/collector.h"

#include "worker/base/version.h"
#include "worker/http/http_client.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT     "4318" /* of OTLP/HTTP */
#define PATH_DEFAULT     "/v1/traces"
#define ANSWER_BYTES_MAX ((size_t)16384)

/* ---- the URL ---- */

/* The sentence does not repeat the URL, which may have a password; the caller masks it. */
static enum mr_status refuse(struct mr_error *err)
{
    return mr_fail(err, MR_BAD_CONFIG, "is not http://HOST[:PORT][/PATH]");
}

/* Rejects characters that a URL may not have: they could end a line of the request early. */
static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f) return false;
    return true;
}

static bool is_port(const char *text, size_t length)
{
    unsigned long number = strtoul(text, NULL, 10);
    return length > 0 && length <= 5 && strspn(text, "0123456789") == length && number > 0 &&
           number <= 65535;
}

enum mr_status mr_collector_parse(struct mr_collector *collector, const char *url,
                                  struct mr_error *err)
{
    if (strncasecmp(url, "https://", 8) == 0)
        return mr_fail(err, MR_BAD_CONFIG,
                       "https is not supported; run a collector on this host that forwards the "
                       "spans with TLS");
    if (strncasecmp(url, "http://", 7) != 0 || !is_plain(url)) return refuse(err);
    const char *host = url + 7;
    size_t authority = strcspn(host, "/?#");
    const char *path = host + authority;
    bool brackets = host[0] == '[';
    const char *end = brackets ? memchr(host, ']', authority) : NULL;
    if ((brackets && !end) || memchr(host, '@', authority)) return refuse(err);
    if (brackets) host++;
    size_t length = brackets ? (size_t)(end - host) : strcspn(host, ":/?#");
    const char *after = host + length + (brackets ? 1 : 0);
    size_t port = (size_t)(path - after);
    if (length == 0 || length >= sizeof collector->host) return refuse(err);
    if (port > 0 && (after[0] != ':' || !is_port(after + 1, port - 1))) return refuse(err);
    if (strlen(path) >= sizeof collector->path || (path[0] && path[0] != '/')) return refuse(err);
    snprintf(collector->host, sizeof collector->host, "%.*s", (int)length, host);
    snprintf(collector->port, sizeof collector->port, "%.*s", port > 0 ? (int)port - 1 : 4,
             port > 0 ? after + 1 : PORT_DEFAULT);
    snprintf(collector->authority, sizeof collector->authority, brackets ? "[%s]:%s" : "%s:%s",
             collector->host, collector->port);
    snprintf(collector->path, sizeof collector->path, "%s",
             path[0] == '\0' || strcmp(path, "/") == 0 ? PATH_DEFAULT : path);
    return MR_OK;
}

/* ---- the answer ---- */

/* Returns the number of rejected spans in an ExportTraceServiceResponse, or 0. */
static uint64_t read_rejected(const char *answer)
{
    const char *at = strstr(answer, "\"rejectedSpans\"");
    if (!at) return 0;
    at += strlen("\"rejectedSpans\"");
    return strtoull(at + strspn(at, " \t\r\n:\""), NULL, 10);
}

static enum mr_status judge(const struct mr_collector *collector, const char *answer,
                            uint64_t *rejected, struct mr_error *err)
{
    int code = mr_http_reply_code(answer);
    if (code == 0)
        return mr_fail(err, MR_UNREACHABLE, "collector %s: the answer is not HTTP",
                       collector->authority);
    if (code >= 200 && code < 300) {
        *rejected = read_rejected(answer);
        return MR_OK;
    }
    bool again = code == 429 || code == 502 || code == 503 || code == 504;
    return mr_fail(err, again ? MR_AGAIN : MR_BACKEND, "collector %s%s answers %d",
                   collector->authority, collector->path, code);
}

enum mr_status mr_collector_post(const struct mr_collector *collector, struct mr_text body,
                                 const atomic_uint_least64_t *deadline_ns, uint64_t *rejected,
                                 struct mr_error *err)
{
    char head[MR_COLLECTOR_PATH_BYTES + MR_COLLECTOR_HOST_BYTES + 256];
    char name[MR_COLLECTOR_HOST_BYTES + 32], *answer = NULL;
    int length = snprintf(head, sizeof head,
                          "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: millrace/%s\r\n"
                          "Content-Type: application/json\r\nContent-Length: %zu\r\n"
                          "Connection: close\r\n\r\n",
                          collector->path, collector->authority, mr_version, body.length);
    snprintf(name, sizeof name, "collector %s", collector->authority);
    struct mr_http_call call = {.host = collector->host,
                                .port = collector->port,
                                .name = name,
                                .head = {head, (size_t)length},
                                .body = body,
                                .deadline_ns = deadline_ns,
                                .reply_bytes_max = ANSWER_BYTES_MAX};
    *rejected = 0;
    enum mr_status status = mr_http_exchange(&call, &answer, err);
    if (status == MR_OK) status = judge(collector, answer, rejected, err);
    free(answer);
    return status;
}
