/* The Kafka side of a gateway against the embedded broker: request, cancel and probe records,
 * answers, streams, deadlines, clients that leave. */
#include "answering.h"
#include "worker/gateway/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PARTITION 2u
#define BODY      "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"

struct fixture {
    struct broker broker;
    struct mr_wake wake;
    struct mr_exchanges exchanges;
    struct mr_gateway_counts counts;
    struct mr_fleet fleet;
    struct mr_link link;
    struct answering answering;
};

static atomic_uint resumed;

static void resume(struct MHD_Connection *connection)
{
    (void)connection;
    atomic_fetch_add(&resumed, 1);
}

static int open_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct mr_error err = {0};
    assert_non_null(fixture);
    open_broker(&fixture->broker);
    fixture->broker.kafka.mock_wait_ms = 2;
    add_topic(&fixture->broker, "requests", 1);
    add_topic(&fixture->broker, "cancel", 1);
    add_topic(&fixture->broker, "replies", 4);
    atomic_store(&resumed, 0);
    assert_int_equal(mr_wake_open(&fixture->wake, NULL), MR_OK);
    assert_int_equal(
        mr_exchanges_open(&fixture->exchanges, &fixture->wake, 8, (size_t)8 << 20, NULL), MR_OK);
    mr_gateway_counts_open(&fixture->counts);
    pthread_mutex_init(&fixture->fleet.lock, NULL);
    atomic_store(&fixture->fleet.has_broker, true);
    fixture->link = (struct mr_link){.kafka = &fixture->broker.kafka,
                                     .requests_topic = "requests",
                                     .cancel_topic = "cancel",
                                     .reply_topic = "replies",
                                     .reply_partition = PARTITION,
                                     .exchanges = &fixture->exchanges,
                                     .fleet = &fixture->fleet,
                                     .counts = &fixture->counts,
                                     .resume = resume,
                                     .wake = &fixture->wake};
    open_answering(&fixture->answering, &fixture->broker.kafka, "requests", "cancel");
    if (mr_link_open(&fixture->link, &err) != MR_OK) fail_msg("%s", err.detail);
    *state = fixture;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *fixture = *state;
    mr_link_stop(&fixture->link);
    mr_link_fail_all(&fixture->link);
    mr_link_drop_posted(&fixture->link);
    mr_link_close(&fixture->link);
    close_answering(&fixture->answering);
    pthread_mutex_destroy(&fixture->fleet.lock);
    mr_gateway_counts_close(&fixture->counts);
    mr_exchanges_close(&fixture->exchanges);
    mr_wake_close(&fixture->wake);
    close_broker(&fixture->broker);
    free(fixture);
    return 0;
}

/* ---- the part of the HTTP thread ---- */

static struct mr_exchange *make(struct fixture *fixture, const char *id, bool is_stream)
{
    struct mr_exchange *exchange = mr_exchange_create(&fixture->exchanges, NULL);
    assert_non_null(exchange);
    assert_true(mr_exchange_add_body(&fixture->exchanges, exchange,
                                     (struct mr_text){BODY, sizeof BODY - 1}));
    snprintf(exchange->id, sizeof exchange->id, "%s", id);
    snprintf(exchange->record_key, sizeof exchange->record_key, "session-%s", id);
    snprintf(exchange->model, sizeof exchange->model, "m");
    exchange->endpoint = MR_OPENAI_CHAT;
    exchange->is_stream = is_stream;
    exchange->choice_count = 1;
    exchange->topic = "requests";
    exchange->record = strdup("{\"prompt\":\"Hi\"}");
    exchange->record_length = strlen(exchange->record);
    exchange->start_ns = mr_clock_ns();
    exchange->deadline_ns = exchange->start_ns + 60000000000u;
    exchange->comment_ns = exchange->deadline_ns;
    exchange->suspended = true;
    return exchange;
}

static void add(struct fixture *fixture, struct mr_exchange *exchange)
{
    assert_int_equal(mr_exchanges_add(&fixture->exchanges, exchange), MR_EXCHANGE_ADDED);
}

/* Waits until so many connections were resumed. */
static void await_resumed(unsigned count)
{
    const uint64_t end_ns = mr_clock_ns() + (uint64_t)ANSWER_WAIT_MS * 1000000;
    while (atomic_load(&resumed) < count && mr_clock_ns() < end_ns)
        mr_clock_sleep_ms(2);
    assert_int_equal(atomic_load(&resumed), count);
}

