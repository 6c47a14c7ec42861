#include "worker/trace/collector.h"

#include "worker/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/trace/answering.h"
#include "tests/unit/worker/two_addresses.h"

#define SECOND_NS UINT64_C(1000000000)

static void a_url_names_host_port_and_path(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host, *port, *authority, *path;
    } table[] = {
        {"http://otel", "otel", "4318", "otel:4318", "/v1/traces"},
        {"http://otel/", "otel", "4318", "otel:4318", "/v1/traces"},
        {"HTTP://otel:80", "otel", "80", "otel:80", "/v1/traces"},
        {"http://10.1.2.3:4318/x/y?z=1", "10.1.2.3", "4318", "10.1.2.3:4318", "/x/y?z=1"},
        {"http://[::1]:99/p", "::1", "99", "[::1]:99", "/p"},
        {"http://[::1]", "::1", "4318", "[::1]:4318", "/v1/traces"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct mr_collector collector;
        assert_int_equal(mr_collector_parse(&collector, table[i].url, NULL), MR_OK);
        assert_string_equal(collector.host, table[i].host);
        assert_string_equal(collector.port, table[i].port);
        assert_string_equal(collector.authority, table[i].authority);
        assert_string_equal(collector.path, table[i].path);
    }
}

static void other_urls_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {"",
                                       "otel:4318",
                                       "ftp://otel",
                                       "http://",
                                       "http://:80",
                                       "http://otel:",
                                       "http://otel:0",
                                       "http://otel:65536",
                                       "http://otel:8x",
                                       "http://user:word@otel",
                                       "http://otel?x",
                                       "http://[::1",
                                       "http://[::1]x",
                                       "http://ot el",
                                       "http://otel/\r\nX: y"};
    struct mr_collector collector;
    struct mr_error err;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        assert_int_equal(mr_collector_parse(&collector, urls[i], &err), MR_BAD_CONFIG);
    assert_int_equal(mr_collector_parse(&collector, "https://otel:4318", &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "run a collector on this host"));
}

static enum mr_status post(const char *answer, uint64_t *rejected, struct answering *server)
{
    struct mr_collector collector;
    atomic_uint_least64_t deadline_ns = mr_clock_ns() + 30 * SECOND_NS;
    *server = (struct answering){.answers = {answer}};
    start_answering(server);
    assert_int_equal(mr_collector_parse(&collector, server->url, NULL), MR_OK);
    enum mr_status status = mr_collector_post(&collector, (struct mr_text){"{\"a\":1}", 7},
                                              &deadline_ns, rejected, NULL);
    stop_answering(server);
    return status;
}

static void the_answer_decides_whether_the_body_is_sent_again(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        enum mr_status status;
        uint64_t rejected;
    } table[] = {
        {"HTTP/1.1 200 OK\r\n\r\n{}", MR_OK, 0},
        {"HTTP/1.0 202 Accepted\r\n\r\n", MR_OK, 0},
        {"HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\": {\"rejectedSpans\": \"12\"}}", MR_OK, 12},
        {"HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":3}}", MR_OK, 3},
        {"HTTP/1.1 429 Too Many Requests\r\n\r\n", MR_AGAIN, 0},
        {"HTTP/1.1 503 Busy\r\n\r\n", MR_AGAIN, 0},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", MR_BACKEND, 0},
        {"HTTP/1.1 404 Not Found\r\n\r\n", MR_BACKEND, 0},
        {"hello\r\n\r\n", MR_UNREACHABLE, 0},
        {"HTTP/1.1 9", MR_UNREACHABLE, 0},
    };
    static struct answering server;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t rejected = 99;
        assert_int_equal(post(table[i].answer, &rejected, &server), table[i].status);
        assert_int_equal(rejected, table[i].rejected);
        assert_non_null(strstr(server.request, "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:"));
        assert_non_null(strstr(server.request, "Content-Length: 7\r\n"));
        assert_non_null(strstr(server.request, "\r\n\r\n{\"a\":1}"));
    }
}

static void a_collector_that_is_away_or_silent_is_given_up_at_the_deadline(void **state)
{
    (void)state;
    struct mr_collector collector;
    struct mr_error err;
    uint64_t rejected;
    atomic_uint_least64_t deadline_ns = mr_clock_ns() + 30 * SECOND_NS;
    struct answering *server = calloc(1, sizeof *server);
    server->answers[0] = "";
    start_answering(server);
    assert_int_equal(mr_collector_parse(&collector, server->url, NULL), MR_OK);
    atomic_store(&deadline_ns, mr_clock_ns() + SECOND_NS / 5);
    assert_int_equal(
        mr_collector_post(&collector, (struct mr_text){"{}", 2}, &deadline_ns, &rejected, &err),
        MR_UNREACHABLE);
    assert_non_null(strstr(err.detail, "no answer in time"));
    stop_answering(server);
    atomic_store(&deadline_ns, mr_clock_ns() + 30 * SECOND_NS);
    assert_int_equal(
        mr_collector_post(&collector, (struct mr_text){"{}", 2}, &deadline_ns, &rejected, &err),
        MR_UNREACHABLE);
    assert_non_null(strstr(err.detail, "refused"));
    free(server);
}

/* A listening socket at 127.0.0.2 with a full queue, so connection attempts hang. fds[0]: that
 * socket. */
static void open_full_door(const char *port, int fds[4])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *at;
    assert_int_equal(getaddrinfo("127.0.0.2", port, &hints, &at), 0);
    for (int i = 0; i < 4; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fds[0], at->ai_addr, at->ai_addrlen), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    for (int i = 1; i < 4; i++)
        (void)connect(fds[i], at->ai_addr, at->ai_addrlen);
    freeaddrinfo(at);
}

static void an_address_that_swallows_packets_leaves_time_for_the_next(void **state)
{
    (void)state;
    struct mr_collector collector;
    uint64_t rejected;
    int fds[4];
    static struct answering server = {.answers = {"HTTP/1.1 200 OK\r\n\r\n{}"}};
    start_answering(&server);
    assert_int_equal(mr_collector_parse(&collector, server.url, NULL), MR_OK);
    open_full_door(collector.port, fds);
    snprintf(collector.host, sizeof collector.host, "two.test");
    atomic_uint_least64_t deadline_ns = mr_clock_ns() + 2 * SECOND_NS;
    assert_int_equal(
        mr_collector_post(&collector, (struct mr_text){"{}", 2}, &deadline_ns, &rejected, NULL),
        MR_OK);
    stop_answering(&server);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_names_host_port_and_path),
        cmocka_unit_test(other_urls_are_refused),
        cmocka_unit_test(the_answer_decides_whether_the_body_is_sent_again),
        cmocka_unit_test(an_address_that_swallows_packets_leaves_time_for_the_next),
        cmocka_unit_test(a_collector_that_is_away_or_silent_is_given_up_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
