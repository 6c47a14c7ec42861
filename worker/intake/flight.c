#include "worker/intake/flight.h"

#include "codec/arena.h"
#include "codec/check.h"
#include "worker/intake/identity.h"
#include "worker/offsets/partition.h"
#include "worker/ticket/messages.h"

enum mr_status mr_flight_open(struct mr_flight *flight, const struct mr_flight_limits *limits,
                              struct mr_error *err)
{
    *flight = (struct mr_flight){.count_max = limits->count_max,
                                 .attempts_max = limits->attempts_max,
                                 .waiting_max = limits->waiting_max};
    flight->held_end = &flight->held;
    enum mr_status status = mr_ticket_table_create(&flight->submitted, limits->count_max, err);
    if (status == MR_OK) status = mr_ticket_table_create(&flight->refused, limits->count_max, err);
    if (status == MR_OK)
        status = mr_id_memory_create(&flight->ended, limits->ended_max, MR_FLIGHT_KEEP_NS, err);
    return status;
}

void mr_flight_close(struct mr_flight *flight)
{
    mr_ticket_table_destroy(flight->submitted);
    mr_ticket_table_destroy(flight->refused);
    mr_id_memory_destroy(flight->ended);
    flight->submitted = flight->refused = NULL;
    flight->ended = NULL;
}

bool mr_flight_is_full(const struct mr_flight *flight)
{
    return flight->count >= flight->count_max ||
           flight->parked_count - flight->parked_uncounted >= MR_FLIGHT_PARKED_MAX;
}

bool mr_flight_is_poison(const struct mr_flight *flight, const struct mr_ticket *ticket)
{
    return ticket->intake.start.crashes >= flight->attempts_max &&
           ticket->intake.start.crashed_alone;
}

bool mr_flight_is_suspect(const struct mr_flight *flight, const struct mr_ticket *ticket)
{
    return ticket->intake.start.crashes >= flight->attempts_max &&
           !ticket->intake.start.crashed_alone;
}

bool mr_flight_has_room(const struct mr_flight *flight, uint32_t tenant_index)
{
    const struct mr_flight_waiting *waiting = &flight->waiting[tenant_index];
    return waiting->count < flight->waiting_max.count && waiting->bytes < flight->waiting_max.bytes;
}

static void stop_waiting(struct mr_flight *flight, struct mr_ticket *ticket)
{
    struct mr_flight_waiting *waiting = &flight->waiting[ticket->tenant_index];
    if (ticket->intake.waiting_bytes == 0) return;
    waiting->count--;
    waiting->bytes -= ticket->intake.waiting_bytes;
    ticket->intake.waiting_bytes = 0;
}

static void start_waiting(struct mr_flight *flight, struct mr_ticket *ticket)
{
    struct mr_flight_waiting *waiting = &flight->waiting[ticket->tenant_index];
    const struct mr_ticket_intake *intake = &ticket->intake;
    size_t bytes = sizeof *ticket;
    stop_waiting(flight, ticket);
    if (intake->request) bytes += mr_arena_bytes(intake->request->arena);
    if (intake->refusal) bytes += intake->refusal->mail.bytes;
    ticket->intake.waiting_bytes = bytes;
    waiting->count++;
    waiting->bytes += bytes;
}

void mr_flight_begin(struct mr_flight *flight)
{
    flight->count++;
}

void mr_flight_end(struct mr_flight *flight, struct mr_ticket *ticket)
{
    MR_ASSERT(flight->count > 0);
    flight->count--;
    stop_waiting(flight, ticket);
}

void mr_flight_follow(struct mr_flight *flight, struct mr_ticket *ticket, struct mr_ticket *same)
{
    ticket->intake.next = same->intake.followers;
    same->intake.followers = ticket;
    start_waiting(flight, ticket);
}

void mr_flight_park(struct mr_flight *flight, struct mr_ticket *ticket)
{
    ticket->intake.next = NULL;
    if (flight->parked)
        flight->parked_last->intake.next = ticket;
    else
        flight->parked = ticket;
    flight->parked_last = ticket;
    flight->parked_count++;
    if (ticket->intake.copy)
        start_waiting(flight, ticket);
    else
        stop_waiting(flight, ticket);
    ticket->intake.uncounted = ticket->intake.copy || mr_flight_is_suspect(flight, ticket);
    flight->parked_uncounted += ticket->intake.uncounted;
}

struct mr_ticket *mr_flight_unpark_all(struct mr_flight *flight)
{
    struct mr_ticket *tickets = flight->parked;
    flight->parked = flight->parked_last = NULL;
    flight->parked_count = flight->parked_uncounted = 0;
    flight->retry_parked = false;
    return tickets;
}

static bool has_id(const struct mr_ticket *ticket, uint32_t tenant_index, struct mr_text id)
{
    return ticket->tenant_index == tenant_index && mr_text_is(id, ticket->id);
}

struct mr_ticket *mr_flight_unpark(struct mr_flight *flight, uint32_t tenant_index,
                                   struct mr_text id)
{
    struct mr_ticket *ticket = flight->parked, *before = NULL;
    for (; ticket && !has_id(ticket, tenant_index, id); ticket = ticket->intake.next)
        before = ticket;
    if (!ticket) return NULL;
    if (before)
        before->intake.next = ticket->intake.next;
    else
        flight->parked = ticket->intake.next;
    if (flight->parked_last == ticket) flight->parked_last = before;
    ticket->intake.next = NULL;
    flight->parked_count--;
    flight->parked_uncounted -= ticket->intake.uncounted;
    return ticket;
}

