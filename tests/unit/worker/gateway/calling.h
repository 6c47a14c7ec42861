/* calling - an HTTP client of one call at a time, for tests of the gateway's server. */
#ifndef MR_TESTS_UNIT_WORKER_GATEWAY_CALLING_H
#define MR_TESTS_UNIT_WORKER_GATEWAY_CALLING_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#define CHAT      "/v1/chat/completions"
#define CHAT_BODY "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"

/* receive_bytes: size of the socket's buffer; 0: the system's default. */
static inline int connect_to(uint16_t port, int receive_bytes)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct timeval patience = {.tv_sec = 30};
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (receive_bytes > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    assert_int_equal(connect(fd, (const struct sockaddr *)&place, sizeof place), 0);
    return fd;
}

/* Sends a call on a connection that the server closes afterwards. headers: lines that end with
 * \r\n. */
static inline void send_call(int fd, const char *method, const char *path, const char *headers,
                             const char *body)
{
    char head[1024];
    const int length = snprintf(head, sizeof head,
                                "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s"
                                "Content-Length: %zu\r\n\r\n",
                                method, path, headers, strlen(body));
    assert_true(length > 0 && (size_t)length < sizeof head);
    assert_int_equal(send(fd, head, (size_t)length, MSG_NOSIGNAL), length);
    assert_int_equal(send(fd, body, strlen(body), MSG_NOSIGNAL), (ssize_t)strlen(body));
}

/* Reads until the server closes the connection, which the call then closes too. The caller frees
 * the reply: head and body, NUL-terminated. */
static inline char *read_reply(int fd)
{
    size_t length = 0, room = 65536;
    char *reply = malloc(room);
    ssize_t count = 1;
    assert_non_null(reply);
    while (count > 0) {
        if (length + 4096 > room) {
            room *= 2;
            reply = realloc(reply, room);
            assert_non_null(reply);
        }
        count = recv(fd, reply + length, room - length - 1, 0);
        assert_true(count >= 0); /* the server answers before the socket's timeout */
        length += (size_t)count;
    }
    close(fd);
    reply[length] = '\0';
    return reply;
}

static inline char *call(uint16_t port, const char *method, const char *path, const char *headers,
                         const char *body)
{
    const int fd = connect_to(port, 0);
    send_call(fd, method, path, headers, body);
    return read_reply(fd);
}

/* Checks that the reply has this status and, unless it is NULL, this text, and frees the reply. */
static inline void expect_reply(char *reply, int status, const char *text)
{
    char line[32];
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(reply, line, strlen(line)) != 0 || (text && !strstr(reply, text)))
        fail_msg("expected %d with %s, got: %s", status, text ? text : "any text", reply);
    free(reply);
}

#endif
