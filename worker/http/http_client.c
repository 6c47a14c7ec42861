#include "worker/http/http_client.h"

#include "worker/base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_BYTES_MIN ((size_t)16384)
/* interval at which the deadline, which may move, is read during a wait for a socket */
#define WAIT_MAX_MS 100u

enum mr_status mr_http_address_read(struct mr_http_address *out, const char *text,
                                    struct mr_error *err)
{
    const char *colon = strrchr(text, ':'), *start = text;
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        start++;
        length -= 2;
    }
    size_t digits = colon ? strlen(colon + 1) : 0;
    bool is_port = digits > 0 && digits < sizeof out->port &&
                   strspn(colon + 1, "0123456789") == digits &&
                   strtoul(colon + 1, NULL, 10) <= UINT16_MAX;
    if (length == 0 || length >= sizeof out->host || !is_port)
        return mr_fail(err, MR_BAD_CONFIG, "%.100s is not HOST:PORT", text);
    memcpy(out->host, start, length);
    out->host[length] = '\0';
    memcpy(out->port, colon + 1, digits + 1);
    return MR_OK;
}

/* ---- the socket ---- */

struct exchange {
    const struct mr_http_call *call;
    uint64_t until_ns; /* when to stop trying the current address; UINT64_MAX: connected */
    int fd;
};

static enum mr_status fail(const struct exchange *exchange, const char *what, struct mr_error *err)
{
    return mr_fail(err, MR_UNREACHABLE, "%.200s: %s", exchange->call->name, what);
}

static uint64_t end_ns(const struct exchange *exchange)
{
    uint64_t deadline_ns = atomic_load(exchange->call->deadline_ns);
    return exchange->until_ns < deadline_ns ? exchange->until_ns : deadline_ns;
}

/* Waits for an event of the socket; MR_UNREACHABLE when the time is up. */
static enum mr_status wait_for(const struct exchange *exchange, short events, struct mr_error *err)
{
    struct pollfd fd = {.fd = exchange->fd, .events = events};
    for (;;) {
        uint32_t left_ms = mr_clock_left_ms(mr_clock_ns(), end_ns(exchange));
        if (left_ms == 0) return fail(exchange, "no answer in time", err);
        if (left_ms > WAIT_MAX_MS) left_ms = WAIT_MAX_MS;
        int ready = poll(&fd, 1, (int)left_ms);
        if (ready > 0) return MR_OK;
        if (ready < 0 && errno != EINTR) return fail(exchange, strerror(errno), err);
    }
}

static enum mr_status connect_address(struct exchange *exchange, const struct addrinfo *address,
                                      struct mr_error *err)
{
    int error = 0;
    socklen_t length = sizeof error;
    exchange->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (exchange->fd < 0) return fail(exchange, strerror(errno), err);
    enum mr_status status = MR_OK;
    if (connect(exchange->fd, address->ai_addr, address->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            status = wait_for(exchange, POLLOUT, err);
            getsockopt(exchange->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        }
        if (status == MR_OK && error != 0) status = fail(exchange, strerror(error), err);
    }
    if (status == MR_OK) return MR_OK;
    close(exchange->fd);
    exchange->fd = -1;
    return status;
}

/* Sets the deadline of the next of `addresses` addresses: an equal share of the remaining time. */
static void share_time(struct exchange *exchange, uint64_t addresses)
{
    uint64_t now_ns = mr_clock_ns(), deadline_ns = atomic_load(exchange->call->deadline_ns);
    exchange->until_ns =
        deadline_ns > now_ns ? now_ns + (deadline_ns - now_ns) / addresses : now_ns;
}

static enum mr_status open_socket(struct exchange *exchange, struct mr_error *err)
{
    uint64_t left = 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *addresses = NULL;
    int error = getaddrinfo(exchange->call->host, exchange->call->port, &hints, &addresses);
    if (error != 0) return fail(exchange, gai_strerror(error), err);
    enum mr_status status = MR_UNREACHABLE;
    for (const struct addrinfo *at = addresses; at; at = at->ai_next)
        left++;
    for (const struct addrinfo *at = addresses; at && status != MR_OK; at = at->ai_next) {
        share_time(exchange, left--);
        status = connect_address(exchange, at, err);
    }
    exchange->until_ns = UINT64_MAX;
    freeaddrinfo(addresses);
    return status;
}

static enum mr_status send_text(const struct exchange *exchange, struct mr_text text,
                                struct mr_error *err)
{
    while (text.length > 0) {
        ssize_t sent = send(exchange->fd, text.bytes, text.length, MSG_NOSIGNAL);
        if (sent > 0) {
            text = mr_text_part(text, (size_t)sent, text.length);
            continue;
        }
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return fail(exchange, strerror(errno), err);
        enum mr_status status = wait_for(exchange, POLLOUT, err);
        if (status != MR_OK) return status;
    }
    return MR_OK;
}

/* Makes room for more bytes; false: there is no memory. */
static bool grow(char **reply, size_t *room, size_t most)
{
    size_t larger = *room > 0 ? *room * 2 : REPLY_BYTES_MIN;
    if (larger > most) larger = most;
    char *grown = realloc(*reply, larger + 1);
    if (!grown) return false;
    *reply = grown;
    *room = larger;
    return true;
}

/* Reads until the server closes the connection, or reply_bytes_max. On failure *reply has the bytes
 * read so far, or is NULL. */
static enum mr_status receive(const struct exchange *exchange, char **reply, struct mr_error *err)
{
    size_t length = 0, room = 0, most = exchange->call->reply_bytes_max;
    for (;;) {
        if (length == room && room < most && !grow(reply, &room, most))
            return fail(exchange, "no memory for the reply", err);
        if (length == room) break;
        ssize_t count = recv(exchange->fd, *reply + length, room - length, 0);
        if (count == 0) break;
        if (count > 0) {
            length += (size_t)count;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR) return fail(exchange, strerror(errno), err);
        enum mr_status status = wait_for(exchange, POLLIN, err);
        if (status != MR_OK) return status;
    }
    (*reply)[length] = '\0';
    return MR_OK;
}

enum mr_status mr_http_exchange(const struct mr_http_call *call, char **reply, struct mr_error *err)
{
    struct exchange exchange = {.call = call, .fd = -1};
    *reply = NULL;
    enum mr_status status = open_socket(&exchange, err);
    if (status != MR_OK) return status;
    status = send_text(&exchange, call->head, err);
    if (status == MR_OK) status = send_text(&exchange, call->body, err);
    if (status == MR_OK) status = receive(&exchange, reply, err);
    close(exchange.fd);
    if (status == MR_OK) return MR_OK;
    free(*reply);
    *reply = NULL;
    return status;
}

/* ---- the reply ---- */

int mr_http_reply_code(const char *reply)
{
    if (strncmp(reply, "HTTP/1.", 7) != 0 || reply[7] == '\0' || reply[8] != ' ') return 0;
    const char *digits = reply + 9;
    return strspn(digits, "0123456789") == 3 ? (int)strtol(digits, NULL, 10) : 0;
}

const char *mr_http_reply_body(const char *reply)
{
    const char *head_end = strstr(reply, "\r\n\r\n");
    return head_end ? head_end + 4 : NULL;
}
