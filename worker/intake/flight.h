/* flight - the tickets of this worker: those that the engine has, by id, and those that are parked
 * because they wait for a lookup, for another request, or for room.
 *
 * A suspect is a request that ran in attempts_max - 1 workers when they crashed: the caller submits
 * one only while no other suspect is submitted.
 *
 * Owner:  intake thread. Memory: the table; count_max tickets at most, parked ones included.
 * Errors: _open MR_NOMEM. */
#ifndef MR_WORKER_INTAKE_FLIGHT_H
#define MR_WORKER_INTAKE_FLIGHT_H

#include "worker/ticket/ticket_table.h"

#define MR_FLIGHT_PARKED_MAX 256u /* then no record is taken */

struct mr_flight {
    struct mr_ticket_table *submitted;
    struct mr_ticket *parked; /* oldest first */
    bool retry_parked;        /* a reason to wait may be gone */
    uint32_t count, count_max, parked_count;
    uint32_t attempts_max;
    uint32_t suspects; /* submitted */
};

enum mr_status mr_flight_open(struct mr_flight *flight, uint32_t count_max, uint32_t attempts_max,
                              struct mr_error *err);
/* Every ticket must have ended. */
void mr_flight_close(struct mr_flight *flight);

bool mr_flight_is_full(const struct mr_flight *flight);
bool mr_flight_is_suspect(const struct mr_flight *flight, const struct mr_ticket *ticket);

/* Behind the tickets that are parked already. */
void mr_flight_park(struct mr_flight *flight, struct mr_ticket *ticket);
/* All parked tickets, linked by intake.next; none is parked then. */
struct mr_ticket *mr_flight_unpark_all(struct mr_flight *flight);
/* The oldest parked ticket with this id; NULL: none. */
struct mr_ticket *mr_flight_unpark(struct mr_flight *flight, struct mr_text id);

/* Before the engine gets the ticket. */
void mr_flight_submit(struct mr_flight *flight, struct mr_ticket *ticket);
/* The engine does not have the ticket any more. No effect on one that was not submitted. */
void mr_flight_withdraw(struct mr_flight *flight, struct mr_ticket *ticket);

#endif
