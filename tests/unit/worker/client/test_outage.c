#include "worker/client/outage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct watching {
    struct mr_outage outage;
    struct mr_kafka_options kafka;
    char *text;
    size_t length;
};

static void begin(struct watching *watching)
{
    *watching = (struct watching){0};
    mr_outage_init(&watching->outage, open_memstream(&watching->text, &watching->length));
    assert_non_null(watching->outage.out);
    mr_outage_watch(&watching->outage, &watching->kafka);
}

static void fail_with(struct watching *watching, bool unreachable, const char *reason)
{
    watching->kafka.failed(watching->kafka.log_context, unreachable, reason);
}

static void assert_printed(struct watching *watching, const char *want)
{
    fflush(watching->outage.out);
    assert_string_equal(watching->text, want);
}

static void end(struct watching *watching)
{
    fclose(watching->outage.out);
    free(watching->text);
}

#define AWAY "millrace: broker away: refused; waiting\n"
#define BACK "millrace: the broker is back\n"

static void an_outage_and_its_end_are_a_line_each(void **state)
{
    (void)state;
    struct watching watching;
    begin(&watching);
    fail_with(&watching, false, "refused");
    assert_false(mr_outage_must_ask(&watching.outage, UINT64_MAX));
    fail_with(&watching, true, "1/1 brokers are down");
    assert_false(mr_outage_must_ask(&watching.outage, 0));
    assert_true(mr_outage_must_ask(&watching.outage, UINT64_MAX));
    for (uint64_t second = 1; second < 5; second++) {
        mr_outage_answer(&watching.outage, false, second * 1000000000);
        fail_with(&watching, true, "1/1 brokers are down");
        assert_printed(&watching, AWAY);
    }
    mr_outage_answer(&watching.outage, true, 5000000000);
    assert_printed(&watching, AWAY BACK);
    assert_false(mr_outage_must_ask(&watching.outage, UINT64_MAX));
    end(&watching);
}

static void a_connection_that_returns_at_once_is_no_outage(void **state)
{
    (void)state;
    struct watching watching;
    begin(&watching);
    fail_with(&watching, true, "1/1 brokers are down");
    mr_outage_answer(&watching.outage, true, 1000000000);
    assert_printed(&watching, "");
    end(&watching);
}

static void the_log_of_librdkafka_is_printed_only_when_asked_for(void **state)
{
    (void)state;
    struct watching watching;
    const struct mr_text_list properties = {{"debug=all"}, 1};
    begin(&watching);
    assert_null(watching.kafka.log);
    watching.kafka.properties = &properties;
    mr_outage_watch(&watching.outage, &watching.kafka);
    watching.kafka.log(watching.kafka.log_context, MR_LOG_DEBUG, "a line");
    assert_printed(&watching, "a line\n");
    end(&watching);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outage_and_its_end_are_a_line_each),
        cmocka_unit_test(a_connection_that_returns_at_once_is_no_outage),
        cmocka_unit_test(the_log_of_librdkafka_is_printed_only_when_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
