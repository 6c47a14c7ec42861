#include "worker/intake/flight.h"

#include "worker/offsets/partition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_flight_limits limits = {8, 64, 2, {8, (size_t)1 << 20}};

static void parked_tickets_come_back_in_order(void **state)
{
    (void)state;
    struct mr_flight flight;
    struct mr_ticket tickets[3] = {{.id = "a"}, {.id = "b"}, {.id = "c"}};
    assert_int_equal(mr_flight_open(&flight, &limits, NULL), MR_OK);
    for (int i = 0; i < 3; i++)
        mr_flight_park(&flight, &tickets[i]);
    assert_null(mr_flight_unpark(&flight, 0, (struct mr_text){"d", 1}));
    assert_ptr_equal(mr_flight_unpark(&flight, 0, (struct mr_text){"b", 1}), &tickets[1]);
    assert_int_equal(flight.parked_count, 2);
    flight.retry_parked = true;
    assert_ptr_equal(mr_flight_unpark_all(&flight), &tickets[0]);
    assert_ptr_equal(tickets[0].intake.next, &tickets[2]);
    assert_null(tickets[2].intake.next);
    for (int last = 2; last >= 0; last--) { /* the list ends in a different one each time */
        for (int i = 0; i < 3; i++)
            mr_flight_park(&flight, &tickets[i]);
        for (int i = 2; i >= last; i--)
            assert_ptr_equal(mr_flight_unpark(&flight, 0, mr_ticket_id(&tickets[i])), &tickets[i]);
        mr_flight_park(&flight, &tickets[2]);
        assert_ptr_equal(mr_flight_unpark_all(&flight), &tickets[last == 0 ? 2 : 0]);
        assert_null(tickets[2].intake.next);
    }
    assert_int_equal(flight.parked_count, 0);
    assert_false(flight.retry_parked);
    mr_flight_close(&flight);
}

static void suspects_are_counted_while_they_are_submitted(void **state)
{
    (void)state;
    struct mr_flight flight;
    struct mr_ticket suspect = {.id = "a", .intake = {.start = {.crashes = 2}}},
                     other = {.id = "b"};
    assert_int_equal(mr_flight_open(&flight, &limits, NULL), MR_OK);
    assert_true(mr_flight_is_suspect(&flight, &suspect));
    assert_false(mr_flight_is_suspect(&flight, &other));
    struct mr_ticket once = {.intake = {.start = {.crashes = 1, .crashed_alone = true}}};
    struct mr_ticket poison = {.intake = {.start = {.crashes = 2, .crashed_alone = true}}};
    assert_false(mr_flight_is_suspect(&flight, &once));
    assert_false(mr_flight_is_poison(&flight, &once));
    assert_false(mr_flight_is_suspect(&flight, &poison));
    assert_true(mr_flight_is_poison(&flight, &poison));
    assert_false(mr_flight_is_poison(&flight, &suspect));
    mr_flight_submit(&flight, &suspect);
    mr_flight_submit(&flight, &other);
    assert_int_equal(flight.suspects, 1);
    mr_flight_withdraw(&flight, &suspect);
    mr_flight_withdraw(&flight, &suspect); /* nothing: it is not submitted */
    mr_flight_withdraw(&flight, &other);
    assert_int_equal(flight.suspects, 0);
    mr_flight_close(&flight);
}

static void waiting_suspects_leave_room_for_healthy_requests(void **state)
{
    (void)state;
    struct mr_flight flight;
    static struct mr_ticket suspects[MR_FLIGHT_PARKED_MAX], healthy[MR_FLIGHT_PARKED_MAX];
    assert_int_equal(mr_flight_open(&flight, &limits, NULL), MR_OK);
    for (size_t i = 0; i < MR_FLIGHT_PARKED_MAX; i++) {
        suspects[i] = (struct mr_ticket){.id = "a", .intake = {.start = {.crashes = 2}}};
        healthy[i] = (struct mr_ticket){.id = "b"};
        mr_flight_park(&flight, &suspects[i]);
    }
    for (size_t i = 0; i < MR_FLIGHT_PARKED_MAX; i++) {
        assert_false(mr_flight_is_full(&flight));
        mr_flight_park(&flight, &healthy[i]);
    }
    assert_true(mr_flight_is_full(&flight));
    suspects[0].intake.start.crashed_alone = true; /* Redis has answered meanwhile */
    for (size_t i = 0; i < MR_FLIGHT_PARKED_MAX; i++)
        assert_ptr_equal(mr_flight_unpark(&flight, 0, (struct mr_text){"a", 1}), &suspects[i]);
    assert_int_equal(flight.parked_uncounted, 0);
    assert_true(mr_flight_is_full(&flight));
    mr_flight_unpark(&flight, 0, (struct mr_text){"b", 1});
    assert_false(mr_flight_is_full(&flight));
    mr_flight_close(&flight);
}

