/* The HTTP side of a gateway on loopback: statuses, limits, keys, browsers, answers and streams.
 * The test writes the answers in place of the Kafka thread. */
#include "calling.h"
#include "worker/base/clock.h"
#include "worker/gateway/server.h"

#include <sys/epoll.h>

#define WAIT_NS    ((uint64_t)30000000000)
#define BODY_BYTES ((size_t)10000)
/* printf secret | sha256sum */
#define SECRET "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

struct fixture {
    struct mr_wake wake;
    struct mr_exchanges exchanges;
    struct mr_gateway_counts counts;
    struct mr_fleet fleet;
    struct mr_link link;
    struct mr_server_options options;
    struct mr_server *server;
    uint16_t port;
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(mr_wake_open(&fixture->wake, NULL), MR_OK);
    assert_int_equal(
        mr_exchanges_open(&fixture->exchanges, &fixture->wake, 2, (size_t)8 << 20, NULL), MR_OK);
    mr_gateway_counts_open(&fixture->counts);
    pthread_mutex_init(&fixture->fleet.lock, NULL);
    atomic_store(&fixture->fleet.has_broker, true);
    atomic_store(&fixture->fleet.is_known, true);
    atomic_store(&fixture->fleet.has_members, true);
    mr_fleet_note(&fixture->fleet, (struct mr_text){"m", 1}, 1);
    fixture->link.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    fixture->options = (struct mr_server_options){.address = "127.0.0.1:0",
                                                  .link = &fixture->link,
                                                  .exchanges = &fixture->exchanges,
                                                  .fleet = &fixture->fleet,
                                                  .counts = &fixture->counts,
                                                  .rules = {.fleet = &fixture->fleet,
                                                            .topic = "requests",
                                                            .timeout_ns = WAIT_NS,
                                                            .record_bytes_max = 100000},
                                                  .body_bytes_max = BODY_BYTES,
                                                  .connections_max = 8,
                                                  .cors_origin = ""};
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    mr_server_stop(fixture->server);
    mr_link_drop_posted(&(struct mr_link){.exchanges = &fixture->exchanges});
    close(fixture->link.epoll_fd);
    pthread_mutex_destroy(&fixture->fleet.lock);
    mr_gateway_counts_close(&fixture->counts);
    mr_exchanges_close(&fixture->exchanges);
    mr_wake_close(&fixture->wake);
    free(fixture);
    return 0;
}

static void start(struct fixture *fixture)
{
    struct mr_error err = {0};
    if (mr_server_start(&fixture->server, &fixture->options, &err) != MR_OK)
        fail_msg("%s", err.detail);
    fixture->port = mr_server_port(fixture->server);
}

/* ---- the part of the Kafka thread ---- */

/* The next call, which the test drops with `finish`. */
static struct mr_exchange *take(struct fixture *fixture)
{
    const uint64_t end_ns = mr_clock_ns() + WAIT_NS;
    struct mr_exchange *exchange = mr_exchanges_take(&fixture->exchanges);
    while (!exchange && mr_clock_ns() < end_ns) {
        (void)mr_wake_wait(&fixture->wake, 10000000);
        exchange = mr_exchanges_take(&fixture->exchanges);
    }
    assert_non_null(exchange);
    return exchange;
}

/* The HTTP thread drops an exchange after the client has read the end of its reply. */
static void expect_no_exchange(struct fixture *fixture)
{
    size_t bytes = 1;
    for (int i = 0; i < 3000 && bytes > 0; i++) {
        pthread_mutex_lock(&fixture->exchanges.lock);
        bytes = fixture->exchanges.bytes;
        pthread_mutex_unlock(&fixture->exchanges.lock);
        if (bytes > 0) mr_clock_sleep_ms(10);
    }
    assert_int_equal(bytes, 0);
}

/* Resumes the connection if it is suspended. Needs the lock, which it releases. */
static void unlock_and_resume(struct fixture *fixture, struct mr_exchange *exchange)
{
    const bool resumes = exchange->suspended;
    exchange->suspended = false;
    pthread_mutex_unlock(&fixture->exchanges.lock);
    if (resumes) mr_server_resume(exchange->connection);
}

static void answer(struct fixture *fixture, struct mr_exchange *exchange, unsigned status,
                   const char *text)
{
    pthread_mutex_lock(&fixture->exchanges.lock);
    mr_exchange_answer(&fixture->exchanges, exchange, status, strdup(text), strlen(text));
    unlock_and_resume(fixture, exchange);
}

