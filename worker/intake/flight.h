/* flight - the tickets of the requests in this worker. A ticket is
 *
 *   submitted  if the engine has the request. In a table by tenant and id.
 *   parked     if the request waits in intake: for a Redis lookup, for another request, or for
 *              space in the engine's queue.
 *   refused    if publish has the refusal. In a table by tenant and id.
 *   held       if it is refused while another ticket of its tenant and id is in one of the
 *              states above. The refusal is posted when the other ticket has ended, because readers
 *              keep the first result of an id.
 *
 * A ticket "waits" if it is held, follows the same request in flight (it is then in the list
 * intake.followers of that ticket), or is parked as a copy of it. One id can have any number of
 * such records, so each tenant has a limit on them: no further record of the tenant is taken above
 * it, and the other tenants' places stay free.
 *
 * The module also keeps the identities of the last ended_max requests with a result, each for
 * MR_FLIGHT_KEEP_NS.
 *
 * A crash is counted for a request when a worker crashes while it runs the request:
 *
 *   fewer than attempts_max   The request runs like any other.
 *   attempts_max or more,     Only this request can have caused the last crash. It is poison:
 *   ran alone or apart        refused and dead-lettered.
 *   attempts_max or more,     The request is a suspect. The worker runs one suspect at a time,
 *   others were running       next to requests that are not suspects, and marks its start as
 *                             "apart". If the worker crashes again, this suspect is the cause.
 *
 * Owner:  intake thread. Memory: the tables and the identities. Errors: _open MR_NOMEM. */
#ifndef MR_WORKER_INTAKE_FLIGHT_H
#define MR_WORKER_INTAKE_FLIGHT_H

#include "worker/config/config.h"
#include "worker/intake/id_memory.h"
#include "worker/intake/ticket_table.h"

/* No further record is taken while this many requests are parked. Suspects and copies of requests
 * in flight do not count. */
#define MR_FLIGHT_PARKED_MAX 256u
/* With --duplicate-id run: most requests that wait for another one of the same id. */
#define MR_FLIGHT_SAME_ID_MAX 16u

#define MR_FLIGHT_KEEP_NS ((uint64_t)600000000000)

/* Whether another request of its tenant has a ticket's id. */
enum mr_claim {
    MR_CLAIM_FREE,      /* no, or a request with an equal digest, which is the same request */
    MR_CLAIM_IN_FLIGHT, /* yes, and it is in flight */
    MR_CLAIM_ENDED      /* yes, and it got its result less than MR_FLIGHT_KEEP_NS ago */
};

struct mr_flight_waiting {
    uint32_t count;
    size_t bytes;
};

struct mr_flight {
    struct mr_ticket_table *submitted, *refused;
    struct mr_id_memory *ended;
    struct mr_ticket *parked, *parked_last; /* list of parked tickets, oldest first */
    struct mr_ticket *held, **held_end;     /* list of tickets with a held refusal, oldest first */
    uint32_t held_count;
    bool retry_parked;         /* a parked request may be submittable: place all of them again */
    uint32_t count, count_max; /* tickets, and their limit */
    uint32_t parked_count, parked_uncounted; /* all parked; suspects and copies among them */
    struct mr_flight_waiting waiting[MR_LIST_MAX], waiting_max; /* by tenant; limit of each */
    uint32_t attempts_max;
    uint32_t suspects; /* number of submitted suspects: 0 or 1 */
};

struct mr_flight_limits {
    uint32_t count_max; /* requests in flight */
    uint32_t ended_max; /* ended requests whose identity is remembered */
    uint32_t attempts_max;
    struct mr_flight_waiting waiting_max; /* for each tenant */
};

enum mr_status mr_flight_open(struct mr_flight *flight, const struct mr_flight_limits *limits,
                              struct mr_error *err);
/* Every ticket must have ended before. */
void mr_flight_close(struct mr_flight *flight);

bool mr_flight_is_full(const struct mr_flight *flight);
/* Whether a further record of the tenant may wait for another request. */
bool mr_flight_has_room(const struct mr_flight *flight, uint32_t tenant_index);
bool mr_flight_is_poison(const struct mr_flight *flight, const struct mr_ticket *ticket);
bool mr_flight_is_suspect(const struct mr_flight *flight, const struct mr_ticket *ticket);

/* Counts a new ticket. */
void mr_flight_begin(struct mr_flight *flight);
/* The ticket ends and is removed from its lists and tables. */
void mr_flight_end(struct mr_flight *flight, struct mr_ticket *ticket);

/* Adds the ticket to the followers of `same`. */
void mr_flight_follow(struct mr_flight *flight, struct mr_ticket *ticket, struct mr_ticket *same);
/* Appends the ticket to the list of parked tickets. */
void mr_flight_park(struct mr_flight *flight, struct mr_ticket *ticket);
/* Returns all parked tickets, linked by intake.next, and empties the list. */
struct mr_ticket *mr_flight_unpark_all(struct mr_flight *flight);
/* Removes the tenant's oldest parked ticket with this id from the list and returns it; NULL: there
 * is none. */
struct mr_ticket *mr_flight_unpark(struct mr_flight *flight, uint32_t tenant_index,
                                   struct mr_text id);
/* Whether the ticket may run after its tenant's requests in flight with the same id. True if one of
 * them is the same request (the ticket is then marked as a copy), or if at most
 * MR_FLIGHT_SAME_ID_MAX records wait after the one that runs first. */
bool mr_flight_may_wait(const struct mr_flight *flight, struct mr_ticket *ticket);

/* True: adds the ticket to the table of refused tickets; post its refusal. False: another request
 * uses its id; the ticket is held. ticket->intake.refusal is set. */
bool mr_flight_refuse(struct mr_flight *flight, struct mr_ticket *ticket);
/* Moves the oldest held ticket whose id is no longer used by another request to the table of
 * refused tickets and returns it: post its refusal. NULL: there is none. like: only tickets of its
 * tenant and id; NULL: all. */
struct mr_ticket *mr_flight_unhold(struct mr_flight *flight, const struct mr_ticket *like);
/* Returns all held tickets, linked by intake.next, and empties the list. */
struct mr_ticket *mr_flight_unhold_all(struct mr_flight *flight);

/* Adds the ticket to the table of submitted tickets; call before the ticket goes to the engine. */
void mr_flight_submit(struct mr_flight *flight, struct mr_ticket *ticket);
/* Removes the ticket from the table of submitted or refused tickets, if it is in one. */
void mr_flight_withdraw(struct mr_flight *flight, struct mr_ticket *ticket);

/* A request that was dropped or whose partition was lost does not occupy its id. */
enum mr_claim mr_flight_claim(const struct mr_flight *flight, const struct mr_ticket *ticket,
                              uint64_t now_ns);
/* Remembers the identity of a ticket whose result is on the broker. No effect on a ticket that is
 * not submitted, because a refused request leaves its id free. */
void mr_flight_remember(struct mr_flight *flight, const struct mr_ticket *ticket, uint64_t now_ns);

#endif
