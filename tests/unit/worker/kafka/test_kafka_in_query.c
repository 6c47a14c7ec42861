/* The query for committed offsets (worker/kafka/kafka_in_rebalance.c). */
#include "tests/unit/worker/kafka/consuming.h"

#define API_OFFSET_FETCH 9

/* The owner has other partitions, and a poll deadline. */
static void a_coordinator_that_is_slow_does_not_block_the_owner(void **state)
{
    (void)state;
    struct broker broker;
    struct consuming consuming;
    static const struct mr_kafka_consumer_topic topics[] = {{"requests", 1}};
    uint64_t longest_ns = 0;
    unsigned calls = 0;
    open_broker(&broker);
    add_topic(&broker, "requests", 1);
    mr_kafka_mock_delay(broker.mock, 1, API_OFFSET_FETCH, 0, 2000);
    open_consuming(&consuming, &broker, topics, 1, true);
    while (!consuming.held[0]) {
        const uint64_t begun_ns = mr_clock_ns();
        assert_int_equal(serve(&consuming, NULL), MR_OK);
        const uint64_t took_ns = mr_clock_ns() - begun_ns;
        if (took_ns > longest_ns) longest_ns = took_ns;
        calls++;
        mr_wake_wait(&consuming.wake, 50000000u);
    }
    assert_true(longest_ns < 1000000000u && calls > 20);
    close_consuming(&consuming);
    close_broker(&broker);
}

static void a_consumer_closes_while_its_coordinator_is_slow(void **state)
{
    (void)state;
    struct broker broker;
    struct consuming consuming;
    static const struct mr_kafka_consumer_topic topics[] = {{"requests", 1}};
    open_broker(&broker);
    add_topic(&broker, "requests", 1);
    mr_kafka_mock_delay(broker.mock, 1, API_OFFSET_FETCH, 0, 1500);
    open_consuming(&consuming, &broker, topics, 1, true);
    for (uint64_t until_ns = mr_clock_ns() + 4000000000u;
         mr_clock_ns() < until_ns && !consuming.held[0];) {
        assert_int_equal(serve(&consuming, NULL), MR_OK);
        mr_wake_wait(&consuming.wake, 50000000u);
    }
    close_consuming(&consuming);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_coordinator_that_is_slow_does_not_block_the_owner),
        cmocka_unit_test(a_consumer_closes_while_its_coordinator_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
