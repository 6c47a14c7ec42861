/* slowest - the requests that have been longest in the workers of a fleet, from the workers' pages
 * /requests (worker/intake/oldest.h), for millrace top. A page is hostile input.
 *
 * Owner: one thread. Memory: MR_SLOWEST_MAX entries in the struct. Errors:
 * MR_MALFORMED from _add. */
#ifndef MR_WORKER_TOP_SLOWEST_H
#define MR_WORKER_TOP_SLOWEST_H

#include "codec/status.h"

#include <stddef.h>

#define MR_SLOWEST_MAX        20u
#define MR_SLOWEST_TEXT_BYTES ((size_t)160)

struct mr_slow_request {
    double seconds;
    /* Cut at their size; control characters are '?', so that they can be shown on a terminal. */
    char id[MR_SLOWEST_TEXT_BYTES], tenant[MR_SLOWEST_TEXT_BYTES], state[MR_SLOWEST_TEXT_BYTES];
    char worker[MR_SLOWEST_TEXT_BYTES];
};

/* Start with a zeroed struct. */
struct mr_slowest {
    struct mr_slow_request requests[MR_SLOWEST_MAX]; /* the slowest first */
    size_t count;
};

/* Adds the tenant's requests from a worker's page; tenant "": all. */
enum mr_status mr_slowest_add(struct mr_slowest *slowest, const char *worker, const char *tenant,
                              const char *page, struct mr_error *err);

#endif
