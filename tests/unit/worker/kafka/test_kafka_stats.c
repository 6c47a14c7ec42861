#include "worker/kafka/kafka_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct mr_kafka_stats *make(void)
{
    struct mr_kafka_stats *stats = NULL;
    assert_int_equal(mr_kafka_stats_create(&stats, NULL), MR_OK);
    return stats;
}

static void read_text(struct mr_kafka_stats *stats, enum mr_kafka_stats_client client,
                      const char *json)
{
    mr_kafka_stats_read(stats, client, (struct mr_text){json, strlen(json)});
}

/* Asserts that the page has the line, or not. */
static void assert_line(struct mr_kafka_stats *stats, const char *line, bool there)
{
    char whole[256], *page = strdup("a 1\n");
    size_t length = 4;
    assert_int_equal(mr_kafka_stats_append(stats, &page, &length, NULL), MR_OK);
    assert_int_equal(strlen(page), length);
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if ((strstr(page, whole) != NULL) != there) fail_msg("%s in %s", line, page);
    free(page);
}

static const char two_brokers[] =
    "{\"msg_cnt\":3,\"msg_size\":400,\"brokers\":{"
    "\"GroupCoordinator\":{\"nodeid\":-1,\"state\":\"UP\",\"txretries\":1,\"disconnects\":2},"
    "\"a:9092/1\":{\"nodeid\":1,\"state\":\"UP\",\"outbuf_cnt\":4,\"waitresp_cnt\":5,\"txerrs\":6,"
    "\"rxerrs\":7,\"txretries\":8,\"req_timeouts\":9,\"rtt\":{\"avg\":2500}},"
    "\"b\\\"q/2\":{\"nodeid\":2,\"state\":\"DOWN\",\"outbuf_cnt\":10,\"rtt\":{\"avg\":0}}},"
    "\"topics\":{\"t\":{\"partitions\":{\"0\":{\"fetchq_cnt\":20,\"fetchq_size\":2000},"
    "\"-1\":{\"fetchq_cnt\":1,\"fetchq_size\":10}}}},\"ts\":1.5e12}";

static void sums_and_brokers_are_metrics(void **state)
{
    (void)state;
    struct mr_kafka_stats *stats = make();
    read_text(stats, MR_KAFKA_STATS_CONSUMER, two_brokers);
#define A "{client=\"consumer\",broker=\"a:9092/1\"}"
#define B "{client=\"consumer\",broker=\"b\\\"q/2\"}"
    assert_line(stats, "millrace_kafka_broker_connected" A " 1", true);
    assert_line(stats, "millrace_kafka_broker_connected" B " 0", true);
    assert_line(stats, "millrace_kafka_broker_round_trip_seconds" A " 0.0025000000000000001", true);
    assert_line(stats, "millrace_kafka_requests_queued{client=\"consumer\"} 14", true);
    assert_line(stats, "millrace_kafka_requests_in_flight{client=\"consumer\"} 5", true);
    assert_line(stats, "millrace_kafka_queue_messages{client=\"consumer\"} 24", true);
    assert_line(stats, "millrace_kafka_queue_bytes{client=\"consumer\"} 2410", true);
    assert_line(stats, "millrace_kafka_request_retries_total{client=\"consumer\"} 9", true);
    assert_line(stats, "millrace_kafka_request_errors_total{client=\"consumer\"} 13", true);
    assert_line(stats, "millrace_kafka_request_timeouts_total{client=\"consumer\"} 9", true);
    assert_line(stats, "millrace_kafka_disconnects_total{client=\"consumer\"} 2", true);
    mr_kafka_stats_destroy(stats);
}

static void a_client_that_said_nothing_has_heads_and_no_samples(void **state)
{
    (void)state;
    struct mr_kafka_stats *stats = make();
    read_text(stats, MR_KAFKA_STATS_PRODUCER, "{}");
    assert_line(stats, "millrace_kafka_queue_bytes{client=\"producer\"} 0", true);
    assert_line(stats, "millrace_kafka_queue_bytes{client=\"consumer\"} 0", false);
    assert_line(stats, "# TYPE millrace_kafka_disconnects_total counter", true);
    mr_kafka_stats_destroy(stats);
}

static void a_later_document_replaces_the_one_before(void **state)
{
    (void)state;
    struct mr_kafka_stats *stats = make();
    read_text(stats, MR_KAFKA_STATS_CONSUMER, two_brokers);
    read_text(stats, MR_KAFKA_STATS_CONSUMER, "{\"msg_cnt\":1}");
    assert_line(stats, "millrace_kafka_queue_messages{client=\"consumer\"} 1", true);
    assert_line(stats, "millrace_kafka_broker_connected" A " 1", false);
    mr_kafka_stats_destroy(stats);
}

static void what_is_no_such_document_changes_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[]", "{\"brokers\":[1],\"topics\":7}",
                                        "{\"brokers\":{\"x\":3},\"topics\":{\"t\":null}}"};
    struct mr_kafka_stats *stats = make();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        read_text(stats, MR_KAFKA_STATS_TRANSACTIONS, texts[i]);
    assert_line(stats, "millrace_kafka_requests_queued{client=\"transactions\"} 0", true);
    mr_kafka_stats_read(NULL, MR_KAFKA_STATS_CONSUMER, (struct mr_text){"{}", 2});
    mr_kafka_stats_destroy(stats);
    mr_kafka_stats_destroy(NULL);
}

static void brokers_beyond_the_bound_are_not_shown(void **state)
{
    (void)state;
    char *json = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&json, &length);
    fputs("{\"brokers\":{", out);
    for (unsigned i = 0; i < MR_KAFKA_BROKERS_MAX + 3; i++)
        fprintf(out, "%s\"h:1/%u\":{\"nodeid\":%u,\"outbuf_cnt\":1}", i ? "," : "", i, i);
    fputs("}}", out);
    fclose(out);
    struct mr_kafka_stats *stats = make();
    read_text(stats, MR_KAFKA_STATS_CONSUMER, json);
    free(json);
    assert_line(stats, "millrace_kafka_requests_queued{client=\"consumer\"} 67", true);
    assert_line(stats, "millrace_kafka_broker_connected{client=\"consumer\",broker=\"h:1/63\"} 0",
                true);
    assert_line(stats, "millrace_kafka_broker_connected{client=\"consumer\",broker=\"h:1/64\"} 0",
                false);
    mr_kafka_stats_destroy(stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_brokers_are_metrics),
        cmocka_unit_test(a_client_that_said_nothing_has_heads_and_no_samples),
        cmocka_unit_test(a_later_document_replaces_the_one_before),
        cmocka_unit_test(what_is_no_such_document_changes_nothing),
        cmocka_unit_test(brokers_beyond_the_bound_are_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