void mr_flight_submit(struct mr_flight *flight, struct mr_ticket *ticket)
{
    stop_waiting(flight, ticket);
    ticket->intake.submitted = true;
    mr_ticket_table_add(flight->submitted, ticket);
    if (mr_flight_is_suspect(flight, ticket)) flight->suspects++;
}

void mr_flight_withdraw(struct mr_flight *flight, struct mr_ticket *ticket)
{
    if (ticket->intake.refused) mr_ticket_table_remove(flight->refused, ticket);
    ticket->intake.refused = false;
    if (!ticket->intake.submitted) return;
    ticket->intake.submitted = false;
    mr_ticket_table_remove(flight->submitted, ticket);
    if (mr_flight_is_suspect(flight, ticket)) flight->suspects--;
}

/* The tenant's submitted request with the ticket's id; NULL: none, or it is dropped. */
static const struct mr_ticket *find_submitted(const struct mr_flight *flight,
                                              const struct mr_ticket *ticket)
{
    const struct mr_ticket *other =
        mr_ticket_table_find(flight->submitted, ticket->tenant_index, mr_ticket_id(ticket));
    return other && !atomic_load(&other->dropped) ? other : NULL;
}

/* The first parked request with the ticket's tenant and id, from `other` on. */
static const struct mr_ticket *find_parked(const struct mr_ticket *other,
                                           const struct mr_ticket *ticket)
{
    while (other && !(has_id(other, ticket->tenant_index, mr_ticket_id(ticket)) &&
                      mr_partition_is_current(other)))
        other = other->intake.next;
    return other;
}

static bool is_copy(const struct mr_ticket *ticket, const struct mr_ticket *other)
{
    return mr_identity_equal(&other->identity, &ticket->identity);
}

/* Whether another request of the ticket's tenant and id is submitted, parked or refused. */
static bool is_shared(const struct mr_flight *flight, const struct mr_ticket *ticket)
{
    return find_submitted(flight, ticket) || find_parked(flight->parked, ticket) ||
           mr_ticket_table_find(flight->refused, ticket->tenant_index, mr_ticket_id(ticket));
}

static void add_refused(struct mr_flight *flight, struct mr_ticket *ticket)
{
    ticket->intake.refused = true;
    mr_ticket_table_add(flight->refused, ticket);
}

bool mr_flight_refuse(struct mr_flight *flight, struct mr_ticket *ticket)
{
    if (!is_shared(flight, ticket)) {
        add_refused(flight, ticket);
        return true;
    }
    ticket->intake.next = NULL;
    *flight->held_end = ticket;
    flight->held_end = &ticket->intake.next;
    flight->held_count++;
    start_waiting(flight, ticket);
    return false;
}

struct mr_ticket *mr_flight_unhold(struct mr_flight *flight, const struct mr_ticket *like)
{
    for (struct mr_ticket **link = &flight->held; *link; link = &(*link)->intake.next) {
        struct mr_ticket *ticket = *link;
        if (like && !has_id(ticket, like->tenant_index, mr_ticket_id(like))) continue;
        if (is_shared(flight, ticket)) continue;
        *link = ticket->intake.next;
        if (!*link) flight->held_end = link;
        flight->held_count--;
        stop_waiting(flight, ticket);
        add_refused(flight, ticket);
        return ticket;
    }
    return NULL;
}

struct mr_ticket *mr_flight_unhold_all(struct mr_flight *flight)
{
    struct mr_ticket *tickets = flight->held;
    flight->held = NULL;
    flight->held_end = &flight->held;
    flight->held_count = 0;
    return tickets;
}

bool mr_flight_may_wait(const struct mr_flight *flight, struct mr_ticket *ticket)
{
    const struct mr_ticket *other = find_submitted(flight, ticket);
    uint32_t count = other != NULL;
    ticket->intake.copy = other && is_copy(ticket, other);
    for (other = find_parked(flight->parked, ticket); other && !ticket->intake.copy;
         other = find_parked(other->intake.next, ticket)) {
        ticket->intake.copy = is_copy(ticket, other);
        count++;
    }
    return ticket->intake.copy || count <= MR_FLIGHT_SAME_ID_MAX;
}

enum mr_claim mr_flight_claim(const struct mr_flight *flight, const struct mr_ticket *ticket,
                              uint64_t now_ns)
{
    struct mr_identity ended;
    const struct mr_ticket *other = find_submitted(flight, ticket);
    if (!other) other = find_parked(flight->parked, ticket);
    if (other)
        return mr_identity_equal(&other->identity, &ticket->identity) ? MR_CLAIM_FREE
                                                                      : MR_CLAIM_IN_FLIGHT;
    if (!mr_id_memory_get(flight->ended, ticket->tenant_index, mr_ticket_id(ticket), ended.bytes,
                          now_ns))
        return MR_CLAIM_FREE;
    return mr_identity_equal(&ended, &ticket->identity) ? MR_CLAIM_FREE : MR_CLAIM_ENDED;
}

void mr_flight_remember(struct mr_flight *flight, const struct mr_ticket *ticket, uint64_t now_ns)
{
    if (!ticket->intake.submitted) return;
    mr_id_memory_put(flight->ended, ticket->tenant_index, mr_ticket_id(ticket),
                     ticket->identity.bytes, now_ns);
}
