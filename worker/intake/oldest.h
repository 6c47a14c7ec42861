/* oldest - the requests that have been in this worker longest, for the page /requests. The list has
 * their ids, tenants, places and ages, but no text of a prompt or an answer.
 *
 * Threads: any; a plain value, copied under the mutex of its owner.
 * Memory:  MR_OLDEST_MAX entries in the struct; tenant and topic are the configuration's.
 * Errors:  MR_NOMEM from _write. */
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
    bool parked; /* waits in intake; the engine does not have it */
    uint64_t arrival_ns;
};

/* Start with a zeroed struct. */
struct mr_oldest {
    struct mr_oldest_request requests[MR_OLDEST_MAX]; /* oldest first */
    size_t count;
};

/* Adds the ticket's request. A full list loses its youngest request, which may be this one. A
 * dropped request is not added. Threads: intake. */
void mr_oldest_add(struct mr_oldest *oldest, const struct mr_ticket *ticket);
/* Writes a JSON array with an object for each request: id, tenant (null: the default one), topic,
 * partition, offset, attempt, state ("parked" or "submitted"), seconds since its arrival. *bytes is
 * allocated with malloc. */
enum mr_status mr_oldest_write(const struct mr_oldest *oldest, uint64_t now_ns, char **bytes,
                               size_t *length, struct mr_error *err);

#endif
