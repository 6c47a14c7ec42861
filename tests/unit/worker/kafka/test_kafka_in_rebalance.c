/* Members of a group (worker/kafka/kafka_in_rebalance.c) over the embedded broker. */
#include "tests/unit/worker/kafka/consuming.h"
#include "tests/unit/worker/producing.h"
#include "worker/base/clock.h"

#define API_FETCH                  1
#define API_OFFSET_FETCH           9
#define API_HEARTBEAT              12
#define UNKNOWN_TOPIC              3
#define TOPIC_AUTHORIZATION_FAILED 29
#define FENCED_INSTANCE_ID         82

static const struct mr_kafka_consumer_topic one_topic[] = {{"t", 1}};

static void committed_offsets_that_are_not_told_are_asked_for_again(void **state)
{
    (void)state;
    struct broker broker;
    struct consuming consuming;
    static const struct mr_kafka_consumer_topic topics[] = {{"requests", 1}};
    static const struct mr_kafka_commit offset = {0, 0, 3, "text"};
    open_broker(&broker);
    add_topic(&broker, "requests", 1);
    open_consuming(&consuming, &broker, topics, 1, false);
    assert_int_equal(commit(&consuming, &offset, 1), MR_OK);
    close_consuming(&consuming);
    mr_kafka_mock_fail(broker.mock, API_OFFSET_FETCH, TOPIC_AUTHORIZATION_FAILED, 1);
    open_consuming(&consuming, &broker, topics, 1, true);
    assert_false(consuming.held[0]);
    while (!consuming.held[0])
        assert_int_equal(serve(&consuming, NULL), MR_OK);
    assert_int_equal(consuming.committed[0], 3);
    assert_string_equal(consuming.metadata[0], "text");
    close_consuming(&consuming);
    close_broker(&broker);
}

/* Serves both members until the partitions are spread as wanted: held by first, held by second.
 * False: they are not within a minute. */
static bool balance(struct consuming *first, struct consuming *second, size_t one, size_t two)
{
    uint64_t until_ns = mr_clock_ns() + WAIT_NS;
    while (mr_clock_ns() < until_ns) {
        assert_int_equal(serve(first, NULL), MR_OK);
        if (second) assert_int_equal(serve(second, NULL), MR_OK);
        if (mr_kafka_in_partition_count(first->in) == one &&
            (!second || mr_kafka_in_partition_count(second->in) == two))
            return true;
        mr_wake_wait(&first->wake, 10000000u);
    }
    return false;
}

static void members_share_the_partitions_and_inherit_them(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 2);
    for (int i = 0; i < 6; i++)
        produce(&bus->producing, "t", i % 2, "a", "x");
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 2, 0));
    assert_true(take(&first, &record));
    struct mr_kafka_commit both[] = {{0, 0, 1, "one"}, {0, 1, 1, "one"}};
    assert_int_equal(commit(&first, both, 2), MR_OK);
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, &second, 1, 1));
    assert_false(first.lost);
    int32_t shared = second.held[0] ? 0 : 1;
    assert_int_equal(second.committed[shared], 1);
    assert_string_equal(second.metadata[shared], "one");
    assert_true(take(&second, &record));
    assert_int_equal(record.partition, shared);
    assert_int_equal(record.offset, 1);
    struct mr_kafka_commit last = {0, 1 - shared, 2, "last"};
    assert_int_equal(commit(&first, &last, 1), MR_OK);
    close_consuming(&first);
    assert_true(balance(&second, NULL, 2, 0));
    assert_int_equal(second.committed[1 - shared], 2);
    close_consuming(&second);
}

/* Runs with every version of the library, including those with which the worker does not use this
 * mode. */
static void with_the_cooperative_protocol_what_stays_is_not_touched(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    struct mr_kafka_record record;
    bus->broker.kafka.assignor = "cooperative-sticky";
    add_topic(&bus->broker, "t", 4);
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 4, 0));
    for (int i = 0; i < 8; i++)
        produce(&bus->producing, "t", i % 4, "a", "x");
    for (int i = 0; i < 8; i++)
        assert_true(take(&first, &record));
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, &second, 2, 2));
    assert_int_equal(first.revoked, 2);
    assert_int_equal(first.how, MR_KAFKA_REVOKE_GONE);
    for (int32_t i = 0; i < 4; i++) {
        assert_true(first.held[i] != second.held[i]);
        if (second.held[i]) assert_true(second.generation[i] > first.generation[i]);
        if (!second.held[i]) produce(&bus->producing, "t", i, "b", "y");
    }
    for (int i = 0; i < 2; i++) { /* continues at its position: nothing was fetched again */
        assert_true(take(&first, &record));
        assert_int_equal(record.offset, 2);
    }
    close_consuming(&first);
    assert_true(balance(&second, NULL, 4, 0));
    assert_int_equal(second.revoked, 0);
    close_consuming(&second);
}

