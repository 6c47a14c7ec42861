#include "worker/trace/collector.h"

#include "worker/base/clock.h"
#include "worker/base/version.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_DEFAULT     "4318" /* of OTLP/HTTP */
#define PATH_DEFAULT     "/v1/traces"
#define ANSWER_BYTES_MAX ((size_t)16384)
/* how often the deadline is read anew while a socket is waited for */
#define WAIT_MAX_MS 100u

/* ---- the URL ---- */

static enum mr_status refuse(const char *url, struct mr_error *err)
{
    return mr_fail(err, MR_BAD_CONFIG, "'%.160s' is not http://HOST[:PORT][/PATH]", url);
}

/* Characters that may not be in a URL would end the request's lines early. */
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
                       "https is not supported; use a collector beside the worker, which sends the "
                       "spans on with TLS");
    if (strncasecmp(url, "http://", 7) != 0 || !is_plain(url)) return refuse(url, err);
    const char *host = url + 7;
    size_t authority = strcspn(host, "/?#");
    const char *path = host + authority;
    bool brackets = host[0] == '[';
    const char *end = brackets ? memchr(host, ']', authority) : NULL;
    if ((brackets && !end) || memchr(host, '@', authority)) return refuse(url, err);
    if (brackets) host++;
    size_t length = brackets ? (size_t)(end - host) : strcspn(host, ":/?#");
    const char *after = host + length + (brackets ? 1 : 0);
    size_t port = (size_t)(path - after);
    if (length == 0 || length >= sizeof collector->host) return refuse(url, err);
    if (port > 0 && (after[0] != ':' || !is_port(after + 1, port - 1))) return refuse(url, err);
    if (strlen(path) >= sizeof collector->path || (path[0] && path[0] != '/'))
        return refuse(url, err);
    snprintf(collector->host, sizeof collector->host, "%.*s", (int)length, host);
    snprintf(collector->port, sizeof collector->port, "%.*s", port > 0 ? (int)port - 1 : 4,
             port > 0 ? after + 1 : PORT_DEFAULT);
    snprintf(collector->authority, sizeof collector->authority, brackets ? "[%s]:%s" : "%s:%s",
             collector->host, collector->port);
    snprintf(collector->path, sizeof collector->path, "%s",
             path[0] == '\0' || strcmp(path, "/") == 0 ? PATH_DEFAULT : path);
    return MR_OK;
}

/* ---- the socket ---- */

struct call {
    const struct mr_collector *collector;
    const atomic_uint_least64_t *deadline_ns;
    uint64_t until_ns; /* when to give up the address that is being tried */
    int fd;
};

static enum mr_status fail_call(const struct call *call, const char *what, struct mr_error *err)
{
    return mr_fail(err, MR_UNREACHABLE, "collector %s: %s", call->collector->authority, what);
}

/* When to give up waiting: at the deadline, or before it at until_ns. */
static uint64_t end_ns(const struct call *call)
{
    uint64_t deadline_ns = atomic_load(call->deadline_ns);
    return call->until_ns < deadline_ns ? call->until_ns : deadline_ns;
}

/* Waits for an event of the socket; MR_UNREACHABLE when the time is up. */
static enum mr_status wait_for(const struct call *call, short events, struct mr_error *err)
{
    struct pollfd fd = {.fd = call->fd, .events = events};
    for (;;) {
        uint32_t left_ms = mr_clock_left_ms(mr_clock_ns(), end_ns(call));
        if (left_ms == 0) return fail_call(call, "no answer in time", err);
        if (left_ms > WAIT_MAX_MS) left_ms = WAIT_MAX_MS;
        int ready = poll(&fd, 1, (int)left_ms);
        if (ready > 0) return MR_OK;
        if (ready < 0 && errno != EINTR) return fail_call(call, strerror(errno), err);
    }
}

static enum mr_status connect_address(struct call *call, const struct addrinfo *address,
                                      struct mr_error *err)
{
    int error = 0;
    socklen_t length = sizeof error;
    call->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (call->fd < 0) return fail_call(call, strerror(errno), err);
    enum mr_status status = MR_OK;
    if (connect(call->fd, address->ai_addr, address->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            status = wait_for(call, POLLOUT, err);
            getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        }
        if (status == MR_OK && error != 0) status = fail_call(call, strerror(error), err);
    }
    if (status == MR_OK) return MR_OK;
    close(call->fd);
    call->fd = -1;
    return status;
}

