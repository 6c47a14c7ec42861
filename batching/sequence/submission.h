/* submission - the arguments of mr_engine_submit(): a request, and the caller's additions (tenant,
 * priority, deadlines, output of an earlier attempt).
 *
 * Types only. The engine copies everything except the request. Times are nanoseconds of the
 * monotonic clock. */
#ifndef MR_BATCHING_SEQUENCE_SUBMISSION_H
#define MR_BATCHING_SEQUENCE_SUBMISSION_H

#include "codec/records/request.h"

#include <stdint.h>

struct mr_sample;
struct mr_adapter;

/* The adapter (LoRA) of a request. The submitter keeps both in place until the request has ended.
 */
struct mr_request_adapter {
    unsigned char digest[32];         /* of the adapter's content: part of all cache keys */
    const struct mr_adapter *weights; /* argument of the model's steps (ops/decoder/batch.h) */
};

struct mr_submission {
    struct mr_request *request;
    /* the caller's number for this request, passed back with every delta and with the result */
    uint64_t ticket;
    /* name of the tenant, whose cached KV only its own requests reuse; NULL: the empty name */
    const char *tenant;
    /* tenant whose share of the engine the request uses; below tenant_count */
    uint32_t tenant_index;
    const struct mr_request_adapter *adapter; /* NULL: the base model */
    uint64_t arrival_ns;
    /* latest end, latest start, longest run; 0: none */
    uint64_t deadline_ns, start_by_ns, run_limit_ns;
    int32_t priority; /* the request's priority plus its topic's */
    /* Tokens sampled by an earlier attempt of a request with one choice; sampling continues after
     * these tokens. The reader has received the first kept_shown tokens, which are not emitted
     * again. */
    uint32_t kept_count, kept_shown;
    const struct mr_sample *kept; /* [kept_count] tokens of the earlier attempt */
};

/* A step that computed tokens of one choice of a request in prefill. */
struct mr_chunk {
    uint32_t tokens;
    uint64_t begin_ns, end_ns;
};

#endif
