#include "worker/top/top_fleet.h"

#include "worker/http/http.h"

#include "tests/unit/worker/broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mr_config nothing = {.brokers = "", .group = "g", .http_port = 9464};

static void workers_are_those_of_the_command_line_or_of_this_machine(void **state)
{
    (void)state;
    struct mr_top_fleet fleet;
    struct mr_config config = nothing;
    const char *arguments[] = {"a:1", "b:2"};
    assert_int_equal(mr_top_fleet_open(&fleet, &config, 1000, NULL), MR_OK);
    assert_int_equal(fleet.count, 1);
    assert_string_equal(fleet.workers[0].address, "127.0.0.1:9464");
    mr_top_fleet_close(&fleet);
    config.brokers = "nobody:1"; /* Kafka is not queried, because there are addresses */
    config.arguments = arguments;
    config.argument_count = 2;
    assert_int_equal(mr_top_fleet_open(&fleet, &config, 1000, NULL), MR_OK);
    assert_int_equal(fleet.count, 2);
    assert_string_equal(fleet.workers[1].address, "b:2");
    mr_top_fleet_close(&fleet);
    config.argument_count = MR_TOP_WORKERS_MAX + 1;
    assert_int_equal(mr_top_fleet_open(&fleet, &config, 1000, NULL), MR_BAD_CONFIG);
    mr_top_fleet_close(&fleet);
}

static void the_embedded_broker_knows_no_workers(void **state)
{
    (void)state;
    struct broker broker;
    struct mr_top_fleet fleet;
    struct mr_config config = nothing;
    struct mr_error err = {0};
    open_broker(&broker);
    config.brokers = broker.kafka.brokers;
    assert_int_equal(mr_top_fleet_open(&fleet, &config, 5000, &err), MR_BAD_CONFIG);
    assert_non_null(strstr(err.detail, "name the workers' --http addresses"));
    mr_top_fleet_close(&fleet);
    close_broker(&broker);
}

static void answer(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    unsigned *asked = context;
    char text[64];
    assert_int_equal(page, MR_HTTP_METRICS);
    snprintf(text, sizeof text, "millrace_generation_tokens_total %u\n", 100 * ++*asked);
    reply->body = strdup(text);
    reply->length = strlen(text);
}

static void rates_come_from_the_last_two_pages(void **state)
{
    (void)state;
    struct mr_http *http;
    unsigned asked = 0;
    char address[32];
    const char *arguments[] = {address, "127.0.0.1:1"};
    struct mr_config config = nothing;
    struct mr_top_fleet fleet;
    struct mr_top_row row;
    assert_int_equal(mr_http_start(&http, "127.0.0.1:0", answer, &asked, NULL), MR_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", mr_http_port(http));
    config.arguments = arguments;
    config.argument_count = 2;
    assert_int_equal(mr_top_fleet_open(&fleet, &config, 1000, NULL), MR_OK);
    assert_true(mr_top_fleet_refresh(&fleet));
    assert_null(fleet.workers[0].before);
    assert_true(mr_top_fleet_refresh(&fleet));
    fleet.workers[0].now_ns = fleet.workers[0].before_ns + 2000000000;
    mr_top_fleet_row(&fleet.workers[0], "", &row);
    for (size_t i = 0; i < MR_TOP_COLUMNS; i++)
        if (strcmp(mr_top_columns[i].name, "TOK/s") == 0) assert_true(row.values[i] == 50);
    assert_null(fleet.workers[1].now);
    assert_true(fleet.workers[1].error[0]);
    mr_http_stop(http);
    assert_false(mr_top_fleet_refresh(&fleet));
    mr_top_fleet_close(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_those_of_the_command_line_or_of_this_machine),
        cmocka_unit_test(the_embedded_broker_knows_no_workers),
        cmocka_unit_test(rates_come_from_the_last_two_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
