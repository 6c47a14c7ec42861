/* decode - the second stage of a record's way in: envelope and value to a validated request, or to
 * a reason for its rejection and the address of the answer.
 *
 * A CloudEvent in structured mode is opened first: the request is its data. A record whose deadline
 * header has passed is not decoded: only the address is read. A record with more to echo than
 * MR_ENVELOPE_ECHO_BYTES_MAX is rejected.
 *
 * Pure. Memory: the request's arena. Errors: statuses of class REJECT. */
#ifndef MR_WORKER_TICKET_DECODE_H
#define MR_WORKER_TICKET_DECODE_H

#include "codec/records/request_decode.h"
#include "worker/ticket/envelope.h"

struct mr_decode_options {
    uint32_t default_max_tokens;
    size_t record_bytes_max;
    bool strict;    /* unknown fields are rejected */
    int64_t now_ms; /* unix */
};

struct mr_decoded {
    struct mr_request *request; /* the caller destroys it; NULL: rejected */
    struct mr_reply_address address;
    int64_t deadline_ms; /* unix, the earlier of header and field; 0: none */
};

/* Fills *decoded in every case. */
enum mr_status mr_decode_record(struct mr_decoded *decoded, const struct mr_envelope *envelope,
                                const struct mr_kafka_record *record,
                                const struct mr_decode_options *options, struct mr_error *err);

#endif
