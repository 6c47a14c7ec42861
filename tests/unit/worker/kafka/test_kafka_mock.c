#include "worker/kafka/kafka_mock.h"

#include "tests/unit/worker/broker.h"

#include <string.h>

static void each_broker_of_the_cluster_has_a_local_address(void **state)
{
    (void)state;
    struct mr_kafka_mock *mock = NULL;
    assert_int_equal(mr_kafka_mock_create(&mock, 2, NULL), MR_OK);
    const char *bootstrap = mr_kafka_mock_bootstrap(mock);
    const char *comma = strchr(bootstrap, ',');
    assert_non_null(comma);
    assert_int_equal(strncmp(bootstrap, "127.0.0.1:", 10), 0);
    assert_int_equal(strncmp(comma + 1, "127.0.0.1:", 10), 0);
    mr_kafka_mock_destroy(mock);
}

static void a_topic_may_be_created_twice_but_needs_a_partition(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_error err = {0};
    open_broker(&broker);
    assert_int_equal(mr_kafka_mock_topic(broker.mock, "t", 2, &err), MR_OK);
    assert_int_equal(mr_kafka_mock_topic(broker.mock, "t", 2, &err), MR_OK);
    assert_int_equal(mr_kafka_mock_topic(broker.mock, "u", 0, &err), MR_BAD_CONFIG);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_broker_of_the_cluster_has_a_local_address),
        cmocka_unit_test(a_topic_may_be_created_twice_but_needs_a_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
