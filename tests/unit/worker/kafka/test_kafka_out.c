#include "worker/kafka/kafka_out.h"

#include "tests/unit/worker/producing.h"
#include "worker/kafka/kafka_reader.h"

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
    struct bus *bus = *state;
    add_topic(&bus->broker, "t", 1);
    struct mr_kafka_header headers[] = {{"a", "1", 1}, {"b", NULL, 0}, {"a", "\0\1", 2}};
    struct mr_kafka_record record = {.topic = "t",
                                     .partition = -1,
                                     .key = text_of("key"),
                                     .value = {"v\0w", 3},
                                     .headers = headers,
                                     .header_count = 3};
    int mark = 0;
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, &mark, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(bus->producing.out, 10000), MR_OK);
    assert_int_equal(bus->producing.reports, 1);
    assert_int_equal(bus->producing.last, MR_OK);
    assert_ptr_equal(bus->producing.last_opaque, &mark);
    assert_int_equal(mr_kafka_out_pending(bus->producing.out), 0);

    struct mr_kafka_reader *reader = read_from_beginning(&bus->broker, "t");
    struct mr_kafka_record seen;
    assert_true(take(reader, &seen));
    assert_int_equal(seen.value.length, 3);
    assert_memory_equal(seen.value.bytes, "v\0w", 3);
    assert_int_equal(seen.key.length, 3);
    assert_int_equal(seen.header_count, 3);
    assert_null(mr_kafka_record_header(&seen, "b")->value);
    assert_int_equal(mr_kafka_record_header(&seen, "a")->length,
                     2); /* the last header of a name is used */
    assert_null(mr_kafka_record_header(&seen, "c"));
    mr_kafka_reader_destroy(reader);
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

static void reports_that_nobody_attends_to_ring_nothing_and_are_kept(void **state)
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
    mr_kafka_out_serve(producing.out, 0);
    mr_wake_wait(&wake, 0);
    assert_false(mr_kafka_out_attend(producing.out, false));
    struct mr_kafka_record record = {.topic = "t", .partition = -1, .value = text_of("v")};
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, NULL), MR_OK);
    assert_false(mr_wake_wait(&wake, 300000000u));
    /* usually the report is there by now; otherwise it rings the wake when it arrives */
    if (!mr_kafka_out_attend(producing.out, true)) assert_true(mr_wake_wait(&wake, 10000000000u));
    assert_int_equal(producing.reports, 0);
    mr_kafka_out_serve(producing.out, 0);
    assert_int_equal(producing.reports, 1);
    assert_int_equal(mr_kafka_out_produce(producing.out, &record, NULL, NULL), MR_OK);
    assert_true(mr_wake_wait(&wake, 10000000000u)); /* attended to again */
    mr_kafka_out_destroy(producing.out);
    mr_wake_close(&wake);
    close_broker(&broker);
}

static void a_record_that_cannot_be_produced_is_refused_or_reported(void **state)
{
    struct bus *bus = *state;
    struct mr_error err = {0};
    add_topic(&bus->broker, "t", 1);
    size_t length = 5000000;
    char *large = calloc(1, length);
    struct mr_kafka_record record = {.topic = "t", .partition = -1, .value = {large, length}};
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, NULL, &err),
                     MR_RECORD_TOO_LARGE);
    free(large);
    mr_kafka_mock_fail(bus->broker.mock, API_PRODUCE, 29, 1); /* topic authorization failed */
    record.value = text_of("v");
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, NULL, &err), MR_OK);
    assert_int_equal(mr_kafka_out_flush(bus->producing.out, 10000), MR_OK);
    assert_int_equal(bus->producing.last, MR_BAD_CONFIG);
    add_topic(&bus->broker, "u", 1);
    record.topic = "u";
    mr_kafka_mock_fail(bus->broker.mock, API_PRODUCE, 87, 1); /* invalid record */
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, NULL, &err), MR_OK);
    assert_int_equal(mr_kafka_out_flush(bus->producing.out, 10000), MR_OK);
    assert_int_equal(bus->producing.last, MR_MALFORMED);
}

