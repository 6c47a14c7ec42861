/* answering - an HTTP server on a thread that answers each POST with the next of its answers, and
 * the last one from then on. */
#ifndef TESTS_UNIT_WORKER_TRACE_ANSWERING_H
#define TESTS_UNIT_WORKER_TRACE_ANSWERING_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct answering {
    const char *answers[4]; /* "": reads the request and never answers it */
    int listener, held;
    char url[64];
    char request[1 << 16]; /* the last one */
    atomic_uint count;     /* requests read */
    pthread_t thread;
};

static inline void read_request(struct answering *server, int fd)
{
    size_t length = 0, wanted = SIZE_MAX;
    while (length < wanted && length + 1 < sizeof server->request) {
        ssize_t count = recv(fd, server->request + length, sizeof server->request - 1 - length, 0);
        if (count <= 0) break;
        length += (size_t)count;
        server->request[length] = '\0';
        char *end = strstr(server->request, "\r\n\r\n");
        char *bytes = strstr(server->request, "Content-Length: ");
        if (end && bytes)
            wanted = (size_t)(end + 4 - server->request) + strtoul(bytes + 16, NULL, 10);
    }
}

static inline void *answer_all(void *context)
{
    struct answering *server = context;
    for (unsigned at = 0;;) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0) return NULL;
        read_request(server, fd);
        atomic_fetch_add(&server->count, 1); /* before the answer, which the test may wait for */
        const char *answer = server->answers[at];
        if (at + 1 < 4 && server->answers[at + 1]) at++;
        if (answer[0] == '\0') {
            server->held = fd;
        } else {
            send(fd, answer, strlen(answer), MSG_NOSIGNAL);
            close(fd);
        }
    }
}

static inline void start_answering(struct answering *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    server->held = -1;
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->listener, 8), 0);
    getsockname(server->listener, (struct sockaddr *)&address, &length);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    pthread_create(&server->thread, NULL, answer_all, server);
}

static inline void stop_answering(struct answering *server)
{
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    if (server->held >= 0) close(server->held);
}

#endif
