/* trace_context - the trace that a request belongs to, and the ids of its spans.
 *
 * A producer names its trace in the header `traceparent` (W3C Trace Context, level 1). For a
 * request without that header the trace id is a hash of the record's place. So every attempt in
 * every worker computes the same id and makes the same decision whether the trace is sampled. Ids
 * of spans are hashes too, so that a later attempt can compute the id of the previous attempt's
 * span.
 *
 * Threads: any (pure functions). Memory: none. Errors: an invalid header is treated as absent, as
 * the standard demands. */
#ifndef MR_WORKER_TRACE_TRACE_CONTEXT_H
#define MR_WORKER_TRACE_TRACE_CONTEXT_H

#include "codec/text.h"

#include <stdbool.h>
#include <stdint.h>

#define MR_TRACE_ID_BYTES  16u
#define MR_SPAN_ID_BYTES   8u
#define MR_TRACE_HEX_BYTES (2 * MR_TRACE_ID_BYTES + 1) /* with the terminating NUL */

struct mr_trace_context {
    unsigned char trace_id[MR_TRACE_ID_BYTES];
    unsigned char parent_id[MR_SPAN_ID_BYTES]; /* span of the producer; zero: none */
    bool has_parent, sampled;
};

/* The record of a request. */
struct mr_trace_place {
    const char *topic;
    int32_t partition;
    int64_t offset, timestamp_ms;
};

/* Reads the value of the header `traceparent`. False: it is not valid, and *out is unchanged. */
bool mr_trace_context_parse(struct mr_trace_context *out, struct mr_text header);
/* Makes the context of a request without that header. ratio: the share of such traces that are
 * sampled, 0 to 1. */
void mr_trace_context_make(struct mr_trace_context *out, const struct mr_trace_place *place,
                           double ratio);
/* The id of span number `number` of one attempt at the request; number 0: its outermost span. */
void mr_trace_span_id(const struct mr_trace_context *context, const struct mr_trace_place *place,
                      uint32_t attempt, uint32_t number, unsigned char id[MR_SPAN_ID_BYTES]);
/* Writes the trace id as 32 lower-case hexadecimal digits. */
void mr_trace_context_hex(const struct mr_trace_context *context, char out[MR_TRACE_HEX_BYTES]);

#endif