/* librdkafka counts the bytes of values only. */
static void keys_and_headers_without_a_report_are_bounded(void **state)
{
    struct bus *bus = *state;
    const size_t half = 1000000;
    char *large = calloc(1, half);
    const struct mr_kafka_header header = {"name", large, half};
    const struct mr_kafka_record record = {.topic = "t",
                                           .partition = -1,
                                           .key = {large, half},
                                           .value = text_of("v"),
                                           .headers = &header,
                                           .header_count = 1};
    struct mr_error err = {0};
    uint32_t count = 0;
    add_topic(&bus->broker, "t", 1);
    assert_non_null(large);
    while (count < 100 && mr_kafka_out_produce(bus->producing.out, &record, NULL, &err) == MR_OK)
        count++;
    assert_int_equal(count, 34); /* the last one is above 64 MiB */
    assert_int_equal(err.status, MR_FULL);
    while (bus->producing.reports < count)
        mr_kafka_out_serve(bus->producing.out, 100);
    assert_int_equal(bus->producing.failures, 0);
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, NULL, &err), MR_OK);
    free(large);
}

static void a_transient_broker_error_is_not_reported(void **state)
{
    struct bus *bus = *state;
    add_topic(&bus->broker, "t", 1);
    mr_kafka_mock_fail(bus->broker.mock, API_PRODUCE, 6, 2); /* not the leader */
    produce(&bus->producing, "t", -1, "k", "v");
    assert_int_equal(bus->producing.reports, 1);
}

static void a_fatal_producer_error_is_reported(void **state)
{
    struct bus *bus = *state;
    struct mr_error err = {0};
    add_topic(&bus->broker, "t", 1);
    assert_int_equal(mr_kafka_out_fatal(bus->producing.out, &err), MR_OK);
    mr_kafka_mock_fail(bus->broker.mock, API_PRODUCE, 45, 1); /* out of order sequence number */
    struct mr_kafka_record record = {.topic = "t", .partition = 0, .value = text_of("v")};
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, NULL, &err), MR_OK);
    mr_kafka_out_flush(bus->producing.out, 5000);
    assert_int_equal(bus->producing.failures, 1);
    assert_int_equal(mr_kafka_out_fatal(bus->producing.out, &err), MR_BACKEND);
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, NULL, &err), MR_BACKEND);
}

static void records_wait_for_an_unreachable_broker(void **state)
{
    struct bus *bus = *state;
    add_topic(&bus->broker, "t", 1);
    produce(&bus->producing, "t", 0, "k", "1");
    mr_kafka_mock_set_down(bus->broker.mock, 1, true);
    struct mr_kafka_record record = {.topic = "t", .partition = 0, .value = text_of("2")};
    assert_int_equal(mr_kafka_out_produce(bus->producing.out, &record, NULL, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(bus->producing.out, 200), MR_TIMEOUT);
    mr_kafka_mock_set_down(bus->broker.mock, 1, false);
    assert_int_equal(mr_kafka_out_flush(bus->producing.out, 20000), MR_OK);
    assert_int_equal(bus->producing.reports, 2);
    assert_int_equal(bus->producing.failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(a_record_arrives_whole_and_is_reported),
        cmocka_unit_test(reports_ring_the_wake),
        cmocka_unit_test(reports_that_nobody_attends_to_ring_nothing_and_are_kept),
        BUS_TEST(a_record_that_cannot_be_produced_is_refused_or_reported),
        BUS_TEST(keys_and_headers_without_a_report_are_bounded),
        BUS_TEST(a_transient_broker_error_is_not_reported),
        BUS_TEST(a_fatal_producer_error_is_reported),
        BUS_TEST(records_wait_for_an_unreachable_broker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
