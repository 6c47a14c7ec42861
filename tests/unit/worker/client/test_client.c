#include "worker/client/client.h"

#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_reader.h"

#include <stdlib.h>
#include <unistd.h>

static struct mr_config config_of(const struct broker *broker)
{
    return (struct mr_config){.brokers = broker->kafka.brokers,
                              .request_topics = {{.name = "r", .tenant = "default"}},
                              .request_topic_count = 1,
                              .tokens_topic = "t",
                              .results_topic = "s",
                              .cancel_topic = "c"};
}

static struct mr_client *open_client(const struct mr_config *config, bool from_beginning)
{
    struct mr_client *client = NULL;
    struct mr_error err = {0};
    const struct mr_client_options options = {.config = config,
                                              .reads = true,
                                              .creates = true,
                                              .from_beginning = from_beginning,
                                              .timeout_ms = 5000};
    if (mr_client_open(&client, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    return client;
}

static void take(struct mr_client *client, struct mr_client_event *event)
{
    int tries = 0;
    while (!mr_client_take(client, 500, event))
        assert_true(++tries < 60);
}

/* The first record of a topic. */
static void read_one(const struct broker *broker, const char *topic,
                     void (*look)(const struct mr_kafka_record *record))
{
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_record record;
    int tries = 0;
    const struct mr_kafka_reader_options options = {.kafka = &broker->kafka,
                                                    .topics = &topic,
                                                    .topic_count = 1,
                                                    .from = MR_KAFKA_FROM_BEGINNING,
                                                    .timeout_ms = 5000};
    assert_int_equal(mr_kafka_reader_create(&reader, &options, NULL), MR_OK);
    while (!mr_kafka_reader_take(reader, 500, &record))
        assert_true(++tries < 60);
    look(&record);
    mr_kafka_reader_destroy(reader);
}

static void is_the_request_record(const struct mr_kafka_record *record)
{
    const char *type = mr_encoding_content_type(MR_ENCODING_JSON);
    const struct mr_kafka_header *header = mr_kafka_record_header(record, "content-type");
    assert_non_null(header);
    assert_int_equal(header->length, strlen(type));
    assert_memory_equal(header->value, type, header->length);
    assert_memory_equal(record->key.bytes, "id", 2);
    assert_int_equal(record->value.length, 2);
}

static void is_the_cancel_record(const struct mr_kafka_record *record)
{
    assert_int_equal(record->key.length, 2);
    assert_memory_equal(record->key.bytes, "id", 2);
    assert_non_null(record->value.bytes); /* a record without a value cancels nothing */
}

static void requests_and_cancels_are_on_the_broker_when_it_returns(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    const struct mr_config config = config_of(&broker);
    struct mr_client *client = open_client(&config, false);
    assert_int_equal(
        mr_client_request(client, "r", text_of("id"), text_of("{}"), MR_ENCODING_JSON, NULL),
        MR_OK);
    assert_int_equal(mr_client_cancel(client, text_of("id"), NULL), MR_OK);
    read_one(&broker, "r", is_the_request_record);
    read_one(&broker, "c", is_the_cancel_record);
    mr_client_close(client);
    close_broker(&broker);
}

/* A producer that knows no topic when it connects looks for new ones once a second. */
static void the_first_request_does_not_wait_for_the_next_look_at_the_topics(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_client *client = NULL;
    open_broker(&broker);
    const struct mr_config config = config_of(&broker);
    const struct mr_client_options options = {
        .config = &config, .requests = true, .creates = true, .timeout_ms = 5000};
    assert_int_equal(mr_client_open(&client, &options, NULL), MR_OK);
    usleep(100000);
    uint64_t start_ns = mr_clock_ns();
    assert_int_equal(
        mr_client_request(client, "r", text_of("id"), text_of("{}"), MR_ENCODING_JSON, NULL),
        MR_OK);
    assert_true(mr_clock_ns() - start_ns < 500000000);
    mr_client_close(client);
    close_broker(&broker);
}

/* Serves the client until it has printed the line. */
static void serve_until(struct mr_client *client, FILE *notices, char *const *text,
                        const char *line)
{
    struct mr_client_event event;
    for (int tries = 0; fflush(notices) == 0 && !strstr(*text, line); tries++) {
        assert_true(tries < 300);
        assert_int_equal(mr_client_health(client, NULL), MR_OK);
        assert_false(mr_client_take(client, 100, &event));
    }
}

static void a_lost_broker_and_its_return_are_announced(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_client *client = NULL;
    char *text = NULL;
    size_t length = 0;
    FILE *notices = open_memstream(&text, &length);
    open_broker(&broker);
    const struct mr_config config = config_of(&broker);
    const struct mr_client_options options = {
        .config = &config, .reads = true, .creates = true, .timeout_ms = 5000, .notices = notices};
    assert_int_equal(mr_client_open(&client, &options, NULL), MR_OK);
    mr_kafka_mock_set_down(broker.mock, 1, true);
    serve_until(client, notices, &text, "broker away: ");
    mr_kafka_mock_set_down(broker.mock, 1, false);
    serve_until(client, notices, &text, "the broker is back\n");
    mr_client_close(client);
    fclose(notices);
    free(text);
    close_broker(&broker);
}

#define FETCH 1 /* Kafka's API key */

static void a_topic_that_must_not_be_read_is_an_error(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_client_event event;
    struct mr_error err = {0};
    open_broker(&broker);
    const struct mr_config config = config_of(&broker);
    struct mr_client *client = open_client(&config, false);
    mr_kafka_mock_fail(broker.mock, FETCH, 29, 10); /* TOPIC_AUTHORIZATION_FAILED */
    for (int tries = 0; mr_client_health(client, &err) == MR_OK; tries++) {
        assert_true(tries < 100);
        mr_client_take(client, 100, &event);
    }
    assert_int_equal(err.status, MR_BACKEND);
    assert_non_null(strstr(err.detail, "cannot read topic "));
    mr_client_close(client);
    close_broker(&broker);
}

static void the_place_of_a_request_is_known_when_it_returns(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    const struct mr_config config = config_of(&broker);
    struct mr_client *client = open_client(&config, false);
    assert_int_equal(mr_client_last_place(client).offset, -1);
    struct mr_client_place places[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            mr_client_request(client, "r", text_of("id"), text_of("{}"), MR_ENCODING_JSON, NULL),
            MR_OK);
        places[i] = mr_client_last_place(client);
    }
    assert_int_equal(places[0].partition, places[1].partition);
    assert_int_equal(places[0].offset, 0);
    assert_int_equal(places[1].offset, 1);
    mr_client_close(client);
    close_broker(&broker);
}

static void answers_are_read_and_other_records_are_marked(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    struct mr_client_event event;
    unsigned char *bytes = NULL;
    char *value = NULL;
    size_t length = 0;
    open_broker(&broker);
    const struct mr_config config = config_of(&broker);
    struct mr_client *client = open_client(&config, false);
    open_producing(&producing, &broker);
    const struct mr_token_record tokens = {
        .id = {"id", 2}, .attempt = 1, .resumed_at = -1, .text = {"hello", 5}};
    assert_int_equal(mr_token_record_encode(&tokens, MR_ENCODING_JSON, &bytes, &length, NULL),
                     MR_OK);
    value = strndup((const char *)bytes, length);
    produce(&producing, "t", 0, "id", value);
    take(client, &event);
    assert_int_equal(event.kind, MR_CLIENT_TOKENS);
    assert_memory_equal(event.id.bytes, "id", 2);
    assert_int_equal(event.tokens.text.length, 5);
    assert_memory_equal(event.tokens.text.bytes, "hello", 5);
    produce(&producing, "s", 0, "id", "this is no result");
    take(client, &event);
    assert_int_equal(event.kind, MR_CLIENT_OTHER);
    assert_string_equal(event.record.topic, "s");
    assert_false(mr_client_take(client, 0, &event));
    free(value);
    free(bytes);
    mr_client_close(client);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

static void a_file_that_cannot_be_opened_is_named(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_client *client = NULL;
    struct mr_error err = {0};
    open_broker(&broker);
    struct mr_config config = config_of(&broker);
    const struct mr_client_options options = {.config = &config, .timeout_ms = 500};
    config.kafka = (struct mr_text_list){{"no.such.property=1"}, 1};
    assert_int_equal(mr_client_open(&client, &options, &err), MR_BAD_CONFIG);
    assert_null(client);
    config.kafka.count = 0;
    mr_kafka_mock_set_down(broker.mock, 1, true);
    assert_int_equal(mr_client_open(&client, &options, &err), MR_UNREACHABLE);
    assert_null(client);
    mr_client_close(NULL);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_cancels_are_on_the_broker_when_it_returns),
        cmocka_unit_test(the_first_request_does_not_wait_for_the_next_look_at_the_topics),
        cmocka_unit_test(a_lost_broker_and_its_return_are_announced),
        cmocka_unit_test(a_topic_that_must_not_be_read_is_an_error),
        cmocka_unit_test(the_place_of_a_request_is_known_when_it_returns),
        cmocka_unit_test(answers_are_read_and_other_records_are_marked),
        cmocka_unit_test(a_file_that_cannot_be_opened_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
