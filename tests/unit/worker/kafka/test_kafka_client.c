#include "worker/kafka/kafka_client.h"

#include "tests/unit/worker/producing.h"

#include <librdkafka/rdkafka.h>

/* A librdkafka handle without a module around it. */
struct client {
    const struct mr_kafka_options *kafka; /* must be first: kafka_conf's callbacks read it */
    rd_kafka_t *rk;
};

static void open_client(struct client *client, const struct broker *broker)
{
    struct rd_kafka_conf_s *conf = NULL;
    client->kafka = &broker->kafka;
    assert_int_equal(mr_kafka_conf_create(&conf, MR_KAFKA_READER, &broker->kafka, client, NULL),
                     MR_OK);
    assert_int_equal(mr_kafka_conf_open(&client->rk, conf, MR_KAFKA_READER, NULL), MR_OK);
}

static void close_client(struct client *client)
{
    rd_kafka_destroy_flags(client->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

struct seen {
    int count;
    int32_t a, b;
};

static void note(void *context, const char *topic, int32_t partition_count)
{
    struct seen *seen = context;
    seen->count++;
    if (strcmp(topic, "a") == 0) seen->a = partition_count;
    if (strcmp(topic, "b") == 0) seen->b = partition_count;
}

static void topics_are_listed_and_none_is_created(void **state)
{
    (void)state;
    struct broker broker;
    struct client client;
    struct seen seen = {0};
    uint32_t count = 99;
    open_broker(&broker);
    add_topic(&broker, "a", 3);
    add_topic(&broker, "b", 1);
    open_client(&client, &broker);
    assert_int_equal(mr_kafka_client_partitions(client.rk, "c", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(mr_kafka_client_partitions(client.rk, "a", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(mr_kafka_client_ask(client.rk, "a", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(mr_kafka_client_topics(client.rk, 5000, note, &seen, NULL), MR_OK);
    assert_int_equal(seen.count, 2); /* the request for c did not create it */
    assert_int_equal(seen.a, 3);
    assert_int_equal(seen.b, 1);
    close_client(&client);
    close_broker(&broker);
}

static void a_broker_that_is_gone_is_unreachable(void **state)
{
    (void)state;
    struct broker broker;
    struct client client;
    struct mr_error err = {0};
    uint32_t count = 99;
    open_broker(&broker);
    open_client(&client, &broker);
    mr_kafka_mock_set_down(broker.mock, 1, true);
    assert_int_equal(mr_kafka_client_partitions(client.rk, "a", 300, &count, &err), MR_UNREACHABLE);
    assert_int_equal(count, 0);
    assert_non_null(strstr(err.detail, "topics"));
    assert_int_equal(mr_kafka_client_ask(client.rk, "a", 300, &count, &err), MR_UNREACHABLE);
    assert_int_equal(count, 0);
    assert_non_null(strstr(err.detail, "topic a"));
    close_client(&client);
    close_broker(&broker);
}

static rd_kafka_message_t *poll_one(struct client *client, const char *topic)
{
    rd_kafka_message_t *message = NULL;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(client->rk, list), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_destroy(list);
    for (int i = 0; i < 200 && !message; i++) {
        message = rd_kafka_consumer_poll(client->rk, 100);
        if (message && message->err) {
            rd_kafka_message_destroy(message);
            message = NULL;
        }
    }
    assert_non_null(message);
    return message;
}

static void a_message_is_described_without_headers_beyond_the_maximum(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    struct client client;
    struct mr_kafka_header sent[MR_KAFKA_HEADERS_MAX + 2], seen[MR_KAFKA_HEADERS_MAX];
    struct mr_kafka_record record = {.topic = "a",
                                     .key = text_of("k"),
                                     .headers = sent,
                                     .header_count = MR_KAFKA_HEADERS_MAX + 2};
    for (size_t i = 0; i < record.header_count; i++)
        sent[i] = (struct mr_kafka_header){"h", i == 0 ? NULL : "v", i == 0 ? 0 : 1};
    open_broker(&broker);
    add_topic(&broker, "a", 1);
    open_producing(&producing, &broker);
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(producing.out, 10000), MR_OK);
    open_client(&client, &broker);
    rd_kafka_message_t *message = poll_one(&client, "a");
    mr_kafka_client_describe(message, seen, &record);
    assert_string_equal(record.topic, "a");
    assert_int_equal(record.partition, 0);
    assert_int_equal(record.offset, 0);
    assert_true(record.timestamp_ms > 0);
    assert_int_equal(record.key.length, 1);
    assert_null(record.value.bytes); /* a record without a value */
    assert_int_equal(record.header_count, MR_KAFKA_HEADERS_MAX);
    assert_null(seen[0].value);
    assert_memory_equal(seen[1].value, "v", 1);
    rd_kafka_message_destroy(message);
    close_client(&client);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

static void a_partition_without_a_leader_is_asked_again(void **state)
{
    (void)state;
    enum { LIST_OFFSETS = 2 };
    struct broker broker;
    struct client client;
    struct mr_kafka_ends ends = {-1, -1};
    struct mr_error err = {0};
    open_broker(&broker);
    add_topic(&broker, "a", 1);
    open_client(&client, &broker);
    mr_kafka_mock_fail(broker.mock, LIST_OFFSETS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 12);
    assert_int_equal(mr_kafka_client_ends(client.rk, "a", 0, 20000, &ends, NULL), MR_OK);
    assert_int_equal(ends.begin, 0);
    assert_int_equal(ends.end, 0);
    mr_kafka_mock_fail(broker.mock, LIST_OFFSETS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 1000);
    assert_int_equal(mr_kafka_client_ends(client.rk, "a", 0, 500, &ends, &err), MR_UNREACHABLE);
    assert_non_null(strstr(err.detail, "topic a"));
    close_client(&client);
    close_broker(&broker);
}

static void an_error_of_one_partition_is_an_error(void **state)
{
    (void)state;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(2);
    assert_int_equal(mr_kafka_client_list_error(NULL), 0);
    assert_int_equal(mr_kafka_client_list_error(list), 0);
    rd_kafka_topic_partition_list_add(list, "a", 0);
    rd_kafka_topic_partition_list_add(list, "a", 1);
    assert_int_equal(mr_kafka_client_list_error(list), 0);
    list->elems[1].err = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    assert_int_equal(mr_kafka_client_list_error(list),
                     RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    rd_kafka_topic_partition_list_destroy(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topics_are_listed_and_none_is_created),
        cmocka_unit_test(a_broker_that_is_gone_is_unreachable),
        cmocka_unit_test(a_partition_without_a_leader_is_asked_again),
        cmocka_unit_test(an_error_of_one_partition_is_an_error),
        cmocka_unit_test(a_message_is_described_without_headers_beyond_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
