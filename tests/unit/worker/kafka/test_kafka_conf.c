#include "worker/kafka/kafka_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static enum mr_status check(const char *text, struct mr_error *err)
{
    struct mr_text_list list = {.values = {text}, .count = 1};
    struct mr_kafka_options options = {.properties = &list};
    return mr_kafka_conf_check(&options, err);
}

static void every_librdkafka_property_can_be_set(void **state)
{
    (void)state;
    static const char *const good[] = {
        "security.protocol=SSL", "sasl.mechanisms=PLAIN",
        "sasl.password=a=b=c",   "consumer.fetch.min.bytes=10",
        "producer.acks=all",     "client.rack=eu-1",
        "sasl.username=",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(check(good[i], NULL), MR_OK);
}

static void unknown_and_malformed_properties_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {"no.such.property=1", "=x", "acks", "fetch.min.bytes=lots",
                                      "security.protocol=maybe"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mr_error err = {0};
        assert_int_equal(check(bad[i], &err), MR_BAD_CONFIG);
        assert_true(strlen(err.detail) > 0);
    }
}

static void properties_that_would_break_delivery_are_refused(void **state)
{
    (void)state;
    static const char *const owned[] = {
        "enable.auto.commit=true",       "group.id=x",         "bootstrap.servers=a:1",
        "enable.idempotence=false",      "transactional.id=t", "test.mock.num.brokers=1",
        "enable.auto.offset.store=true", "linger.ms=100",      "consumer.enable.auto.commit=true"};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        struct mr_error err = {0};
        assert_int_equal(check(owned[i], &err), MR_BAD_CONFIG);
        assert_non_null(strstr(err.detail, "cannot be set"));
    }
}

static void the_release_that_reconnects_in_a_loop_is_refused(void **state)
{
    (void)state;
    struct mr_error err;
    assert_int_equal(mr_kafka_conf_check_version(0x020a00ff, &err), MR_BAD_CONFIG);
    assert_int_equal(mr_kafka_conf_check_version(0x020002ff, &err), MR_OK);
    assert_int_equal(mr_kafka_conf_check_version(0x020a01ff, &err), MR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_librdkafka_property_can_be_set),
        cmocka_unit_test(unknown_and_malformed_properties_are_named),
        cmocka_unit_test(properties_that_would_break_delivery_are_refused),
        cmocka_unit_test(the_release_that_reconnects_in_a_loop_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