/* Checks that the answer so far has the text. */
static void expect_text(struct fixture *fixture, struct mr_exchange *exchange, const char *text)
{
    pthread_mutex_lock(&fixture->exchanges.lock);
    char *copy = calloc(1, exchange->out.length + 1);
    if (copy) memcpy(copy, exchange->out.bytes, exchange->out.length);
    pthread_mutex_unlock(&fixture->exchanges.lock);
    if (!copy || !strstr(copy, text)) fail_msg("expected %s, got %s", text, copy);
    free(copy);
}

/* Checks a complete answer and drops the exchange. */
static void expect_answer(struct fixture *fixture, struct mr_exchange *exchange, unsigned status,
                          const char *text)
{
    assert_true(exchange->is_done);
    assert_int_equal(exchange->status, status);
    expect_text(fixture, exchange, text);
    mr_exchange_drop(&fixture->exchanges, exchange);
}

static void suspend(struct fixture *fixture, struct mr_exchange *exchange)
{
    pthread_mutex_lock(&fixture->exchanges.lock);
    exchange->suspended = true;
    pthread_mutex_unlock(&fixture->exchanges.lock);
}

static void reply(struct fixture *fixture, const char *id, const char *value, const char *finish)
{
    put_answer(&fixture->answering, "replies", PARTITION, (struct mr_text){id, strlen(id)}, value,
               finish);
}

/* ---- tests ---- */

static void expect_header(const struct mr_kafka_record *record, const char *name, const char *value,
                          size_t length)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, name);
    assert_non_null(header);
    assert_int_equal(header->length, length);
    assert_memory_equal(header->value, value, length);
}

static void a_call_is_published_and_its_result_becomes_the_answer(void **state)
{
    struct fixture *fixture = *state;
    struct mr_exchange *exchange = make(fixture, "a", false);
    exchange->deadline_ms = 1234;
    add(fixture, exchange);
    const struct mr_kafka_record record = next_request(&fixture->answering, false);
    assert_true(mr_text_is(record.key, "session-a"));
    assert_true(mr_text_is(record.value, "{\"prompt\":\"Hi\"}"));
    expect_header(&record, MR_HEADER_CONTENT_TYPE, "application/json", 16);
    expect_header(&record, MR_HEADER_REPLY_TOPIC, "replies", 7);
    expect_header(&record, MR_HEADER_REPLY_PARTITION, "\0\0\0\2", 4);
    expect_header(&record, MR_HEADER_DEADLINE, "1234", 4);
    assert_null(mr_kafka_record_header(&record, MR_HEADER_REPLY));
    reply(fixture, "other", RESULT, "eos"); /* of another gateway */
    reply(fixture, "a", RESULT, "eos");
    await_resumed(1);
    expect_answer(fixture, exchange, 200, "\"content\":\"Hello\"");
    assert_int_equal(atomic_load(&fixture->counts.counters[MR_GATEWAY_FOREIGN]), 1);
    assert_int_equal(atomic_load(&fixture->counts.counters[MR_GATEWAY_PUBLISHED]), 1);
    assert_int_equal(atomic_load(&fixture->counts.counters[MR_GATEWAY_TOKENS]), 5);
    assert_null(mr_exchanges_find(&fixture->exchanges, (struct mr_text){"a", 1}));
}

static void a_stream_begins_with_its_first_record(void **state)
{
    struct fixture *fixture = *state;
    struct mr_exchange *exchange = make(fixture, "s", true);
    add(fixture, exchange);
    const struct mr_kafka_record record = next_request(&fixture->answering, false);
    expect_header(&record, MR_HEADER_REPLY, MR_HEADER_REPLY_TOKENS, strlen(MR_HEADER_REPLY_TOKENS));
    reply(fixture, "s",
          "{\"attempt\":0,\"choice\":0,\"index\":0,\"token_ids\":[1],\"text\":\"Hel\","
          "\"content\":\"Hel\"}",
          NULL);
    await_resumed(1);
    expect_text(fixture, exchange, "\"content\":\"Hel\"");
    suspend(fixture, exchange);
    reply(fixture, "s", RESULT, "eos");
    await_resumed(2);
    assert_true(exchange->is_begun);
    expect_text(fixture, exchange, "\"content\":\"lo\"");
    expect_answer(fixture, exchange, 200, "data: [DONE]\n\n");
    assert_int_equal(atomic_load(&fixture->counts.counters[MR_GATEWAY_TOKEN_RECORDS]), 1);
}

