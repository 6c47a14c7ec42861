/* flight - the requests of this worker, each with its ticket (worker/ticket/ticket.h): those
 * submitted to the engine, by tenant and id, and those "parked", that is waiting in intake for a
 * Redis lookup, for another request, or for space in the engine's queue. Also the identities of the
 * requests that got a result last: ended_max of them, for MR_FLIGHT_KEEP_NS.
 *
 * What earlier crashes mean for a request (a crash: a worker vanished while it ran the request):
 *   fewer than attempts_max crashes    the request runs like any other;
 *   attempts_max or more, and only this request can have caused the last one (it ran alone, or
 *   apart)                             the request is poison: it is refused and dead-lettered;
 *   attempts_max or more, and other requests ran beside it at the last one
 *                                      the request is a suspect. The worker runs one suspect at a
 *                                      time, beside its other requests, and notes the start as
 *                                      "apart": of the suspects only this one can be the cause of a
 *                                      crash.
 *
 * Owner:  intake thread. Memory: the table; at most count_max tickets, submitted and parked.
 * Errors: _open MR_NOMEM. */
#ifndef MR_WORKER_INTAKE_FLIGHT_H
#define MR_WORKER_INTAKE_FLIGHT_H

#include "worker/intake/id_memory.h"
#include "worker/intake/ticket_table.h"

/* with this many requests waiting in intake, no further record is taken; suspects and copies of
 * requests in flight are not counted: one id can have any number of copies */
#define MR_FLIGHT_PARKED_MAX 256u
/* most records that wait for one of the same id, if other requests under an id in use are run
 * (--duplicate-id) */
#define MR_FLIGHT_SAME_ID_MAX 16u

#define MR_FLIGHT_KEEP_NS ((uint64_t)600000000000)

/* Which other request of its tenant has a ticket's id. */
enum mr_claim {
    MR_CLAIM_FREE,      /* none, or a request with an equal digest, which is the same request */
    MR_CLAIM_IN_FLIGHT, /* one that is in flight */
    MR_CLAIM_ENDED      /* one that got its result less than MR_FLIGHT_KEEP_NS ago */
};

struct mr_flight {
    struct mr_ticket_table *submitted;
    struct mr_id_memory *ended;
    struct mr_ticket *parked, *parked_last; /* requests waiting in intake, oldest first */
    bool retry_parked; /* a waiting request may be submittable now: try them all again */
    uint32_t count, count_max, parked_count;
    uint32_t parked_uncounted; /* of these: suspects and copies of requests in flight */
    uint32_t attempts_max;
    uint32_t suspects; /* number of submitted suspects: 0 or 1 */
};

struct mr_flight_limits {
    uint32_t count_max; /* requests in flight */
    uint32_t ended_max; /* ended requests whose identity is remembered */
    uint32_t attempts_max;
};

enum mr_status mr_flight_open(struct mr_flight *flight, const struct mr_flight_limits *limits,
                              struct mr_error *err);
/* Every ticket must have ended before. */
void mr_flight_close(struct mr_flight *flight);

bool mr_flight_is_full(const struct mr_flight *flight);
bool mr_flight_is_poison(const struct mr_flight *flight, const struct mr_ticket *ticket);
bool mr_flight_is_suspect(const struct mr_flight *flight, const struct mr_ticket *ticket);

/* Adds the ticket at the end of the list of tickets that wait in intake. */
void mr_flight_park(struct mr_flight *flight, struct mr_ticket *ticket);
/* Returns all tickets that wait in intake, linked by intake.next, and empties that list. */
struct mr_ticket *mr_flight_unpark_all(struct mr_flight *flight);
/* Takes the tenant's oldest waiting ticket with this request id out of the list of waiting tickets;
 * NULL: there is none. */
struct mr_ticket *mr_flight_unpark(struct mr_flight *flight, uint32_t tenant_index,
                                   struct mr_text id);
/* Whether the ticket may run after the requests under its id that its tenant has in flight: at most
 * MR_FLIGHT_SAME_ID_MAX records and the one that runs first, or one of them is the same request;
 * then the ticket is noted as a copy. */
bool mr_flight_may_wait(const struct mr_flight *flight, struct mr_ticket *ticket);

/* Adds the ticket to the table of submitted tickets; call before the ticket goes to the engine. */
void mr_flight_submit(struct mr_flight *flight, struct mr_ticket *ticket);
/* Removes the ticket from the table of submitted tickets when the engine has given the ticket back.
 * No effect on a ticket that was not submitted. */
void mr_flight_withdraw(struct mr_flight *flight, struct mr_ticket *ticket);

/* A request that was dropped, or whose partition was lost, has no claim to its id. */
enum mr_claim mr_flight_claim(const struct mr_flight *flight, const struct mr_ticket *ticket,
                              uint64_t now_ns);
/* Remembers the identity of a ticket whose result is on the broker. No effect on a ticket that was
 * not submitted: a request that was refused leaves its id free. */
void mr_flight_remember(struct mr_flight *flight, const struct mr_ticket *ticket, uint64_t now_ns);

#endif
