#include "worker/kafka/kafka_lookup.h"

#include "tests/unit/worker/producing.h"

#include <stdio.h>

#define HOUR_NS ((uint64_t)3600000000000)

static struct mr_kafka_lookup *open_lookup(struct bus *bus, struct mr_wake *wake, uint64_t keep_ns)
{
    struct mr_kafka_lookup *lookup = NULL;
    struct mr_kafka_lookup_options options = {.kafka = &bus->broker.kafka,
                                              .answered = wake,
                                              .keep_ns = keep_ns,
                                              .keep_missing_ns = keep_ns};
    assert_int_equal(mr_wake_open(wake, NULL), MR_OK);
    assert_int_equal(mr_kafka_lookup_create(&lookup, &options, NULL), MR_OK);
    return lookup;
}

static void close_lookup(struct mr_kafka_lookup *lookup, struct mr_wake *wake)
{
    mr_kafka_lookup_destroy(lookup);
    mr_wake_close(wake);
}

static uint32_t look_up(struct mr_kafka_lookup *lookup, struct mr_wake *wake, const char *topic)
{
    uint32_t count = 7;
    enum mr_status status;
    while ((status = mr_kafka_lookup_query(lookup, topic, &count, NULL)) == MR_AGAIN)
        assert_true(mr_wake_wait(wake, 20000000000u));
    assert_int_equal(status, MR_OK);
    return count;
}

static void partitions_of_a_missing_topic_are_none_and_it_is_not_created(void **state)
{
    struct bus *bus = *state;
    struct mr_wake wake;
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake, HOUR_NS);
    add_topic(&bus->broker, "t", 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(look_up(lookup, &wake, "none"), 0);
    assert_int_equal(look_up(lookup, &wake, "t"), 3);
    close_lookup(lookup, &wake);
}

static void a_name_too_long_for_a_topic_is_no_topic(void **state)
{
    struct bus *bus = *state;
    struct mr_wake wake;
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake, HOUR_NS);
    assert_int_equal(look_up(lookup, &wake, name), 0);
    close_lookup(lookup, &wake);
}

/* 200 topics are more than the table holds: answers that nobody collects are replaced. */
static void more_topics_than_the_table_holds_are_all_answered(void **state)
{
    struct bus *bus = *state;
    struct mr_wake wake;
    char name[16];
    uint32_t count;
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake, HOUR_NS);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(mr_kafka_lookup_query(lookup, name, &count, NULL), MR_AGAIN);
    }
    add_topic(&bus->broker, "t", 2);
    assert_int_equal(look_up(lookup, &wake, "t"), 2);
    assert_int_equal(look_up(lookup, &wake, "t199"), 0);
    close_lookup(lookup, &wake);
}

static void an_answer_is_kept_for_its_time_and_then_asked_for_again(void **state)
{
    struct bus *bus = *state;
    for (int kept = 0; kept < 2; kept++) {
        struct mr_wake wake;
        const char *topic = kept ? "kept" : "asked";
        struct mr_kafka_lookup *lookup = open_lookup(bus, &wake, kept ? HOUR_NS : 0);
        assert_int_equal(look_up(lookup, &wake, topic), 0);
        add_topic(&bus->broker, topic, 3);
        assert_int_equal(look_up(lookup, &wake, topic), kept ? 0 : 3);
        close_lookup(lookup, &wake);
    }
}

static void while_no_broker_answers_the_topic_is_asked_for_again(void **state)
{
    struct bus *bus = *state;
    struct mr_wake wake;
    uint32_t count;
    add_topic(&bus->broker, "t", 3);
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake, HOUR_NS);
    mr_kafka_mock_set_down(bus->broker.mock, 1, true);
    assert_int_equal(mr_kafka_lookup_query(lookup, "t", &count, NULL), MR_AGAIN);
    assert_false(mr_wake_wait(&wake, 3000000000u)); /* longer than one metadata call */
    assert_int_equal(mr_kafka_lookup_query(lookup, "t", &count, NULL), MR_AGAIN);
    mr_kafka_mock_set_down(bus->broker.mock, 1, false);
    assert_int_equal(look_up(lookup, &wake, "t"), 3);
    close_lookup(lookup, &wake);
    mr_kafka_lookup_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(partitions_of_a_missing_topic_are_none_and_it_is_not_created),
        BUS_TEST(a_name_too_long_for_a_topic_is_no_topic),
        BUS_TEST(more_topics_than_the_table_holds_are_all_answered),
        BUS_TEST(an_answer_is_kept_for_its_time_and_then_asked_for_again),
        BUS_TEST(while_no_broker_answers_the_topic_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