static void a_silent_stream_gets_a_comment(void **state)
{
    struct fixture *fixture = *state;
    struct mr_exchange *exchange = make(fixture, "c", true);
    exchange->comment_ns = exchange->start_ns + 1;
    add(fixture, exchange);
    await_resumed(1);
    expect_text(fixture, exchange, ": waiting\n\n");
    mr_exchange_drop(&fixture->exchanges, exchange);
}

static void a_call_that_is_not_answered_in_time_is_cancelled(void **state)
{
    struct fixture *fixture = *state;
    struct mr_exchange *exchange = make(fixture, "late", false);
    exchange->deadline_ns = exchange->start_ns + 1;
    add(fixture, exchange);
    await_resumed(1);
    expect_answer(fixture, exchange, 504, "\"code\":\"deadline_exceeded\"");
    assert_true(is_cancelled(&fixture->answering, "late"));
}

static void a_client_that_leaves_cancels_its_request_unless_it_chose_the_id(void **state)
{
    struct fixture *fixture = *state;
    struct mr_exchange *stays = make(fixture, "stays", false), *goes = make(fixture, "goes", false);
    int first[2], second[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, first), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, second), 0);
    stays->is_idempotent = true;
    add(fixture, stays);
    add(fixture, goes);
    mr_link_watch(&fixture->link, stays, first[0]);
    mr_link_watch(&fixture->link, goes, second[0]);
    close(first[1]);
    await_resumed(1);
    close(second[1]);
    await_resumed(2);
    assert_true(stays->is_left && goes->is_left);
    assert_true(is_cancelled(&fixture->answering, "goes"));
    assert_ptr_equal(mr_exchanges_find(&fixture->exchanges, (struct mr_text){"stays", 5}), stays);
    mr_link_unwatch(&fixture->link, stays);
    mr_link_unwatch(&fixture->link, goes);
    assert_int_equal(stays->fd, -1);
    close(first[0]);
    close(second[0]);
    mr_exchange_drop(&fixture->exchanges, stays);
    mr_exchange_drop(&fixture->exchanges, goes);
}

static void a_probe_finds_the_name_of_the_model(void **state)
{
    struct fixture *fixture = *state;
    char name[MR_FLEET_MODEL_BYTES];
    const uint64_t end_ns = mr_clock_ns() + (uint64_t)ANSWER_WAIT_MS * 1000000;
    const struct mr_kafka_record record = next_request(&fixture->answering, true);
    assert_int_equal(mr_fleet_state(&fixture->fleet, mr_clock_ns()), MR_FLEET_NO_WORKER);
    put_answer(&fixture->answering, "replies", PARTITION, record.key,
               "{\"model\":\"m\",\"error\":{\"code\":\"invalid_request\",\"message\":\"no\"}}",
               "error");
    while (!mr_fleet_model(&fixture->fleet, 0, name) && mr_clock_ns() < end_ns)
        mr_clock_sleep_ms(2);
    assert_string_equal(name, "m");
    assert_int_equal(mr_fleet_state(&fixture->fleet, mr_clock_ns()), MR_FLEET_READY);
}

static void stopping_ends_every_call(void **state)
{
    struct fixture *fixture = *state;
    struct mr_exchange *exchange = make(fixture, "x", false), *after = make(fixture, "y", false);
    add(fixture, exchange);
    (void)next_request(&fixture->answering, false);
    mr_link_stop(&fixture->link);
    mr_link_fail_all(&fixture->link);
    await_resumed(1);
    expect_answer(fixture, exchange, 503, "the gateway is stopping");
    assert_int_equal(mr_exchanges_add(&fixture->exchanges, after), MR_EXCHANGE_FULL);
    mr_exchange_drop(&fixture->exchanges, after);
    mr_link_close(&fixture->link); /* writes the cancel record */
    assert_true(is_cancelled(&fixture->answering, "x"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_call_is_published_and_its_result_becomes_the_answer),
        TEST(a_stream_begins_with_its_first_record),
        TEST(a_silent_stream_gets_a_comment),
        TEST(a_call_that_is_not_answered_in_time_is_cancelled),
        TEST(a_client_that_leaves_cancels_its_request_unless_it_chose_the_id),
        TEST(a_probe_finds_the_name_of_the_model),
        TEST(stopping_ends_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