/* Appends to a stream. False: it is full. */
static bool append(struct fixture *fixture, struct mr_exchange *exchange, struct mr_text part)
{
    pthread_mutex_lock(&fixture->exchanges.lock);
    const bool fits = mr_exchange_append(&fixture->exchanges, exchange, part);
    exchange->is_begun = true;
    exchange->status = 200;
    unlock_and_resume(fixture, exchange);
    return fits;
}

static void end_stream(struct fixture *fixture, struct mr_exchange *exchange, const char *text)
{
    pthread_mutex_lock(&fixture->exchanges.lock);
    mr_exchange_end(&fixture->exchanges, exchange, (struct mr_text){text, strlen(text)});
    unlock_and_resume(fixture, exchange);
}

static void finish(struct fixture *fixture, struct mr_exchange *exchange)
{
    mr_exchanges_remove(&fixture->exchanges, exchange);
    mr_exchange_drop(&fixture->exchanges, exchange);
}

/* ---- tests ---- */

static void paths_methods_and_bodies_have_their_statuses(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *text;
    } calls[] = {
        {"GET", "/", "", 200, "<html"},
        {"GET", "/health", "", 200, "\"ok\""},
        {"GET", "/metrics", "", 200, "millrace_gateway_"},
        {"GET", "/v1/models", "", 200, "\"id\":\"m\""},
        {"GET", "/v1/models/m", "", 200, "\"id\":\"m\""},
        {"GET", "/v1/models/other", "", 404, "\"code\":\"model_not_found\""},
        {"GET", "/v1/modelsx", "", 404, "there is no such path"},
        {"POST", "/v1/models", "{}", 404, "there is no such path"},
        {"GET", CHAT, "", 405, "POST only"},
        {"DELETE", CHAT, "", 405, "POST only"},
        {"POST", CHAT, "", 400, "the call has no body"},
        {"POST", CHAT, "{", 400, "\"code\":\"invalid_request\""},
        {"POST", "/v1/embeddings", "{\"input\":5}", 400, "\"param\":\"input\""},
    };
    start(fixture);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        expect_reply(call(fixture->port, calls[i].method, calls[i].path, "", calls[i].body),
                     calls[i].status, calls[i].text);
    assert_int_equal(atomic_load(&fixture->counts.calls[MR_OPENAI_CHAT][405]), 2);
    assert_null(mr_exchanges_take(&fixture->exchanges));
    expect_no_exchange(fixture);
}

static void without_broker_or_worker_calls_get_503(void **state)
{
    struct fixture *fixture = *state;
    start(fixture);
    atomic_store(&fixture->fleet.has_members, false);
    expect_reply(call(fixture->port, "GET", "/health", "", ""), 503, "no worker is running");
    expect_reply(call(fixture->port, "POST", CHAT, "", CHAT_BODY), 503, "retry-after: 10\r\n");
    atomic_store(&fixture->fleet.has_broker, false);
    expect_reply(call(fixture->port, "GET", "/health", "", ""), 503, "no broker can be reached");
    expect_reply(call(fixture->port, "POST", CHAT, "", CHAT_BODY), 503, "no broker");
}

static void a_body_above_the_limit_is_read_and_refused(void **state)
{
    struct fixture *fixture = *state;
    char *body = malloc(8 * BODY_BYTES + 1);
    assert_non_null(body);
    memset(body, ' ', 8 * BODY_BYTES);
    body[8 * BODY_BYTES] = '\0';
    start(fixture);
    expect_reply(call(fixture->port, "POST", CHAT, "", body), 413, "\"code\":\"record_too_large\"");
    body[BODY_BYTES] = '\0'; /* as long as the limit: spaces are not JSON */
    expect_reply(call(fixture->port, "POST", CHAT, "", body), 400, "\"code\":\"invalid_request\"");
    free(body);
    expect_no_exchange(fixture);
}

static void with_a_key_file_calls_need_a_key(void **state)
{
    struct fixture *fixture = *state;
    char path[] = "/tmp/millrace-server-keys-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "alice %s\n", SECRET) > 0);
    close(fd);
    assert_int_equal(mr_keys_open(&fixture->options.keys, path, 0, NULL), MR_OK);
    unlink(path);
    start(fixture);
    expect_reply(call(fixture->port, "GET", "/v1/models", "", ""), 401,
                 "WWW-Authenticate: Bearer\r\n");
    expect_reply(call(fixture->port, "POST", CHAT, "Authorization: Bearer other\r\n", CHAT_BODY),
                 401, "\"code\":\"invalid_request\"");
    expect_reply(call(fixture->port, "GET", "/v1/models", "Authorization: Bearer secret\r\n", ""),
                 200, NULL);
    expect_reply(call(fixture->port, "GET", "/v1/models", "api-key: secret\r\n", ""), 200, NULL);
    expect_reply(call(fixture->port, "GET", "/health", "", ""), 200, NULL);
    mr_server_stop(fixture->server);
    fixture->server = NULL;
    mr_keys_close(fixture->options.keys);
}

