#include "worker/kafka/kafka_lookup.h"

#include "tests/unit/worker/producing.h"

#include <stdio.h>

static struct mr_kafka_lookup *open_lookup(struct bus *bus, struct mr_wake *wake)
{
    struct mr_kafka_lookup *lookup = NULL;
    assert_int_equal(mr_wake_open(wake, NULL), MR_OK);
    assert_int_equal(
        mr_kafka_lookup_create(&lookup, mr_kafka_out_handle(bus->producing.out), wake, NULL),
        MR_OK);
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
        assert_true(mr_wake_wait(wake, 10000000000u));
    assert_int_equal(status, MR_OK);
    return count;
}

static void partitions_of_a_missing_topic_are_none_and_it_is_not_created(void **state)
{
    struct bus *bus = *state;
    struct mr_wake wake;
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake);
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
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake);
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
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(mr_kafka_lookup_query(lookup, name, &count, NULL), MR_AGAIN);
    }
    add_topic(&bus->broker, "t", 2);
    assert_int_equal(look_up(lookup, &wake, "t"), 2);
    assert_int_equal(look_up(lookup, &wake, "t199"), 0);
    close_lookup(lookup, &wake);
}

static void a_broker_that_does_not_answer_is_an_error(void **state)
{
    struct bus *bus = *state;
    struct mr_wake wake;
    struct mr_error err = {0};
    uint32_t count;
    enum mr_status status;
    struct mr_kafka_lookup *lookup = open_lookup(bus, &wake);
    mr_kafka_mock_set_down(bus->broker.mock, 1, true);
    while ((status = mr_kafka_lookup_query(lookup, "t", &count, &err)) == MR_AGAIN)
        assert_true(mr_wake_wait(&wake, 20000000000u));
    assert_int_equal(status, MR_UNREACHABLE);
    assert_int_equal(err.status, MR_UNREACHABLE);
    close_lookup(lookup, &wake);
    mr_kafka_lookup_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUS_TEST(partitions_of_a_missing_topic_are_none_and_it_is_not_created),
        BUS_TEST(a_name_too_long_for_a_topic_is_no_topic),
        BUS_TEST(more_topics_than_the_table_holds_are_all_answered),
        BUS_TEST(a_broker_that_does_not_answer_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
