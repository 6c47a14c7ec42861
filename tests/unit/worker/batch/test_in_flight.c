/* The lines of a batch that are in flight. */
#include "worker/batch/in_flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void entries_are_found_by_line_and_leave_nothing(void **state)
{
    (void)state;
    struct mr_batch_flight flight;
    assert_true(mr_batch_flight_create(&flight, 16));
    for (uint64_t line = 1; line <= 100; line++) {
        struct mr_batch_flight_entry *entry = mr_batch_flight_add(&flight, line);
        assert_non_null(entry);
        assert_true(mr_batch_flight_load(&flight, entry, (struct mr_text){"text", 4}));
        if (line % 3 == 0) mr_batch_flight_wait(&flight, entry, line);
    }
    assert_int_equal(flight.count, 100);
    assert_int_equal(flight.bytes, 400);
    mr_batch_flight_check(&flight);
    for (uint64_t line = 1; line <= 100; line += 2) {
        struct mr_batch_flight_entry *entry = mr_batch_flight_find(&flight, line);
        assert_int_equal(entry->line, line);
        mr_batch_flight_remove(&flight, entry);
        assert_null(mr_batch_flight_find(&flight, line));
        mr_batch_flight_check(&flight);
    }
    size_t waiting = 0;
    for (struct mr_batch_flight_entry *entry = flight.waiting; entry; entry = entry->next)
        waiting++;
    assert_int_equal(waiting, 16); /* the even multiples of 3 */
    while (flight.waiting)
        mr_batch_flight_wait(&flight, flight.waiting, 0);
    mr_batch_flight_check(&flight);
    mr_batch_flight_destroy(&flight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_by_line_and_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