static void it_is_full_by_tickets_and_by_parked_ones(void **state)
{
    (void)state;
    struct mr_flight flight;
    assert_int_equal(mr_flight_open(&flight, &limits, NULL), MR_OK);
    flight.count = 7;
    assert_false(mr_flight_is_full(&flight));
    flight.count = 8;
    assert_true(mr_flight_is_full(&flight));
    flight.count = 0;
    flight.parked_count = MR_FLIGHT_PARKED_MAX;
    assert_true(mr_flight_is_full(&flight));
    mr_flight_close(&flight);
}

static struct mr_partition partition; /* in epoch 0 */

static struct mr_ticket ticket_of(const char *id, uint32_t tenant_index, unsigned char digest)
{
    struct mr_ticket ticket = {.tenant_index = tenant_index,
                               .identity = {.bytes = {digest}},
                               .intake = {.partition = &partition}};
    snprintf(ticket.id, sizeof ticket.id, "%s", id);
    return ticket;
}

/* With one of them running, and with all of them waiting for Redis. */
static void of_one_id_one_runs_and_sixteen_wait(void **state)
{
    (void)state;
    static struct mr_ticket first[MR_FLIGHT_SAME_ID_MAX + 1];
    for (int submitted = 0; submitted < 2; submitted++) {
        struct mr_flight flight;
        assert_int_equal(mr_flight_open(&flight, &limits, NULL), MR_OK);
        for (unsigned char i = 0; i <= MR_FLIGHT_SAME_ID_MAX; i++) {
            first[i] = ticket_of("a", 0, i);
            assert_true(mr_flight_may_wait(&flight, &first[i]));
            assert_false(first[i].intake.copy);
            if (submitted && i == 0)
                mr_flight_submit(&flight, &first[i]);
            else
                mr_flight_park(&flight, &first[i]);
        }
        struct mr_ticket more = ticket_of("a", 0, 99), other_id = ticket_of("b", 0, 99),
                         other_tenant = ticket_of("a", 1, 99);
        assert_false(mr_flight_may_wait(&flight, &more));
        assert_true(mr_flight_may_wait(&flight, &other_id));
        assert_true(mr_flight_may_wait(&flight, &other_tenant));
        for (unsigned char i = 0; i <= MR_FLIGHT_SAME_ID_MAX; i++) {
            struct mr_ticket again = ticket_of("a", 0, i);
            assert_true(mr_flight_may_wait(&flight, &again));
            assert_true(again.intake.copy);
        }
        if (submitted) {
            atomic_store(&first[0].dropped, true);
            assert_true(mr_flight_may_wait(&flight, &more));
        }
        mr_flight_withdraw(&flight, &first[0]);
        mr_flight_close(&flight);
    }
}

static void a_request_whose_partition_was_lost_has_no_claim(void **state)
{
    (void)state;
    static struct mr_ticket lost[MR_FLIGHT_SAME_ID_MAX + 1];
    struct mr_partition other = {.epoch = 1}; /* the records were taken in epoch 0 */
    struct mr_flight flight;
    struct mr_ticket again = ticket_of("a", 0, 0), more = ticket_of("a", 0, 99);
    assert_int_equal(mr_flight_open(&flight, &limits, NULL), MR_OK);
    for (unsigned char i = 0; i <= MR_FLIGHT_SAME_ID_MAX; i++) {
        lost[i] = ticket_of("a", 0, i);
        lost[i].intake.partition = &other;
        mr_flight_park(&flight, &lost[i]);
    }
    assert_false(mr_partition_is_current(&lost[0]));
    assert_true(mr_partition_is_current(&again));
    assert_true(mr_flight_may_wait(&flight, &more));
    assert_int_equal(mr_flight_claim(&flight, &more, 0), MR_CLAIM_FREE);
    mr_flight_park(&flight, &again);
    assert_int_equal(mr_flight_claim(&flight, &more, 0), MR_CLAIM_IN_FLIGHT);
    mr_flight_close(&flight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parked_tickets_come_back_in_order),
        cmocka_unit_test(suspects_are_counted_while_they_are_submitted),
        cmocka_unit_test(waiting_suspects_leave_room_for_healthy_requests),
        cmocka_unit_test(it_is_full_by_tickets_and_by_parked_ones),
        cmocka_unit_test(of_one_id_one_runs_and_sixteen_wait),
        cmocka_unit_test(a_request_whose_partition_was_lost_has_no_claim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
