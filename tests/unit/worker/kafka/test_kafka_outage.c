#include "worker/kafka/kafka_outage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND_NS ((uint64_t)1000000000)

static void an_outage_and_its_end_are_announced_once_each(void **state)
{
    (void)state;
    struct mr_kafka_outage outage;
    char reason[MR_KAFKA_OUTAGE_REASON_BYTES];
    double seconds;
    mr_kafka_outage_open(&outage);
    mr_kafka_outage_note(&outage, false, "refused", SECOND_NS);
    assert_false(mr_kafka_outage_must_ask(&outage, UINT64_MAX));
    mr_kafka_outage_note(&outage, true, "1/1 brokers are down", SECOND_NS);
    assert_false(mr_kafka_outage_must_ask(&outage, 2 * SECOND_NS - 1));
    assert_true(mr_kafka_outage_must_ask(&outage, 2 * SECOND_NS));
    for (uint64_t second = 2; second < 5; second++) {
        assert_int_equal(
            mr_kafka_outage_answer(&outage, false, second * SECOND_NS, &seconds, reason),
            second == 2 ? MR_KAFKA_OUTAGE_BEGAN : MR_KAFKA_OUTAGE_NONE);
        assert_string_equal(reason, "refused");
        mr_kafka_outage_note(&outage, true, "1/1 brokers are down", second * SECOND_NS);
        assert_false(mr_kafka_outage_must_ask(&outage, second * SECOND_NS + 1));
    }
    assert_int_equal(mr_kafka_outage_answer(&outage, true, 6 * SECOND_NS, &seconds, reason),
                     MR_KAFKA_OUTAGE_ENDED);
    assert_true(seconds == 5.0);
    assert_false(mr_kafka_outage_must_ask(&outage, UINT64_MAX));
    mr_kafka_outage_close(&outage);
}

static void a_connection_that_returns_at_once_is_no_outage(void **state)
{
    (void)state;
    struct mr_kafka_outage outage;
    char reason[MR_KAFKA_OUTAGE_REASON_BYTES];
    double seconds;
    mr_kafka_outage_open(&outage);
    mr_kafka_outage_note(&outage, true, "1/1 brokers are down", SECOND_NS);
    assert_int_equal(mr_kafka_outage_answer(&outage, true, 2 * SECOND_NS, &seconds, reason),
                     MR_KAFKA_OUTAGE_NONE);
    assert_string_equal(reason, "1/1 brokers are down");
    assert_false(mr_kafka_outage_must_ask(&outage, UINT64_MAX));
    mr_kafka_outage_close(&outage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outage_and_its_end_are_announced_once_each),
        cmocka_unit_test(a_connection_that_returns_at_once_is_no_outage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
