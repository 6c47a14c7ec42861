#include "worker/http/http.h"

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

static void answer(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    static const char *const bodies[] = {"alive", "{\"ready\":false}", "up 1\n"};
    *(int *)context += 1;
    reply->body = strdup(bodies[page]);
    reply->length = strlen(bodies[page]);
    if (page == MR_HTTP_READYZ) {
        reply->code = 503;
        reply->content_type = "application/json";
    }
}

static int connect_to(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in place = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct timeval patience = {.tv_sec = MR_HTTP_IDLE_SECONDS - 2};
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (const struct sockaddr *)&place, sizeof place), 0);
    return fd;
}

/* Sends the bytes and returns everything received until the server closes the connection. */
static const char *talk(uint16_t port, const char *bytes, size_t length)
{
    static char reply[8192];
    size_t got = 0;
    int fd = connect_to(port);
    ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
    (void)sent; /* a server that refuses early may have closed already */
    for (ssize_t n; got < sizeof reply - 1; got += (size_t)n) {
        n = recv(fd, reply + got, sizeof reply - 1 - got, 0);
        if (n <= 0) break;
    }
    close(fd);
    reply[got] = '\0';
    return reply;
}

static const char *ask(uint16_t port, const char *method, const char *path)
{
    char request[512];
    int length = snprintf(request, sizeof request,
                          "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, path);
    return talk(port, request, (size_t)length);
}

struct fixture {
    struct mr_http *http;
    uint16_t port;
    int calls;
};

static int start(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct mr_error err;
    assert_non_null(fixture);
    assert_int_equal(mr_http_start(&fixture->http, "127.0.0.1:0", answer, &fixture->calls, &err),
                     MR_OK);
    fixture->port = mr_http_port(fixture->http);
    assert_true(fixture->port > 0);
    *state = fixture;
    return 0;
}

static int stop(void **state)
{
    struct fixture *fixture = *state;
    mr_http_stop(fixture->http);
    free(fixture);
    return 0;
}

static void the_three_pages_are_answered(void **state)
{
    struct fixture *fixture = *state;
    const char *reply = ask(fixture->port, "GET", "/livez");
    assert_memory_equal(reply, "HTTP/1.1 200 ", 13);
    assert_non_null(strstr(reply, "\r\n\r\nalive"));
    reply = ask(fixture->port, "GET", "/readyz?verbose=1");
    assert_memory_equal(reply, "HTTP/1.1 503 ", 13);
    assert_non_null(strstr(reply, "application/json"));
    reply = ask(fixture->port, "GET", "/metrics");
    assert_non_null(strstr(reply, "\r\n\r\nup 1\n"));
    assert_int_equal(fixture->calls, 3);
}

static void the_root_lists_the_pages(void **state)
{
    struct fixture *fixture = *state;
    const char *reply = ask(fixture->port, "GET", "/");
    assert_memory_equal(reply, "HTTP/1.1 200 ", 13);
    assert_non_null(strstr(reply, "\n/readyz "));
    assert_non_null(strstr(reply, "\n/metrics "));
    assert_memory_equal(ask(fixture->port, "POST", "/"), "HTTP/1.1 405 ", 13);
    assert_memory_equal(ask(fixture->port, "GET", "/none"), "HTTP/1.1 404 ", 13);
    assert_int_equal(fixture->calls, 0);
}

static void head_has_no_body(void **state)
{
    struct fixture *fixture = *state;
    const char *reply = ask(fixture->port, "HEAD", "/livez");
    assert_memory_equal(reply, "HTTP/1.1 200 ", 13);
    assert_null(strstr(reply, "alive"));
}

static void other_paths_and_methods_are_refused(void **state)
{
    struct fixture *fixture = *state;
    assert_memory_equal(ask(fixture->port, "GET", "/livez/"), "HTTP/1.1 404 ", 13);
    assert_memory_equal(ask(fixture->port, "GET", "/metricsx"), "HTTP/1.1 404 ", 13);
    assert_memory_equal(ask(fixture->port, "GET", "/../livez"), "HTTP/1.1 404 ", 13);
    assert_memory_equal(ask(fixture->port, "DELETE", "/livez"), "HTTP/1.1 405 ", 13);
    static const char post[] =
        "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc";
    assert_memory_equal(talk(fixture->port, post, sizeof post - 1), "HTTP/1.1 405 ", 13);
    assert_int_equal(fixture->calls, 0);
}

static void an_oversized_header_is_refused_and_the_server_keeps_running(void **state)
{
    struct fixture *fixture = *state;
    size_t length = 4 * MR_HTTP_CONNECTION_BYTES;
    char *request = malloc(length);
    assert_non_null(request);
    memset(request, 'a', length);
    memcpy(request, "GET /livez HTTP/1.1\r\nX: ", 24);
    const char *reply = talk(fixture->port, request, length);
    free(request);
    assert_true(reply[0] == '\0' || strncmp(reply, "HTTP/1.1 4", 10) == 0);
    assert_int_equal(fixture->calls, 0);
    assert_memory_equal(ask(fixture->port, "GET", "/livez"), "HTTP/1.1 200 ", 13);
}

static void a_malformed_request_is_refused_and_the_server_keeps_running(void **state)
{
    struct fixture *fixture = *state;
    static const char nonsense[] = "\x16\x03\x01\x02 nonsense\r\n\r\n";
    talk(fixture->port, nonsense, sizeof nonsense - 1);
    assert_memory_equal(ask(fixture->port, "GET", "/livez"), "HTTP/1.1 200 ", 13);
}

static void a_port_in_use_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    char address[64];
    struct mr_http *second;
    struct mr_error err;
    snprintf(address, sizeof address, "127.0.0.1:%u", fixture->port);
    assert_int_equal(mr_http_start(&second, address, answer, NULL, &err), MR_UNREACHABLE);
    assert_null(second);
}

static void a_malformed_address_is_a_configuration_error(void **state)
{
    (void)state;
    static const char *const addresses[] = {
        "", ":1", "9464", "localhost:", "127.0.0.1:http", "no.such.host.invalid:1"};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        struct mr_http *http;
        struct mr_error err;
        assert_int_equal(mr_http_start(&http, addresses[i], answer, NULL, &err), MR_BAD_CONFIG);
        assert_null(http);
    }
}

/* More clients than the server has places connect and send nothing. A client that sends a request
 * is answered before the server closes idle connections (MR_HTTP_IDLE_SECONDS): talk waits for less
 * time than that. */
static void idle_clients_cannot_keep_others_out(void **state)
{
    const struct fixture *fixture = *state;
    enum { IDLE = MR_HTTP_CONNECTIONS_MAX + 50 };
    static int idle[IDLE];
    for (size_t i = 0; i < IDLE; i++)
        idle[i] = connect_to(fixture->port);
    assert_non_null(strstr(ask(fixture->port, "GET", "/livez"), "alive"));
    for (size_t i = 0; i < IDLE; i++)
        close(idle[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(idle_clients_cannot_keep_others_out, start, stop),
        cmocka_unit_test_setup_teardown(the_three_pages_are_answered, start, stop),
        cmocka_unit_test_setup_teardown(the_root_lists_the_pages, start, stop),
        cmocka_unit_test_setup_teardown(head_has_no_body, start, stop),
        cmocka_unit_test_setup_teardown(other_paths_and_methods_are_refused, start, stop),
        cmocka_unit_test_setup_teardown(an_oversized_header_is_refused_and_the_server_keeps_running,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_malformed_request_is_refused_and_the_server_keeps_running,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_port_in_use_is_an_error, start, stop),
        cmocka_unit_test(a_malformed_address_is_a_configuration_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
