/* Requests to the HTTP server, over a connection on loopback.
 *
 * Input: the bytes that a client sends before it closes its side. The server must answer or close
 * each connection, and continue to serve. */
#include "tests/fuzz/fuzz.h"
#include "worker/http/http.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define BYTES_MAX ((size_t)65536) /* so that sending never waits for the server */

static struct mr_http *server;

static void answer(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    (void)context;
    MR_ASSERT(page < MR_HTTP_PAGE_COUNT && reply->code == 200 && !reply->body);
    reply->body = strdup("page\n");
    reply->length = 5;
    if (page == MR_HTTP_READYZ) reply->code = 503;
}

/* Connects from another address of 127.0.0.0/8 each time, because a closed connection occupies its
 * pair of addresses for a minute, and one address has only a few thousand ports. -1: not connected.
 */
static int connect_once(void)
{
    static uint32_t last;
    const struct timeval limit = {.tv_sec = 60}; /* a machine may be busy */
    const int on = 1;
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(mr_http_port(server))};
    from.sin_addr.s_addr = htonl(UINT32_C(0x7f010000) + last++ % 0xfffff);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MR_ASSERT(fd >= 0);
    MR_ASSERT(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) == 0);
    MR_ASSERT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    if (bind(fd, (const struct sockaddr *)&from, sizeof from) == 0 &&
        connect(fd, (const struct sockaddr *)&place, sizeof place) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_to_server(void)
{
    int fd = -1;
    for (int tries = 0; fd < 0 && tries < 100; tries++)
        fd = connect_once();
    MR_ASSERT(fd >= 0);
    return fd;
}

/* Sends the bytes and returns how many bytes came back until the server closed the connection. */
static size_t talk(const void *bytes, size_t size, char *reply, size_t reply_max)
{
    size_t got = 0;
    int fd = connect_to_server();
    (void)!send(fd, bytes, size, MSG_NOSIGNAL); /* a server that rejects early may have closed */
    shutdown(fd, SHUT_WR);
    for (char rest[4096];;) {
        bool keeps = got < reply_max;
        ssize_t done =
            recv(fd, keeps ? reply + got : rest, keeps ? reply_max - got : sizeof rest, 0);
        if (done <= 0) break;
        got += (size_t)done;
    }
    close(fd);
    return got < reply_max ? got : reply_max;
}

static void start_server(void)
{
    struct mr_http *second;
    struct mr_error err;
    char used[64];
    MR_ASSERT(mr_http_start(&server, "127.0.0.1:0", answer, NULL, &err) == MR_OK);
    snprintf(used, sizeof used, "127.0.0.1:%u", mr_http_port(server));
    MR_ASSERT(mr_http_start(&second, used, answer, NULL, &err) == MR_UNREACHABLE && !second);
    MR_ASSERT(mr_http_start(&second, "[127.0.0.1]:x", answer, NULL, &err) == MR_BAD_CONFIG);
    MR_ASSERT(mr_http_start(&second, "127.0.0.1", answer, NULL, &err) == MR_BAD_CONFIG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char ping[] = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static unsigned count;
    char reply[4096];
    if (size > BYTES_MAX) return 0;
    if (!server) start_server();
    size_t got = talk(data, size, reply, sizeof reply);
    MR_ASSERT(got == 0 || (got >= 12 && memcmp(reply, "HTTP/1.", 7) == 0));
    if (++count % 16 != 0) return 0;
    got = talk(ping, sizeof ping - 1, reply, sizeof reply);
    MR_ASSERT(got >= 15 && memcmp(reply, "HTTP/1.1 200 OK", 15) == 0);
    return 0;
}
