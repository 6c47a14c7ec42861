/* Calls in flight: ids, bounds, replacement by a retry, the bytes of answers. */
#include "worker/gateway/exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct mr_wake wake;
    struct mr_exchanges exchanges;
};

static void open_table(struct fixture *fixture, uint32_t count_max, size_t bytes_max)
{
    assert_int_equal(mr_wake_open(&fixture->wake, NULL), MR_OK);
    assert_int_equal(
        mr_exchanges_open(&fixture->exchanges, &fixture->wake, count_max, bytes_max, NULL), MR_OK);
}

static void close_table(struct fixture *fixture)
{
    mr_exchanges_close(&fixture->exchanges);
    mr_wake_close(&fixture->wake);
}

static struct mr_exchange *make(struct fixture *fixture, const char *id, const char *record)
{
    struct mr_exchange *exchange = mr_exchange_create(&fixture->exchanges, NULL);
    assert_non_null(exchange);
    snprintf(exchange->id, sizeof exchange->id, "%s", id);
    exchange->topic = "t";
    exchange->record = strdup(record);
    exchange->record_length = strlen(record);
    return exchange;
}

/* Takes the posted exchanges and drops them, as the Kafka thread does. */
static unsigned take_all(struct fixture *fixture)
{
    unsigned count = 0;
    struct mr_exchange *exchange;
    while ((exchange = mr_exchanges_take(&fixture->exchanges))) {
        if (exchange->is_replaced) mr_exchanges_remove(&fixture->exchanges, exchange);
        mr_exchange_drop(&fixture->exchanges, exchange);
        count++;
    }
    return count;
}

static void an_id_in_flight_is_refused_unless_its_client_left(void **state)
{
    (void)state;
    struct fixture fixture;
    open_table(&fixture, 8, 1000);
    struct mr_exchange *first = make(&fixture, "a", "same");
    struct mr_exchange *other = make(&fixture, "a", "other");
    struct mr_exchange *again = make(&fixture, "a", "same");
    assert_int_equal(mr_exchanges_add(&fixture.exchanges, first), MR_EXCHANGE_ADDED);
    assert_int_equal(mr_exchanges_add(&fixture.exchanges, again), MR_EXCHANGE_SAME_ID);
    first->is_left = true;
    assert_int_equal(mr_exchanges_add(&fixture.exchanges, other), MR_EXCHANGE_SAME_ID);
    assert_int_equal(mr_exchanges_add(&fixture.exchanges, again), MR_EXCHANGE_ADDED);
    assert_ptr_equal(mr_exchanges_find(&fixture.exchanges, (struct mr_text){"a", 1}), again);
    assert_int_equal(take_all(&fixture), 2);
    mr_exchanges_remove(&fixture.exchanges, again);
    mr_exchange_drop(&fixture.exchanges, first);
    mr_exchange_drop(&fixture.exchanges, other);
    mr_exchange_drop(&fixture.exchanges, again);
    close_table(&fixture);
}

static void calls_and_bytes_are_bounded(void **state)
{
    (void)state;
    struct fixture fixture;
    open_table(&fixture, 1, 10);
    struct mr_exchange *a = make(&fixture, "a", "x"), *b = make(&fixture, "b", "x");
    assert_int_equal(mr_exchanges_add(&fixture.exchanges, a), MR_EXCHANGE_ADDED);
    assert_int_equal(mr_exchanges_add(&fixture.exchanges, b), MR_EXCHANGE_FULL);
    assert_true(mr_exchange_add_body(&fixture.exchanges, a, (struct mr_text){"12345", 5}));
    assert_true(mr_exchange_append(&fixture.exchanges, a, (struct mr_text){"12345", 5}));
    assert_false(mr_exchange_append(&fixture.exchanges, a, (struct mr_text){"6", 1}));
    assert_false(mr_exchange_add_body(&fixture.exchanges, b, (struct mr_text){"6", 1}));
    a->out_read = 3; /* read bytes make room */
    assert_true(mr_exchange_append(&fixture.exchanges, a, (struct mr_text){"678", 3}));
    assert_memory_equal(a->out.bytes, "45678", 5);
    assert_int_equal(take_all(&fixture), 1);
    mr_exchanges_remove(&fixture.exchanges, a);
    mr_exchanges_remove(&fixture.exchanges, a); /* does nothing */
    mr_exchange_drop(&fixture.exchanges, a);
    mr_exchange_drop(&fixture.exchanges, b);
    close_table(&fixture);
}

static void a_connection_is_resumed_once(void **state)
{
    (void)state;
    struct fixture fixture;
    struct mr_exchange_resumes resumes = {0};
    open_table(&fixture, 1, 10);
    struct mr_exchange *exchange = make(&fixture, "a", "x");
    mr_exchange_rouse(&resumes, exchange);
    assert_null(resumes.first);
    exchange->suspended = true;
    mr_exchange_rouse(&resumes, exchange);
    mr_exchange_rouse(&resumes, exchange);
    assert_ptr_equal(resumes.first, exchange);
    assert_null(exchange->next_resume);
    mr_exchange_drop(&fixture.exchanges, exchange);
    close_table(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_in_flight_is_refused_unless_its_client_left),
        cmocka_unit_test(calls_and_bytes_are_bounded),
        cmocka_unit_test(a_connection_is_resumed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