static void an_allowed_origin_gets_the_headers_of_cors(void **state)
{
    struct fixture *fixture = *state;
    static const char asked[] = "Origin: http://a\r\nAccess-Control-Request-Headers: x-own\r\n";
    start(fixture);
    char *reply = call(fixture->port, "OPTIONS", CHAT, asked, "");
    assert_null(strstr(reply, "Access-Control"));
    expect_reply(reply, 204, "Allow: GET, POST, OPTIONS\r\n");
    mr_server_stop(fixture->server);
    fixture->options.cors_origin = "http://a";
    start(fixture);
    expect_reply(call(fixture->port, "OPTIONS", CHAT, asked, ""), 204,
                 "Access-Control-Allow-Headers: x-own\r\n");
    expect_reply(call(fixture->port, "OPTIONS", CHAT, asked, ""), 204,
                 "Access-Control-Allow-Origin: http://a\r\n");
    expect_reply(call(fixture->port, "GET", "/nothing", asked, ""), 404,
                 "Access-Control-Allow-Origin: http://a\r\n");
}

static void a_call_gets_its_answer_and_its_id(void **state)
{
    struct fixture *fixture = *state;
    char line[MR_EXCHANGE_ID_BYTES + 32];
    start(fixture);
    const int fd = connect_to(fixture->port, 0);
    send_call(fd, "POST", CHAT, "", CHAT_BODY);
    struct mr_exchange *exchange = take(fixture);
    assert_string_equal(exchange->topic, "requests");
    assert_int_equal(exchange->endpoint, MR_OPENAI_CHAT);
    assert_false(exchange->is_stream);
    snprintf(line, sizeof line, "x-request-id: %s\r\n", exchange->id);
    answer(fixture, exchange, 418, "the answer");
    char *reply = read_reply(fd);
    assert_string_equal(strstr(reply, "\r\n\r\n"), "\r\n\r\nthe answer");
    expect_reply(reply, 418, line);
    finish(fixture, exchange);
    mr_server_drain(fixture->server, 10000);
    expect_no_exchange(fixture);
    assert_int_equal(atomic_load(&fixture->counts.calls[MR_OPENAI_CHAT][418]), 1);
}

static void an_id_in_flight_and_a_full_table_are_refused(void **state)
{
    struct fixture *fixture = *state;
    start(fixture);
    const int first = connect_to(fixture->port, 0), second = connect_to(fixture->port, 0);
    send_call(first, "POST", CHAT, "Idempotency-Key: one\r\n", CHAT_BODY);
    struct mr_exchange *one = take(fixture);
    assert_string_equal(one->id, "one");
    expect_reply(call(fixture->port, "POST", CHAT, "Idempotency-Key: one\r\n", CHAT_BODY), 409,
                 "x-should-retry: false\r\n");
    send_call(second, "POST", CHAT, "", CHAT_BODY);
    struct mr_exchange *two = take(fixture);
    expect_reply(call(fixture->port, "POST", CHAT, "", CHAT_BODY), 503, "retry-after: 1\r\n");
    answer(fixture, one, 200, "1");
    answer(fixture, two, 200, "2");
    expect_reply(read_reply(first), 200, "\r\n\r\n1");
    expect_reply(read_reply(second), 200, "\r\n\r\n2");
    finish(fixture, one);
    finish(fixture, two);
}

#define STREAM_BODY "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"stream\":true}"

