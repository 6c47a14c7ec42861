/* submission - a request handed to the engine, with what its origin adds to it.
 *
 * Types only. The engine copies everything but request; times are ns monotonic. */
#ifndef MR_BATCHING_SEQUENCE_SUBMISSION_H
#define MR_BATCHING_SEQUENCE_SUBMISSION_H

#include "codec/records/request.h"

#include <stdint.h>

struct mr_sample;

struct mr_submission {
    struct mr_request *request;
    uint64_t ticket;       /* comes back with every delta and with the result */
    const char *tenant;    /* cache namespace; NULL: the empty one */
    uint32_t tenant_index; /* whose share of the engine the request uses; below tenant_count */
    uint64_t arrival_ns;
    uint64_t deadline_ns, start_by_ns, run_limit_ns; /* end, latest start, longest run; 0: none */
    int32_t priority;                                /* the request's plus the topic's */
    /* Tokens sampled by an earlier attempt of a request with one choice; sampling continues behind
     * them. The first kept_shown have reached the reader and are not emitted again. */
    uint32_t kept_count, kept_shown;
    const struct mr_sample *kept; /* [kept_count] */
};

#endif
