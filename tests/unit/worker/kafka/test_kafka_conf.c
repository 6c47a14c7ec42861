#include "worker/kafka/kafka_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <librdkafka/rdkafka.h>
#include <stdio.h>
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
        "security.protocol=SSL",
        "sasl.mechanisms=PLAIN",
        "sasl.password=a=b=c",
        "consumer.fetch.min.bytes=10",
        "producer.compression.type=zstd",
        "client.rack=eu-1",
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

/* The properties on which each guarantee depends, under every name that librdkafka accepts. With
 * "-": older versions of librdkafka lack the property. */
static const char *const owned[] = {
    "bootstrap.servers",
    "metadata.broker.list",
    "group.id",
    "group.instance.id",
    "max.poll.interval.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "linger.ms",
    "queue.buffering.max.ms",
    "transactional.id",
    "transaction.timeout.ms",
    "test.mock.num.brokers",
    "test.mock.broker.rtt",
    "enable.auto.commit",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "enable.auto.offset.store",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "auto.offset.reset",
    "isolation.level",
    "enable.partition.eof",
    "partition.assignment.strategy",
    "-group.protocol",
    "group.protocol.type",
    "-group.remote.assignor",
    "allow.auto.create.topics",
    "enable.idempotence",
    "acks",
    "request.required.acks",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "retries",
    "message.send.max.retries",
    "delivery.timeout.ms",
    "message.timeout.ms",
    "enable.gapless.guarantee",
    "queuing.strategy",
    "partitioner",
    "delivery.report.only.error",
    "enabled_events",
    "enable_sasl_queue",
    "log.queue",
};

static bool librdkafka_knows(const char *name)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char reason[256];
    bool known = rd_kafka_conf_set(conf, name, "1", reason, sizeof reason) != RD_KAFKA_CONF_UNKNOWN;
    rd_kafka_conf_destroy(conf);
    return known;
}

static void every_property_that_a_guarantee_rests_on_is_refused(void **state)
{
    (void)state;
    static const char *const sides[] = {"", "consumer.", "producer."};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        const char *name = owned[i] + (owned[i][0] == '-');
        if (owned[i][0] != '-' && !librdkafka_knows(name)) fail_msg("no property %s", name);
        for (size_t k = 0; k < sizeof sides / sizeof *sides; k++) {
            struct mr_error err = {0};
            char text[128];
            snprintf(text, sizeof text, "%s%s=1", sides[k], name);
            if (check(text, &err) != MR_BAD_CONFIG) fail_msg("%s is accepted", text);
            const char *use = strstr(err.detail, "cannot be set; use ");
            if (!use || !strstr(err.detail, name)) fail_msg("%s: %s", text, err.detail);
            assert_true(strstr(use, "use --") || strstr(use, "use nothing: ") ||
                        strstr(use, "use millrace "));
        }
    }
}

static void callbacks_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"dr_cb=1", "consumer.rebalance_cb=1", "log_cb=1",
                                        "socket_cb=1", "opaque=1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(check(names[i], NULL), MR_BAD_CONFIG);
}

static void the_release_that_reconnects_in_a_loop_is_refused(void **state)
{
    (void)state;
    struct mr_error err;
    assert_int_equal(mr_kafka_conf_check_version(0x020a00ff, &err), MR_BAD_CONFIG);
    assert_int_equal(mr_kafka_conf_check_version(0x020002ff, &err), MR_OK);
    assert_int_equal(mr_kafka_conf_check_version(0x020a01ff, &err), MR_OK);
}

static void fetching_ahead_is_bounded_for_all_partitions_together(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 7, 8, 64, 200, 1000, 4096};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct mr_kafka_prefetch prefetch = mr_kafka_conf_prefetch(64 << 20, counts[i]);
        uint64_t each = prefetch.queue_kbytes * UINT64_C(1024) + prefetch.fetch_bytes;
        assert_in_range(each * counts[i], 1 << 20, 64 << 20);
        assert_true(prefetch.fetch_bytes >= 8192 && prefetch.queue_kbytes >= 8);
    }
    struct mr_kafka_prefetch many = mr_kafka_conf_prefetch(64 << 20, 100000);
    assert_int_equal(many.fetch_bytes, 8192);
    assert_int_equal(many.queue_kbytes, 8);
    struct mr_kafka_prefetch one = mr_kafka_conf_prefetch(0, 0);
    assert_int_equal(one.fetch_bytes, 1 << 20);
    assert_int_equal(one.queue_kbytes, 8192);
}