static void a_stream_is_sent_as_events(void **state)
{
    struct fixture *fixture = *state;
    char part[4096];
    start(fixture);
    const int fd = connect_to(fixture->port, 0);
    send_call(fd, "POST", CHAT, "", STREAM_BODY);
    struct mr_exchange *exchange = take(fixture);
    assert_true(exchange->is_stream);
    assert_true(append(fixture, exchange, (struct mr_text){"data: 1\n\n", 9}));
    size_t length = 0;
    part[0] = '\0';
    while (!strstr(part, "data: 1\n\n")) { /* sent before the stream ends */
        const ssize_t count = recv(fd, part + length, sizeof part - length - 1, 0);
        assert_true(count > 0);
        length += (size_t)count;
        part[length] = '\0';
    }
    assert_non_null(strstr(part, "Content-Type: text/event-stream; charset=utf-8\r\n"));
    assert_non_null(strstr(part, "Cache-Control: no-cache\r\n"));
    assert_non_null(strstr(part, "X-Accel-Buffering: no\r\n"));
    assert_non_null(strstr(part, "x-request-id: "));
    end_stream(fixture, exchange, "data: [DONE]\n\n");
    char *rest = read_reply(fd);
    assert_non_null(strstr(rest, "data: [DONE]\n\n"));
    free(rest);
    finish(fixture, exchange);
}

static void a_stream_that_is_not_read_fills_up_and_can_still_end(void **state)
{
    struct fixture *fixture = *state;
    static char block[16384];
    unsigned blocks = 0;
    memset(block, 'x', sizeof block);
    start(fixture);
    const int fd = connect_to(fixture->port, 4096);
    send_call(fd, "POST", CHAT, "", STREAM_BODY);
    struct mr_exchange *exchange = take(fixture);
    while (append(fixture, exchange, (struct mr_text){block, sizeof block})) {
        assert_true(++blocks < 4096); /* 64 MiB are more than all buffers hold */
        mr_clock_sleep_ms(1);
    }
    pthread_mutex_lock(&fixture->exchanges.lock);
    const size_t length = exchange->out.length;
    pthread_mutex_unlock(&fixture->exchanges.lock);
    assert_true(length <= MR_EXCHANGE_STREAM_BYTES + sizeof block);
    end_stream(fixture, exchange, "the end");
    char *reply = read_reply(fd);
    assert_true(strlen(reply) > blocks * sizeof block);
    expect_reply(reply, 200, "the end");
    finish(fixture, exchange);
}

static void the_socket_of_a_waiting_call_is_watched(void **state)
{
    struct fixture *fixture = *state;
    struct epoll_event event = {0};
    start(fixture);
    const int fd = connect_to(fixture->port, 0);
    send_call(fd, "POST", CHAT, "", CHAT_BODY);
    struct mr_exchange *exchange = take(fixture);
    assert_int_equal(epoll_wait(fixture->link.epoll_fd, &event, 1, 0), 0);
    close(fd);
    assert_int_equal(epoll_wait(fixture->link.epoll_fd, &event, 1, 30000), 1);
    assert_int_equal(event.data.u64, exchange->serial);
    pthread_mutex_lock(&fixture->exchanges.lock);
    exchange->is_left = true;
    unlock_and_resume(fixture, exchange);
    const uint64_t began_ns = mr_clock_ns();
    mr_server_drain(fixture->server, 30000);
    assert_true(mr_clock_ns() - began_ns < WAIT_NS / 2); /* the server has dropped the call */
    assert_ptr_equal(take(fixture), exchange);           /* and posted that the client is gone */
    mr_exchange_drop(&fixture->exchanges, exchange);
    finish(fixture, exchange);
}

static void addresses_that_cannot_be_listened_on_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct mr_error err = {0};
    struct mr_server *other;
    char taken[32];
    fixture->options.address = "0.0.0.0:0"; /* there are no keys */
    assert_int_equal(mr_server_start(&other, &fixture->options, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "--key-file"));
    assert_null(other);
    fixture->options.address = "nowhere";
    assert_int_equal(mr_server_start(&other, &fixture->options, &err), MR_BAD_CONFIG);
    fixture->options.address = "127.0.0.1:0";
    start(fixture);
    snprintf(taken, sizeof taken, "127.0.0.1:%u", fixture->port);
    fixture->options.address = taken;
    assert_int_equal(mr_server_start(&other, &fixture->options, &err), MR_UNREACHABLE);
    assert_non_null(strstr(err.detail, taken));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(paths_methods_and_bodies_have_their_statuses),
        TEST(without_broker_or_worker_calls_get_503),
        TEST(a_body_above_the_limit_is_read_and_refused),
        TEST(with_a_key_file_calls_need_a_key),
        TEST(an_allowed_origin_gets_the_headers_of_cors),
        TEST(a_call_gets_its_answer_and_its_id),
        TEST(an_id_in_flight_and_a_full_table_are_refused),
        TEST(a_stream_is_sent_as_events),
        TEST(a_stream_that_is_not_read_fills_up_and_can_still_end),
        TEST(the_socket_of_a_waiting_call_is_watched),
        TEST(addresses_that_cannot_be_listened_on_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
