/* A whole gateway against the embedded broker: its start and what refuses it, a call from HTTP to
 * the answer, and the stop with a call in flight. */
#include "answering.h"
#include "calling.h"
#include "worker/config/options.h"
#include "worker/gateway/gateway.h"
#include "worker/http/http_client.h"

#include <pthread.h>

#define REQUESTS "millrace.requests"
#define REPLIES  "millrace.replies"
#define CANCELS  "millrace.cancel"

struct fixture {
    struct broker broker;
    struct mr_config *config;
    struct mr_gateway *gateway;
    struct mr_error err;
};

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    open_broker(&fixture->broker);
    add_topic(&fixture->broker, REQUESTS, 1);
    add_topic(&fixture->broker, REPLIES, 4);
    add_topic(&fixture->broker, CANCELS, 1);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    mr_gateway_stop(fixture->gateway, 0);
    mr_config_destroy(fixture->config);
    close_broker(&fixture->broker);
    free(fixture);
    return 0;
}

/* Starts a gateway with an option, and its value unless it is a flag. */
static enum mr_status start(struct fixture *fixture, const char *listen, const char *option,
                            const char *value)
{
    const char *const words[] = {"millrace", "gateway", "--brokers", fixture->broker.kafka.brokers,
                                 "--listen", listen,    option,      value};
    char *copies[8], *environment[] = {NULL};
    const int count = !option ? 6 : !value ? 7 : 8;
    for (int i = 0; i < count; i++)
        copies[i] = strdup(words[i]);
    mr_config_destroy(fixture->config);
    fixture->config = NULL;
    enum mr_status status =
        mr_config_create(&fixture->config, count, copies, environment, &fixture->err);
    if (status == MR_OK)
        status = mr_gateway_start(&fixture->gateway, fixture->config, NULL, &fixture->err);
    for (int i = 0; i < count; i++)
        free(copies[i]);
    return status;
}

static void start_here(struct fixture *fixture, const char *option, const char *value)
{
    if (start(fixture, "127.0.0.1:0", option, value) != MR_OK) fail_msg("%s", fixture->err.detail);
}

static void without_a_worker_calls_get_503(void **state)
{
    struct fixture *fixture = *state;
    start_here(fixture, NULL, NULL);
    const uint16_t port = mr_gateway_port(fixture->gateway);
    assert_true(mr_gateway_reply_partition(fixture->gateway) < 4);
    expect_reply(call(port, "GET", "/health", "", ""), 503, "no worker is running");
    expect_reply(call(port, "POST", CHAT, "", CHAT_BODY), 503, "no worker is running");
}

static void addresses_of_other_machines_need_a_key_file(void **state)
{
    struct fixture *fixture = *state;
    char path[] = "/tmp/millrace-gateway-keys-XXXXXX";
    assert_int_equal(start(fixture, "0.0.0.0:0", NULL, NULL), MR_BAD_CONFIG);
    assert_non_null(strstr(fixture->err.detail, "--key-file"));
    assert_null(fixture->gateway);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(start(fixture, "0.0.0.0:0", "--key-file", path), MR_BAD_CONFIG);
    assert_non_null(strstr(fixture->err.detail, "it has no key"));
    assert_true(dprintf(fd, "alice sha256:%064d\n", 0) > 0);
    close(fd);
    const enum mr_status status = start(fixture, "0.0.0.0:0", "--key-file", path);
    unlink(path);
    assert_int_equal(status, MR_OK);
    expect_reply(call(mr_gateway_port(fixture->gateway), "POST", CHAT, "", CHAT_BODY), 401, NULL);
}

static void a_partition_that_does_not_exist_is_refused(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(start(fixture, "127.0.0.1:0", "--reply-partition", "4"), MR_BAD_CONFIG);
    assert_non_null(strstr(fixture->err.detail, "has 4 partitions"));
    assert_null(fixture->gateway);
    start_here(fixture, "--reply-partition", "3");
    assert_int_equal(mr_gateway_reply_partition(fixture->gateway), 3);
}