/* The addresses share the time, so that one that swallows packets leaves some for the next. */
static void share_time(struct call *call, uint64_t addresses)
{
    uint64_t now_ns = mr_clock_ns(), deadline_ns = atomic_load(call->deadline_ns);
    call->until_ns = deadline_ns > now_ns ? now_ns + (deadline_ns - now_ns) / addresses : now_ns;
}

static enum mr_status open_socket(struct call *call, struct mr_error *err)
{
    uint64_t left = 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *addresses = NULL;
    int error = getaddrinfo(call->collector->host, call->collector->port, &hints, &addresses);
    if (error != 0) return fail_call(call, gai_strerror(error), err);
    enum mr_status status = MR_UNREACHABLE;
    for (const struct addrinfo *at = addresses; at; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = addresses; at && status != MR_OK; at = at->ai_next) {
        share_time(call, left--);
        status = connect_address(call, at, err);
    }
    call->until_ns = UINT64_MAX;
    freeaddrinfo(addresses);
    return status;
}

static enum mr_status send_text(const struct call *call, struct mr_text text, struct mr_error *err)
{
    while (text.length > 0) {
        ssize_t sent = send(call->fd, text.bytes, text.length, MSG_NOSIGNAL);
        if (sent > 0) {
            text = mr_text_part(text, (size_t)sent, text.length);
            continue;
        }
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return fail_call(call, strerror(errno), err);
        enum mr_status status = wait_for(call, POLLOUT, err);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

/* Reads the answer until its end or ANSWER_BYTES_MAX; NUL-terminated. */
static enum mr_status receive(const struct call *call, char answer[ANSWER_BYTES_MAX],
                              struct mr_error *err)
{
    size_t length = 0;
    while (length + 1 < ANSWER_BYTES_MAX) {
        ssize_t count = recv(call->fd, answer + length, ANSWER_BYTES_MAX - 1 - length, 0);
        if (count == 0) break;
        if (count > 0) {
            length += (size_t)count;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR) return fail_call(call, strerror(errno), err);
        enum mr_status status = wait_for(call, POLLIN, err);
        if (status != MR_OK) return status;
    }
    answer[length] = '\0';
    return MR_OK;
}

/* ---- the answer ---- */

/* The number of rejected spans in an ExportTraceServiceResponse; 0 without. */
static uint64_t read_rejected(const char *answer)
{
    const char *at = strstr(answer, "\"rejectedSpans\"");
    if (!at) return 0;
    at += strlen("\"rejectedSpans\"");
    return strtoull(at + strspn(at, " \t\r\n:\""), NULL, 10);
}

/* The status code of an HTTP/1.x answer; 0: it is none. */
static int read_code(const char *answer)
{
    if (strncmp(answer, "HTTP/1.", 7) != 0 || answer[7] == '\0' || answer[8] != ' ') return 0;
    const char *digits = answer + 9;
    return strspn(digits, "0123456789") == 3 ? (int)strtol(digits, NULL, 10) : 0;
}

static enum mr_status judge(const struct call *call, const char *answer, uint64_t *rejected,
                            struct mr_error *err)
{
    int code = read_code(answer);
    if (code == 0) return fail_call(call, "the answer is not HTTP", err);
    if (code >= 200 && code < 300) {
        *rejected = read_rejected(answer);
        return MR_OK;
    }
    bool again = code == 429 || code == 502 || code == 503 || code == 504;
    return mr_fail(err, again ? MR_AGAIN : MR_BACKEND, "collector %s%s answers %d",
                   call->collector->authority, call->collector->path, code);
}

enum mr_status mr_collector_post(const struct mr_collector *collector, struct mr_text body,
                                 const atomic_uint_least64_t *deadline_ns, uint64_t *rejected,
                                 struct mr_error *err)
{
    struct call call = {.collector = collector, .deadline_ns = deadline_ns, .fd = -1};
    char head[MR_COLLECTOR_PATH_BYTES + MR_COLLECTOR_HOST_BYTES + 256], answer[ANSWER_BYTES_MAX];
    int length = snprintf(head, sizeof head,
                          "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: millrace/%s\r\n"
                          "Content-Type: application/json\r\nContent-Length: %zu\r\n"
                          "Connection: close\r\n\r\n",
                          collector->path, collector->authority, mr_version, body.length);
    *rejected = 0;
    enum mr_status status = open_socket(&call, err);
    if (status != MR_OK) return status;
    status = send_text(&call, (struct mr_text){head, (size_t)length}, err);
    if (status == MR_OK) status = send_text(&call, body, err);
    if (status == MR_OK) status = receive(&call, answer, err);
    close(call.fd);
    return status == MR_OK ? judge(&call, answer, rejected, err) : status;
}
