#include "worker/kafka/kafka_admin.h"

#include "tests/unit/worker/broker.h"

#include <string.h>

static void the_embedded_broker_is_recognised(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    struct mr_kafka_admin *admin = NULL;
    bool embedded = false;
    assert_int_equal(mr_kafka_admin_open(&admin, &broker.kafka, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_probe(admin, 5000, &embedded, NULL), MR_OK);
    assert_true(embedded);
    mr_kafka_admin_close(admin);
    close_broker(&broker);
}

static void an_address_without_a_server_is_unreachable(void **state)
{
    (void)state;
    struct mr_kafka_options options = {.brokers = "127.0.0.1:1", .client_id = "test"};
    struct mr_kafka_admin *admin = NULL;
    struct mr_error err = {0};
    bool embedded = false;
    assert_int_equal(mr_kafka_admin_open(&admin, &options, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_probe(admin, 200, &embedded, &err), MR_UNREACHABLE);
    assert_non_null(strstr(err.detail, "127.0.0.1:1"));
    mr_kafka_admin_close(admin);
}

static void a_missing_topic_is_detected_and_created(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    add_topic(&broker, "there", 3);
    struct mr_kafka_admin *admin = NULL;
    uint32_t count = 99;
    bool embedded = false;
    assert_int_equal(mr_kafka_admin_open(&admin, &broker.kafka, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_probe(admin, 5000, &embedded, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_partitions(admin, "there", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(mr_kafka_admin_partitions(admin, "missing", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(mr_kafka_admin_ensure(admin, "there", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(mr_kafka_admin_ensure(admin, "missing", 5000, &count, NULL), MR_OK);
    assert_int_equal(count, 4);
    mr_kafka_admin_close(admin);
    close_broker(&broker);
}

static void the_embedded_broker_knows_no_group_state_and_no_times(void **state)
{
    (void)state;
    struct broker broker;
    open_broker(&broker);
    add_topic(&broker, "there", 3);
    struct mr_kafka_admin *admin = NULL;
    struct mr_kafka_group group = {.members = 7, .has_instance = true};
    struct mr_kafka_since since = {"there", 3, 1};
    bool embedded = false, found = true;
    assert_int_equal(mr_kafka_admin_open(&admin, &broker.kafka, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_probe(admin, 5000, &embedded, NULL), MR_OK);
    assert_int_equal(mr_kafka_admin_group(admin, "g", "i", 5000, &group, NULL), MR_OK);
    assert_string_equal(group.state, "");
    assert_true(!group.is_known && group.members == 0 && !group.has_instance);
    assert_int_equal(mr_kafka_admin_has_since(admin, &since, 5000, &found, NULL), MR_OK);
    assert_false(found);
    mr_kafka_admin_close(admin);
    close_broker(&broker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_embedded_broker_is_recognised),
        cmocka_unit_test(an_address_without_a_server_is_unreachable),
        cmocka_unit_test(a_missing_topic_is_detected_and_created),
        cmocka_unit_test(the_embedded_broker_knows_no_group_state_and_no_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
