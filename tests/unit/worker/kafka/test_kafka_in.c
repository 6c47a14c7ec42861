#include "worker/kafka/kafka_in.h"

#include "tests/unit/worker/kafka/consuming.h"
#include "tests/unit/worker/producing.h"

#include <stdatomic.h>
#include <stdlib.h>

static bool nothing_comes(struct consuming *consuming, int rounds)
{
    struct mr_kafka_record record;
    size_t index = 0;
    for (int i = 0; i < rounds; i++) {
        assert_int_equal(serve(consuming, NULL), MR_OK);
        if (mr_kafka_in_take(consuming->in, gate, consuming, &record, &index)) return false;
        mr_wake_wait(&consuming->wake, 20000000u);
    }
    return true;
}

static const struct mr_kafka_consumer_topic one_topic[] = {{"t", 1}};

static void a_partition_without_room_is_not_taken_from_and_others_are(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 2);
    produce(&bus->producing, "t", 0, "a", "0");
    produce(&bus->producing, "t", 1, "b", "1");
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    consuming.closed_gate[0] = true;
    assert_true(take(&consuming, &record));
    assert_int_equal(record.partition, 1);
    assert_true(nothing_comes(&consuming, 5));
    consuming.closed_gate[0] = false;
    assert_true(take(&consuming, &record));
    assert_int_equal(record.partition, 0);
    assert_string_equal(record.topic, "t");
    assert_memory_equal(record.key.bytes, "a", 1);
    close_consuming(&consuming);
}

static void a_record_put_back_comes_first_again(void **state)
{
    struct bus *bus = *state;
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 1);
    produce(&bus->producing, "t", 0, "a", "0");
    produce(&bus->producing, "t", 0, "a", "1");
    open_consuming(&consuming, &bus->broker, one_topic, 1, false);
    for (int i = 0; i < 3; i++) {
        assert_true(take(&consuming, &record));
        assert_int_equal(record.offset, 0);
        mr_kafka_in_put_back(consuming.in);
    }
    assert_int_equal(mr_kafka_in_backlog(consuming.in), 2);
    assert_true(take(&consuming, &record));
    assert_int_equal(record.offset, 0);
    assert_true(take(&consuming, &record));
    assert_int_equal(record.offset, 1);
    assert_int_equal(mr_kafka_in_backlog(consuming.in), 0);
    mr_kafka_in_put_back(consuming.in);
    close_consuming(&consuming); /* records put back are not leaked */
}

static void topics_take_turns_by_weight(void **state)
{
    struct bus *bus = *state;
    static const struct mr_kafka_consumer_topic topics[] = {{"high", 3}, {"low", 1}};
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "high", 1);
    add_topic(&bus->broker, "low", 1);
    for (int i = 0; i < 12; i++) {
        produce(&bus->producing, "high", 0, "h", "x");
        produce(&bus->producing, "low", 0, "l", "x");
    }
    open_consuming(&consuming, &bus->broker, topics, 2, false);
    consuming.closed_gate[0] = true;
    /* More rounds than records: one arrival wakes the caller before all records are there. */
    assert_true(nothing_comes(&consuming, 100));
    consuming.closed_gate[0] = false;
    int high = 0;
    for (int i = 0; i < 12; i++) {
        assert_true(take(&consuming, &record));
        high += record.topic[0] == 'h';
    }
    assert_in_range(high, 8, 10);
    close_consuming(&consuming);
}

static void a_topic_of_many_partitions_has_no_more_turns(void **state)
{
    struct bus *bus = *state;
    static const struct mr_kafka_consumer_topic topics[] = {{"wide", 1}, {"narrow", 1}};
    struct consuming consuming;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "wide", 4);
    add_topic(&bus->broker, "narrow", 1);
    for (int i = 0; i < 12; i++) {
        produce(&bus->producing, "wide", i % 4, "w", "x");
        produce(&bus->producing, "narrow", 0, "n", "x");
    }
    open_consuming(&consuming, &bus->broker, topics, 2, false);
    memset(consuming.closed_gate, true, sizeof consuming.closed_gate);
    assert_true(nothing_comes(&consuming, 100));
    memset(consuming.closed_gate, false, sizeof consuming.closed_gate);
    int wide = 0;
    for (int i = 0; i < 12; i++) {
        assert_true(take(&consuming, &record));
        wide += record.topic[0] == 'w';
    }
    assert_in_range(wide, 5, 7);
    close_consuming(&consuming);
}

/* A log that ends, as a worker's does after it has closed its consumer. */
struct ending_log {
    atomic_uint lines, lines_after_the_end;
    atomic_bool ended;
};

static void count_line(void *context, enum mr_log_level level, const char *text)
{
    (void)level, (void)text;
    struct ending_log *log = context;
    atomic_fetch_add(atomic_load(&log->ended) ? &log->lines_after_the_end : &log->lines, 1);
}

static void an_abandoned_consumer_no_longer_logs(void **state)
{
    (void)state;
    static struct mr_text_list debug = {{"debug=all"}, 1};
    static struct ending_log log, other;
    struct broker broker;
    struct consuming abandoned, running;
    static const struct mr_kafka_consumer_topic topics[] = {{"requests", 1}};
    open_broker(&broker);
    add_topic(&broker, "requests", 1);
    broker.kafka.properties = &debug;
    broker.kafka.log = count_line;
    broker.kafka.log_context = &log;
    open_consuming(&abandoned, &broker, topics, 1, true);
    while (!abandoned.held[0])
        assert_int_equal(serve(&abandoned, NULL), MR_OK);
    assert_false(mr_kafka_in_close(abandoned.in, 0));
    atomic_store(&log.ended, true);
    mr_wake_close(&abandoned.wake);
    broker.kafka.log_context = &other; /* another consumer's log lines show that time passes */
    open_consuming(&running, &broker, topics, 1, false);
    while (atomic_load(&other.lines) < 1000)
        assert_int_equal(serve(&running, NULL), MR_OK);
    assert_true(atomic_load(&log.lines) > 0);
    assert_int_equal(atomic_load(&log.lines_after_the_end), 0);
    close_consuming(&running);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(a_partition_without_room_is_not_taken_from_and_others_are),
        BUS_TEST(a_record_put_back_comes_first_again),
        BUS_TEST(topics_take_turns_by_weight),
        BUS_TEST(a_topic_of_many_partitions_has_no_more_turns),
        cmocka_unit_test(an_abandoned_consumer_no_longer_logs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