/* The owner may continue for any time: it commits, and takes records from the partitions that
 * stay. */
static void a_revocation_is_over_when_its_owner_completes_it(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    struct mr_kafka_record record;
    add_topic(&bus->broker, "t", 2);
    for (int i = 0; i < 6; i++)
        produce(&bus->producing, "t", i % 2, "a", "x");
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 2, 0));
    assert_true(take(&first, &record));
    first.keep_revoking = true;
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    while (!first.revoking) {
        assert_int_equal(serve(&first, NULL), MR_OK);
        assert_int_equal(serve(&second, NULL), MR_OK);
        mr_wake_wait(&first.wake, 10000000u);
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(serve(&first, NULL), MR_OK);
        assert_int_equal(serve(&second, NULL), MR_OK);
        mr_wake_wait(&first.wake, 10000000u);
    }
    assert_int_equal(mr_kafka_in_partition_count(first.in), 2);
    assert_int_equal(mr_kafka_in_partition_count(second.in), 0);
    first.keep_revoking = false;
    mr_kafka_in_complete_rebalance(first.in);
    assert_true(balance(&first, &second, 1, 1));
    close_consuming(&first);
    close_consuming(&second);
}

static void a_consumer_may_close_in_the_middle_of_a_revocation(void **state)
{
    struct bus *bus = *state;
    struct consuming first, second;
    add_topic(&bus->broker, "t", 2);
    open_consuming(&first, &bus->broker, one_topic, 1, true);
    assert_true(balance(&first, NULL, 2, 0));
    first.keep_revoking = true;
    open_consuming(&second, &bus->broker, one_topic, 1, true);
    while (!first.revoking) {
        assert_int_equal(serve(&first, NULL), MR_OK);
        assert_int_equal(serve(&second, NULL), MR_OK);
        mr_wake_wait(&first.wake, 10000000u);
    }
    close_consuming(&first);
    assert_true(balance(&second, NULL, 2, 0));
    close_consuming(&second);
}

static void a_static_member_that_lost_its_place_says_so(void **state)
{
    struct bus *bus = *state;
    struct mr_error err = {0};
    struct consuming consuming;
    bus->broker.kafka.group_instance = "mill-3";
    add_topic(&bus->broker, "t", 1);
    open_consuming(&consuming, &bus->broker, one_topic, 1, true);
    assert_true(balance(&consuming, NULL, 1, 0));
    mr_kafka_mock_fail(bus->broker.mock, API_HEARTBEAT, FENCED_INSTANCE_ID, 1);
    while (serve(&consuming, &err) == MR_OK)
        mr_wake_wait(&consuming.wake, 50000000u);
    assert_int_equal(err.status, MR_BACKEND);
    assert_non_null(strstr(err.detail, "--group-instance mill-3"));
    close_consuming(&consuming);
}

/* rd_kafka_destroy would wait for a thread forever. */
static void a_consumer_of_a_deleted_topic_closes(void **state)
{
    struct bus *bus = *state;
    static const struct mr_kafka_consumer_topic topics[] = {{"kept", 1}, {"gone", 1}};
    struct consuming consuming;
    add_topic(&bus->broker, "kept", 1);
    add_topic(&bus->broker, "gone", 1);
    open_consuming(&consuming, &bus->broker, topics, 2, true);
    assert_true(balance(&consuming, NULL, 2, 0));
    mr_kafka_mock_hide(bus->broker.mock, "gone", true);
    mr_kafka_mock_fail(bus->broker.mock, API_FETCH, UNKNOWN_TOPIC, 5);
    const uint64_t until_ns = mr_clock_ns() + 1000000000u;
    while (mr_clock_ns() < until_ns) {
        serve(&consuming, NULL);
        mr_wake_wait(&consuming.wake, 10000000u);
    }
    assert_true(mr_kafka_in_close(consuming.in, 20000));
    mr_wake_close(&consuming.wake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(committed_offsets_that_are_not_told_are_asked_for_again),
        BUS_TEST(members_share_the_partitions_and_inherit_them),
        BUS_TEST(with_the_cooperative_protocol_what_stays_is_not_touched),
        BUS_TEST(a_revocation_is_over_when_its_owner_completes_it),
        BUS_TEST(a_consumer_may_close_in_the_middle_of_a_revocation),
        BUS_TEST(a_consumer_of_a_deleted_topic_closes),
        BUS_TEST(a_static_member_that_lost_its_place_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
