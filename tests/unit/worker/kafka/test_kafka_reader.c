#include "worker/kafka/kafka_reader.h"

#include "tests/unit/worker/producing.h"

static struct mr_kafka_reader *open_reader(struct broker *broker, const char *const *topics,
                                           size_t count, enum mr_kafka_from from)
{
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_reader_options options = {.kafka = &broker->kafka,
                                              .topics = topics,
                                              .topic_count = count,
                                              .from = from,
                                              .age_ms = 1000,
                                              .timeout_ms = 5000};
    struct mr_error err = {0};
    if (mr_kafka_reader_create(&reader, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    return reader;
}

static bool take(struct mr_kafka_reader *reader, struct mr_kafka_record *record)
{
    for (int i = 0; i < 100; i++)
        if (mr_kafka_reader_take(reader, 100, record)) return true;
    return false;
}

static void a_reader_from_the_end_reads_records_produced_after_its_creation(void **state)
{
    struct bus *bus = *state;
    static const char *const topics[] = {"t"};
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 3);
    for (int32_t partition = 0; partition < 3; partition++)
        produce(&bus->producing, "t", partition, "old", "x");
    struct mr_kafka_reader *reader = open_reader(&bus->broker, topics, 1, MR_KAFKA_FROM_END);
    for (int32_t partition = 0; partition < 3; partition++)
        produce(&bus->producing, "t", partition, "new", NULL);
    for (int i = 0; i < 3; i++) {
        assert_true(take(reader, &record));
        assert_memory_equal(record.key.bytes, "new", 3);
        assert_null(record.value.bytes);
    }
    assert_false(mr_kafka_reader_take(reader, 50, &record));
    mr_kafka_reader_destroy(reader);
}

static void a_reader_from_the_beginning_sees_all_topics(void **state)
{
    struct bus *bus = *state;
    static const char *const topics[] = {"t", "u"};
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 2);
    add_topic(&bus->broker, "u", 1);
    produce(&bus->producing, "t", 1, "a", "1");
    produce(&bus->producing, "u", 0, "b", "2");
    struct mr_kafka_reader *reader = open_reader(&bus->broker, topics, 2, MR_KAFKA_FROM_BEGINNING);
    int seen = 0;
    for (int i = 0; i < 2; i++) {
        assert_true(mr_kafka_reader_is_behind(reader));
        assert_true(take(reader, &record));
        seen += record.topic[0] == 't' ? 1 : 10;
    }
    assert_int_equal(seen, 11);
    assert_false(mr_kafka_reader_is_behind(reader));
    produce(&bus->producing, "u", 0, "c", "3"); /* produced later: not part of the backlog */
    assert_false(mr_kafka_reader_is_behind(reader));
    mr_kafka_reader_destroy(reader);
}

static void a_reader_by_age_works_without_lookup_by_time(void **state)
{
    struct bus *bus = *state;
    static const char *const topics[] = {"t"};
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 1);
    produce(&bus->producing, "t", 0, "old", "x");
    struct mr_kafka_reader *reader = open_reader(&bus->broker, topics, 1, MR_KAFKA_FROM_AGE);
    produce(&bus->producing, "t", 0, "new", "x");
    assert_true(take(reader, &record));
    assert_memory_equal(record.key.bytes, "new", 3);
    mr_kafka_reader_destroy(reader);
}

static void a_missing_topic_is_an_error(void **state)
{
    struct bus *bus = *state;
    const char *topic = "none";
    struct mr_kafka_reader *reader = NULL;
    struct mr_kafka_reader_options options = {
        .kafka = &bus->broker.kafka, .topics = &topic, .topic_count = 1, .timeout_ms = 5000};
    assert_int_equal(mr_kafka_reader_create(&reader, &options, NULL), MR_BAD_CONFIG);
    assert_null(reader);
}

#define FETCH 1 /* Kafka's API key */

/* The next fetches of the reader fail with this code of Kafka; returns the status that it then
 * reports. */
static enum mr_status fail_fetches(struct broker *broker, struct mr_kafka_reader *reader, int code,
                                   struct mr_error *err)
{
    struct mr_kafka_record record;
    mr_kafka_mock_fail(broker->mock, FETCH, code, 3);
    for (int i = 0; i < 10 && mr_kafka_reader_failure(reader, 5000, err) == MR_OK; i++)
        mr_kafka_reader_take(reader, 100, &record);
    return mr_kafka_reader_failure(reader, 5000, err);
}

static void only_what_stays_is_a_failure(void **state)
{
    struct bus *bus = *state;
    static const char *const topics[] = {"t"};
    struct mr_error err = {0};
    add_topic(&bus->broker, "t", 1);
    struct mr_kafka_reader *reader = open_reader(&bus->broker, topics, 1, MR_KAFKA_FROM_END);
    assert_int_equal(fail_fetches(&bus->broker, reader, 5, &err), MR_OK); /* no leader */
    assert_int_equal(fail_fetches(&bus->broker, reader, 3, &err), MR_OK); /* unknown, but exists */
    assert_int_equal(fail_fetches(&bus->broker, reader, 29, &err), MR_BACKEND);
    assert_non_null(strstr(err.detail, "cannot read topic t: "));
    mr_kafka_reader_destroy(reader);
}

static void a_topic_that_is_gone_is_a_failure_and_its_reader_is_left(void **state)
{
    struct bus *bus = *state;
    static const char *const topics[] = {"kept", "t"};
    struct mr_error err = {0};
    struct mr_wake wake;
    assert_int_equal(mr_wake_open(&wake, NULL), MR_OK);
    add_topic(&bus->broker, "kept", 2);
    add_topic(&bus->broker, "t", 2);
    struct mr_kafka_reader *reader = NULL;
    const struct mr_kafka_reader_options options = {.kafka = &bus->broker.kafka,
                                                    .wake = &wake,
                                                    .topics = topics,
                                                    .topic_count = 2,
                                                    .timeout_ms = 5000};
    assert_int_equal(mr_kafka_reader_create(&reader, &options, NULL), MR_OK);
    mr_kafka_mock_hide(bus->broker.mock, "t", true);
    assert_int_equal(fail_fetches(&bus->broker, reader, 3, &err), MR_BACKEND);
    assert_string_equal(err.detail, "topic t no longer exists");
    mr_kafka_mock_set_down(bus->broker.mock, 1, true); /* it is not queried again */
    assert_int_equal(mr_kafka_reader_failure(reader, 0, &err), MR_BACKEND);
    mr_kafka_mock_set_down(bus->broker.mock, 1, false);
    mr_kafka_mock_fail(bus->broker.mock, FETCH, 0, 0);
    struct mr_kafka_record record;
    assert_false(
        mr_kafka_reader_take(reader, 0, &record)); /* the next record would ring the wake */
    mr_kafka_reader_destroy(reader);               /* librdkafka's threads go on */
    mr_wake_wait(&wake, 0);
    for (int32_t partition = 0; partition < 2; partition++)
        produce(&bus->producing, "kept", partition, "a", "x");
    assert_false(mr_wake_wait(&wake, 500000000u)); /* it may be closed */
    mr_wake_close(&wake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(a_reader_from_the_end_reads_records_produced_after_its_creation),
        BUS_TEST(a_reader_from_the_beginning_sees_all_topics),
        BUS_TEST(a_reader_by_age_works_without_lookup_by_time),
        BUS_TEST(a_missing_topic_is_an_error),
        BUS_TEST(only_what_stays_is_a_failure),
        BUS_TEST(a_topic_that_is_gone_is_a_failure_and_its_reader_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
