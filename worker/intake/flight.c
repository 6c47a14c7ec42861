#include "worker/intake/flight.h"

enum mr_status mr_flight_open(struct mr_flight *flight, uint32_t count_max, uint32_t attempts_max,
                              struct mr_error *err)
{
    *flight = (struct mr_flight){.count_max = count_max, .attempts_max = attempts_max};
    return mr_ticket_table_create(&flight->submitted, count_max, err);
}

void mr_flight_close(struct mr_flight *flight)
{
    mr_ticket_table_destroy(flight->submitted);
    flight->submitted = NULL;
}

bool mr_flight_is_full(const struct mr_flight *flight)
{
    return flight->count >= flight->count_max || flight->parked_count >= MR_FLIGHT_PARKED_MAX;
}

bool mr_flight_is_suspect(const struct mr_flight *flight, const struct mr_ticket *ticket)
{
    return ticket->intake.crashes > 0 && ticket->intake.crashes + 1u >= flight->attempts_max;
}

void mr_flight_park(struct mr_flight *flight, struct mr_ticket *ticket)
{
    struct mr_ticket **link = &flight->parked;
    while (*link)
        link = &(*link)->intake.next;
    ticket->intake.next = NULL;
    *link = ticket;
    flight->parked_count++;
}

struct mr_ticket *mr_flight_unpark_all(struct mr_flight *flight)
{
    struct mr_ticket *tickets = flight->parked;
    flight->parked = NULL;
    flight->parked_count = 0;
    flight->retry_parked = false;
    return tickets;
}

struct mr_ticket *mr_flight_unpark(struct mr_flight *flight, struct mr_text id)
{
    struct mr_ticket **link = &flight->parked;
    while (*link && !mr_text_is(id, (*link)->id))
        link = &(*link)->intake.next;
    struct mr_ticket *ticket = *link;
    if (!ticket) return NULL;
    *link = ticket->intake.next;
    ticket->intake.next = NULL;
    flight->parked_count--;
    return ticket;
}

void mr_flight_submit(struct mr_flight *flight, struct mr_ticket *ticket)
{
    ticket->intake.submitted = true;
    mr_ticket_table_add(flight->submitted, ticket);
    if (mr_flight_is_suspect(flight, ticket)) flight->suspects++;
}

void mr_flight_withdraw(struct mr_flight *flight, struct mr_ticket *ticket)
{
    if (!ticket->intake.submitted) return;
    ticket->intake.submitted = false;
    mr_ticket_table_remove(flight->submitted, ticket);
    if (mr_flight_is_suspect(flight, ticket)) flight->suspects--;
}
