#include "worker/http/http_client.h"

#include "worker/base/clock.h"
#include "worker/http/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS UINT64_C(1000000000)

static void an_address_has_a_host_and_a_numeric_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *port;
    } good[] = {{"127.0.0.1:9464", "127.0.0.1", "9464"},
                {"[::1]:0", "::1", "0"},
                {"worker-1:65535", "worker-1", "65535"}};
    static const char *const bad[] = {
        "",         "host",           ":80",   "host:", "host:x", "host:-1", "host:65536",
        "host:80x", "127.0.0.1:PORT", "[]:80", "[::1]"};
    struct mr_http_address address;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(mr_http_address_read(&address, good[i].text, NULL), MR_OK);
        assert_string_equal(address.host, good[i].host);
        assert_string_equal(address.port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mr_error err = {0};
        if (mr_http_address_read(&address, bad[i], &err) != MR_BAD_CONFIG) fail_msg("%s", bad[i]);
        assert_non_null(strstr(err.detail, "HOST:PORT"));
    }
}

static void a_reply_has_a_code_and_a_body(void **state)
{
    (void)state;
    assert_int_equal(mr_http_reply_code("HTTP/1.1 200 OK\r\n\r\n"), 200);
    assert_int_equal(mr_http_reply_code("HTTP/1.0 503\r\n"), 503);
    assert_int_equal(mr_http_reply_code("HTTP/1.1 20"), 0);
    assert_int_equal(mr_http_reply_code("HTTP/1."), 0);
    assert_int_equal(mr_http_reply_code("SMTP"), 0);
    assert_string_equal(mr_http_reply_body("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody"), "body");
    assert_null(mr_http_reply_body("HTTP/1.1 200 OK\r\nA: b\r\n"));
}

static void answer(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    (void)context;
    (void)page;
    reply->length = 100000;
    reply->body = malloc(reply->length);
    assert_non_null(reply->body);
    memset(reply->body, 'x', reply->length);
}

static enum mr_status get(const char *port, size_t most, char **reply, struct mr_error *err)
{
    static const char head[] = "GET /metrics HTTP/1.0\r\nConnection: close\r\n\r\n";
    atomic_uint_least64_t deadline_ns = mr_clock_ns() + 20 * SECOND_NS;
    const struct mr_http_call call = {.host = "127.0.0.1",
                                      .port = port,
                                      .name = "the test",
                                      .head = {head, sizeof head - 1},
                                      .deadline_ns = &deadline_ns,
                                      .reply_bytes_max = most};
    return mr_http_exchange(&call, reply, err);
}

static void a_reply_is_read_up_to_its_bound(void **state)
{
    (void)state;
    struct mr_http *http;
    struct mr_error err = {0};
    char port[8], *reply;
    assert_int_equal(mr_http_start(&http, "127.0.0.1:0", answer, NULL, NULL), MR_OK);
    snprintf(port, sizeof port, "%u", mr_http_port(http));
    assert_int_equal(get(port, 1 << 20, &reply, &err), MR_OK);
    assert_int_equal(strlen(mr_http_reply_body(reply)), 100000);
    free(reply);
    static const size_t bounds[] = {1, 100, 16384, 16385, 50000};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        assert_int_equal(get(port, bounds[i], &reply, &err), MR_OK);
        assert_int_equal(strlen(reply), bounds[i]);
        free(reply);
    }
    mr_http_stop(http);
    assert_int_equal(get(port, 100, &reply, &err), MR_UNREACHABLE);
    assert_null(reply);
    assert_non_null(strstr(err.detail, "the test: Connection refused"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_a_host_and_a_numeric_port),
        cmocka_unit_test(a_reply_has_a_code_and_a_body),
        cmocka_unit_test(a_reply_is_read_up_to_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