/* The caller frees the id of the request. */
static char *id_of(const struct mr_kafka_record *record)
{
    static const char member[] = "\"id\":\"";
    const char *start = memmem(record->value.bytes, record->value.length, member, 6);
    assert_non_null(start);
    start += sizeof member - 1;
    const size_t left = record->value.length - (size_t)(start - record->value.bytes);
    const char *end = memchr(start, '"', left);
    assert_non_null(end);
    char *id = calloc(1, (size_t)(end - start) + 1);
    assert_non_null(id);
    memcpy(id, start, (size_t)(end - start));
    return id;
}

struct client {
    uint16_t port;
    enum mr_status status;
    char *reply;
};

/* A thread that makes one call. */
static void *run_client(void *context)
{
    struct client *client = context;
    static const char body[] = CHAT_BODY;
    char head[200], port[8];
    const atomic_uint_least64_t deadline_ns = mr_clock_ns() + 60000000000u;
    const int length = snprintf(head, sizeof head,
                                "POST " CHAT " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                "Content-Length: %zu\r\n\r\n",
                                sizeof body - 1);
    snprintf(port, sizeof port, "%u", client->port);
    const struct mr_http_call asked = {.host = "127.0.0.1",
                                       .port = port,
                                       .name = "gateway",
                                       .head = {head, (size_t)length},
                                       .body = {body, sizeof body - 1},
                                       .deadline_ns = &deadline_ns,
                                       .reply_bytes_max = 65536};
    client->status = mr_http_exchange(&asked, &client->reply, NULL);
    return NULL;
}

static void a_call_is_answered_by_a_record_of_the_reply_partition(void **state)
{
    struct fixture *fixture = *state;
    struct answering answering;
    pthread_t thread;
    start_here(fixture, "--wait-for-workers", NULL);
    const uint16_t port = mr_gateway_port(fixture->gateway);
    struct client client = {.port = port};
    assert_int_equal(pthread_create(&thread, NULL, run_client, &client), 0);
    open_answering(&answering, &fixture->broker.kafka, REQUESTS, CANCELS);
    const struct mr_kafka_record record = next_request(&answering, false);
    const struct mr_kafka_header *topic = mr_kafka_record_header(&record, MR_HEADER_REPLY_TOPIC);
    assert_non_null(topic);
    assert_true(mr_text_is((struct mr_text){topic->value, topic->length}, REPLIES));
    char *id = id_of(&record);
    put_answer(&answering, REPLIES, (int32_t)mr_gateway_reply_partition(fixture->gateway),
               (struct mr_text){id, strlen(id)}, RESULT, "eos");
    free(id);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(client.status, MR_OK);
    expect_reply(client.reply, 200, "\"content\":\"Hello\"");
    close_answering(&answering);
    expect_reply(call(port, "GET", "/health", "", ""), 200, "\"ok\"");
    expect_reply(call(port, "GET", "/v1/models", "", ""), 200, "\"id\":\"m\"");
    expect_reply(call(port, "GET", "/metrics", "", ""), 200,
                 "millrace_gateway_requests_published_total 1");
}

static void a_stop_ends_the_call_in_flight_and_cancels_its_request(void **state)
{
    struct fixture *fixture = *state;
    struct answering answering;
    start_here(fixture, "--wait-for-workers", NULL);
    open_answering(&answering, &fixture->broker.kafka, REQUESTS, CANCELS);
    const int fd = connect_to(mr_gateway_port(fixture->gateway), 0);
    send_call(fd, "POST", CHAT, "", CHAT_BODY);
    const struct mr_kafka_record record = next_request(&answering, false);
    char *id = id_of(&record);
    mr_gateway_stop(fixture->gateway, 0);
    fixture->gateway = NULL;
    expect_reply(read_reply(fd), 503, "the gateway is stopping");
    assert_true(is_cancelled(&answering, id));
    free(id);
    close_answering(&answering);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_worker_calls_get_503),
        TEST(addresses_of_other_machines_need_a_key_file),
        TEST(a_partition_that_does_not_exist_is_refused),
        TEST(a_call_is_answered_by_a_record_of_the_reply_partition),
        TEST(a_stop_ends_the_call_in_flight_and_cancels_its_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
