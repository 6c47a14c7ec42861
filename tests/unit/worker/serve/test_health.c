#include "worker/serve/health.h"

#include "worker/serve/parts_state.h"

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
#include <unistd.h>

#include <cmocka.h>

/* A worker without parts, for the HTTP server. */
static struct mr_worker *worker_at(const struct mr_config *config)
{
    struct mr_worker *worker = calloc(1, sizeof *worker);
    assert_non_null(worker);
    worker->options.config = config;
    assert_int_equal(mr_wake_open(&worker->wake, NULL), MR_OK);
    pthread_mutex_init(&worker->mutex, NULL);
    return worker;
}

/* The reply to GET path: status line, headers and body. */
static const char *get(const struct mr_worker *worker, const char *path)
{
    static char reply[4096];
    char request[128];
    size_t got = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in place = {.sin_family = AF_INET,
                                      .sin_port = htons(mr_http_port(worker->http)),
                                      .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(connect(fd, (const struct sockaddr *)&place, sizeof place), 0);
    int length = snprintf(request, sizeof request,
                          "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    assert_int_equal(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
    for (ssize_t n; got < sizeof reply - 1; got += (size_t)n)
        if ((n = recv(fd, reply + got, sizeof reply - 1 - got, 0)) <= 0) break;
    close(fd);
    reply[got] = '\0';
    return reply;
}

static void assert_answer(const struct mr_worker *worker, const char *path, const char *code,
                          const char *body)
{
    const char *reply = get(worker, path);
    assert_memory_equal(reply + strlen("HTTP/1.1 "), code, 3);
    if (!strstr(reply, body)) fail_msg("%s answers %s", path, reply);
}

static void a_worker_that_loads_is_alive_and_not_ready(void **state)
{
    (void)state;
    const struct mr_config config = {.http = "127.0.0.1:0"};
    struct mr_worker *worker = worker_at(&config);
    assert_int_equal(mr_health_open(worker, NULL), MR_OK);
    assert_answer(worker, "/livez", "200", "loading");
    assert_answer(worker, "/requests", "503", "loading");
    assert_answer(worker, "/readyz", "503", "\"ready\":false,\"reason\":\"model: loading\"");
    assert_answer(worker, "/metrics", "503", "loading");
    assert_int_equal(mr_worker_health(worker, NULL), MR_OK);
    mr_worker_destroy(worker, 0);
}

static void a_failed_worker_reports_the_reason(void **state)
{
    (void)state;
    const struct mr_config config = {.http = "127.0.0.1:0"};
    struct mr_worker *worker = worker_at(&config);
    struct mr_error err = {0};
    assert_int_equal(mr_health_open(worker, NULL), MR_OK);
    atomic_store(&worker->ready, true);
    mr_fail(&worker->failure, MR_BACKEND, "the producer was fenced");
    assert_answer(worker, "/livez", "503", "fenced");
    assert_answer(worker, "/readyz", "503", "fenced");
    assert_int_equal(mr_worker_health(worker, &err), MR_BACKEND);
    assert_string_equal(err.detail, "the producer was fenced");
    mr_worker_destroy(worker, 0);
}

static void a_thread_that_hangs_is_noticed_while_the_worker_loads(void **state)
{
    (void)state;
    const struct mr_config config = {.http = "127.0.0.1:0"};
    struct mr_worker *worker = worker_at(&config);
    struct mr_heartbeat *beat = mr_heartbeat_add(&worker->heartbeats, "publish", 1);
    assert_int_equal(mr_health_open(worker, NULL), MR_OK);
    assert_answer(worker, "/livez", "200", "loading");
    mr_heartbeat_begin(beat, 1);
    assert_answer(worker, "/livez", "503", "stuck: the thread publish has been in one step for ");
    mr_heartbeat_end(beat);
    assert_answer(worker, "/livez", "200", "loading");
    mr_worker_destroy(worker, 0);
}

static void the_pages_can_be_off_and_a_bad_address_is_refused(void **state)
{
    (void)state;
    static const char *const off[] = {"", "off"};
    struct mr_config config = {.http = "nonsense"};
    struct mr_worker *worker = worker_at(&config);
    assert_int_equal(mr_health_open(worker, NULL), MR_BAD_CONFIG);
    assert_null(worker->http);
    for (size_t i = 0; i < 2; i++) {
        config.http = off[i];
        assert_int_equal(mr_health_open(worker, NULL), MR_OK);
        assert_null(worker->http);
    }
    mr_worker_destroy(worker, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_loads_is_alive_and_not_ready),
        cmocka_unit_test(a_failed_worker_reports_the_reason),
        cmocka_unit_test(a_thread_that_hangs_is_noticed_while_the_worker_loads),
        cmocka_unit_test(the_pages_can_be_off_and_a_bad_address_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
