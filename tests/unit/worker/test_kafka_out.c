#include "worker/kafka_out.h"

#include "tests/unit/worker/producing.h"
#include "worker/kafka_reader.h"

#include <stdlib.h>

#define API_PRODUCE 0

static struct mr_kafka_reader *read_from_beginning(struct broker *broker, const char *topic)
{
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_reader_options options = {.kafka = &broker->kafka,
                                              .topics = &topic,
                                              .topic_count = 1,
                                              .from = MR_KAFKA_FROM_BEGINNING,
                                              .timeout_ms = 5000};
    assert_int_equal(mr_kafka_reader_create(&reader, &options, NULL), MR_OK);
    return reader;
}

static bool take(struct mr_kafka_reader *reader, struct mr_kafka_record *record)
{
    for (int i = 0; i < 100; i++)
        if (mr_kafka_reader_take(reader, 100, record)) return true;
    return false;
}

static void a_record_arrives_whole_and_is_reported(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    open_broker(&broker);
    add_topic(&broker, "t", 1);
    open_producing(&producing, &broker);
    struct mr_kafka_header headers[] = {{"a", "1", 1}, {"b", NULL, 0}, {"a", "\0\1", 2}};
    struct mr_kafka_record record = {.topic = "t",
                                     .partition = -1,
                                     .key = text_of("key"),
                                     .value = {"v\0w", 3},
                                     .headers = headers,
                                     .header_count = 3};
    int mark = 0;
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, &mark, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(producing.out, 10000), MR_OK);
    assert_int_equal(producing.reports, 1);
    assert_int_equal(producing.last, MR_OK);
    assert_ptr_equal(producing.last_opaque, &mark);
    assert_int_equal(mr_kafka_out_pending(producing.out), 0);

    struct mr_kafka_reader *reader = read_from_beginning(&broker, "t");
    struct mr_kafka_record seen;
    assert_true(take(reader, &seen));
    assert_int_equal(seen.value.length, 3);
    assert_memory_equal(seen.value.bytes, "v\0w", 3);
    assert_int_equal(seen.key.length, 3);
    assert_int_equal(seen.header_count, 3);
    assert_null(mr_kafka_record_header(&seen, "b")->value);
    assert_int_equal(mr_kafka_record_header(&seen, "a")->length, 2); /* the last one counts */
    assert_null(mr_kafka_record_header(&seen, "c"));
    mr_kafka_reader_destroy(reader);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

static void reports_ring_the_wake(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing = {0};
    struct mr_wake wake;
    open_broker(&broker);
    add_topic(&broker, "t", 1);
    assert_int_equal(mr_wake_open(&wake, NULL), MR_OK);
    struct mr_kafka_out_options options = {
        .kafka = &broker.kafka, .wake = &wake, .reported = count_report, .context = &producing};
    assert_int_equal(mr_kafka_out_create(&producing.out, &options, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_prime(producing.out, "t", 5000, NULL), MR_OK);
    struct mr_kafka_record record = {.topic = "t", .partition = -1, .value = text_of("v")};
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, NULL), MR_OK);
    while (producing.reports == 0) {
        assert_true(mr_wake_wait(&wake, 10000000000u));
        mr_kafka_out_serve(producing.out, 0);
    }
    assert_int_equal(producing.last, MR_OK);
    mr_kafka_out_destroy(producing.out);
    mr_wake_close(&wake);
    close_broker(&broker);
}

static void a_record_that_can_never_go_is_refused_or_reported(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    struct mr_error err = {0};
    open_broker(&broker);
    add_topic(&broker, "t", 1);
    open_producing(&producing, &broker);
    size_t length = 5000000;
    char *large = calloc(1, length);
    struct mr_kafka_record record = {.topic = "t", .partition = -1, .value = {large, length}};
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, &err), MR_RECORD_TOO_LARGE);
    free(large);
    mr_kafka_mock_fail(broker.mock, API_PRODUCE, 29, 1); /* topic authorization failed */
    record.value = text_of("v");
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, &err), MR_OK);
    assert_int_equal(mr_kafka_out_flush(producing.out, 10000), MR_OK);
    assert_int_equal(producing.last, MR_BAD_CONFIG);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

static void a_passing_broker_error_is_not_seen(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    open_broker(&broker);
    add_topic(&broker, "t", 1);
    open_producing(&producing, &broker);
    mr_kafka_mock_fail(broker.mock, API_PRODUCE, 6, 2); /* not the leader */
    produce(&producing, "t", -1, "k", "v");
    assert_int_equal(producing.reports, 1);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

static void a_broken_producer_says_so(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    struct mr_error err = {0};
    open_broker(&broker);
    add_topic(&broker, "t", 1);
    open_producing(&producing, &broker);
    assert_int_equal(mr_kafka_out_fatal(producing.out, &err), MR_OK);
    mr_kafka_mock_fail(broker.mock, API_PRODUCE, 45, 1); /* out of order sequence number */
    struct mr_kafka_record record = {.topic = "t", .partition = 0, .value = text_of("v")};
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, &err), MR_OK);
    mr_kafka_out_flush(producing.out, 5000);
    assert_int_equal(producing.failures, 1);
    assert_int_equal(mr_kafka_out_fatal(producing.out, &err), MR_BACKEND);
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, &err), MR_BACKEND);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

static void partitions_of_a_missing_topic_are_none_and_it_is_not_created(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    uint32_t count = 7;
    open_broker(&broker);
    add_topic(&broker, "t", 3);
    open_producing(&producing, &broker);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mr_kafka_out_partitions(producing.out, "none", 5000, &count, NULL), MR_OK);
        assert_int_equal(count, 0);
    }
    assert_int_equal(mr_kafka_out_partitions(producing.out, "t", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 3);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

static void records_wait_for_a_broker_that_is_away(void **state)
{
    (void)state;
    struct broker broker;
    struct producing producing;
    open_broker(&broker);
    add_topic(&broker, "t", 1);
    open_producing(&producing, &broker);
    produce(&producing, "t", 0, "k", "1");
    mr_kafka_mock_set_down(broker.mock, 1, true);
    struct mr_kafka_record record = {.topic = "t", .partition = 0, .value = text_of("2")};
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(producing.out, 200), MR_TIMEOUT);
    mr_kafka_mock_set_down(broker.mock, 1, false);
    assert_int_equal(mr_kafka_out_flush(producing.out, 20000), MR_OK);
    assert_int_equal(producing.reports, 2);
    assert_int_equal(producing.failures, 0);
    mr_kafka_out_destroy(producing.out);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_arrives_whole_and_is_reported),
        cmocka_unit_test(reports_ring_the_wake),
        cmocka_unit_test(a_record_that_can_never_go_is_refused_or_reported),
        cmocka_unit_test(a_passing_broker_error_is_not_seen),
        cmocka_unit_test(a_broken_producer_says_so),
        cmocka_unit_test(partitions_of_a_missing_topic_are_none_and_it_is_not_created),
        cmocka_unit_test(records_wait_for_a_broker_that_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