static void assert_most_records_wait(enum mr_kafka_role role, const char *wanted)
{
    const struct mr_kafka_options options = {.brokers = "127.0.0.1:1",
                                             .group = "g",
                                             .client_id = "c",
                                             .session_timeout_ns = 45000000000u,
                                             .poll_interval_max_ns = 60000000000u};
    const struct mr_kafka_options *opaque = &options;
    rd_kafka_conf_t *conf = NULL;
    char value[16];
    size_t size = sizeof value;
    assert_int_equal(mr_kafka_conf_create(&conf, role, &options, (void *)&opaque, NULL), MR_OK);
    assert_int_equal(rd_kafka_conf_get(conf, "queued.min.messages", value, &size),
                     RD_KAFKA_CONF_OK);
    assert_string_equal(value, wanted);
    rd_kafka_conf_destroy(conf);
}

/* The limits of a request's key and headers affect nothing else. A reader that pauses for a second
 * could not keep up with a fast fleet. */
static void few_requests_wait_and_many_records_of_readers(void **state)
{
    (void)state;
    assert_most_records_wait(MR_KAFKA_CONSUMER, rd_kafka_version() < 0x020200ff ? "2000" : "256");
    assert_most_records_wait(MR_KAFKA_READER, "10000");
    assert_most_records_wait(MR_KAFKA_SCANNER, "100000");
}

static void keep_level(void *context, enum mr_log_level level, const char *text)
{
    (void)text;
    *(enum mr_log_level *)context = level;
}

static void a_refused_login_is_a_warning_and_a_lost_connection_is_not(void **state)
{
    (void)state;
    static const struct {
        int code;
        enum mr_log_level level;
    } rows[] = {
        {RD_KAFKA_RESP_ERR__TRANSPORT, MR_LOG_DEBUG},
        {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, MR_LOG_DEBUG},
        {RD_KAFKA_RESP_ERR__AUTHENTICATION, MR_LOG_WARN},
        {RD_KAFKA_RESP_ERR__SSL, MR_LOG_WARN},
        {RD_KAFKA_RESP_ERR__FATAL, MR_LOG_ERROR},
    };
    enum mr_log_level level;
    struct mr_text_list properties = {0};
    const struct mr_kafka_options options = {.brokers = "127.0.0.1:1",
                                             .client_id = "test",
                                             .properties = &properties,
                                             .log = keep_level,
                                             .log_context = &level};
    const struct mr_kafka_options *opaque = &options;
    rd_kafka_conf_t *conf;
    rd_kafka_t *rk;
    assert_int_equal(
        mr_kafka_conf_create(&conf, MR_KAFKA_PRODUCER, &options, (void *)&opaque, NULL), MR_OK);
    rd_kafka_conf_set_log_cb(conf, NULL); /* its threads must not write to level */
    assert_int_equal(mr_kafka_conf_open(&rk, conf, MR_KAFKA_PRODUCER, NULL), MR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mr_kafka_conf_report(rk, rows[i].code, "why", NULL);
        assert_int_equal(level, rows[i].level);
    }
    rd_kafka_destroy(rk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_librdkafka_property_can_be_set),
        cmocka_unit_test(unknown_and_malformed_properties_are_named),
        cmocka_unit_test(every_property_that_a_guarantee_rests_on_is_refused),
        cmocka_unit_test(fetching_ahead_is_bounded_for_all_partitions_together),
        cmocka_unit_test(few_requests_wait_and_many_records_of_readers),
        cmocka_unit_test(callbacks_are_refused),
        cmocka_unit_test(the_release_that_reconnects_in_a_loop_is_refused),
        cmocka_unit_test(a_refused_login_is_a_warning_and_a_lost_connection_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
