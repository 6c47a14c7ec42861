/* oldest - the requests that have been in this worker longest: the page /requests. They are listed
 * by id, tenant, place and age; nothing of a prompt or an answer is in the list.
 *
 * Threads: any (a plain value, copied between threads under the mutex of its owner). Memory:
 * MR_OLDEST_MAX entries in the struct; tenant and topic are borrowed from the configuration.
 * Errors: MR_NOMEM from _write. */
#ifndef MR_WORKER_INTAKE_OLDEST_H
#define MR_WORKER_INTAKE_OLDEST_H

#include "worker/ticket/ticket.h"

#define MR_OLDEST_MAX 32u

struct mr_oldest_request {
    char id[MR_ID_BYTES_MAX + 1];
    const char *tenant; /* NULL: the default one */
    const char *topic;
    int32_t partition;
    int64_t offset;
    uint32_t attempt;
    bool parked; /* it waits in intake: the engine does not have it */
    uint64_t arrival_ns;
};

/* Start with a zeroed struct. */
struct mr_oldest {
    struct mr_oldest_request requests[MR_OLDEST_MAX]; /* oldest first */
    size_t count;
};

/* Adds the ticket's request, in place of the youngest one when the list is full; no effect if it is
 * younger than all of a full list, or if it was dropped. Threads: intake, the tickets' owner. */
void mr_oldest_add(struct mr_oldest *oldest, const struct mr_ticket *ticket);
/* Writes a JSON array with an object for each request: id, tenant (null: the default one), topic,
 * partition, offset, attempt, state ("parked" or "submitted"), seconds since its arrival. *bytes is
 * malloc'ed. */
enum mr_status mr_oldest_write(const struct mr_oldest *oldest, uint64_t now_ns, char **bytes,
                               size_t *length, struct mr_error *err);

#endif
