/* decode - turns the headers and the value of a consumed record into a validated request, or into
 * the reason for the rejection and the address (id, encoding) of the answer.
 *
 * A CloudEvent in structured mode is opened first; the event's data is the request. If the deadline
 * in the record's header has passed, only the address is decoded. A record is rejected when its
 * headers to echo take more than MR_ENVELOPE_ECHO_BYTES_MAX together, when another header is
 * invalid, or when its deadline header is more than 24 hours ahead.
 *
 * Pure functions. Memory: the request's arena. Errors: statuses of class REJECT. */
#ifndef MR_WORKER_INTAKE_DECODE_H
#define MR_WORKER_INTAKE_DECODE_H

#include "codec/records/request_decode.h"
#include "worker/intake/envelope.h"

struct mr_decode_options {
    uint32_t default_max_tokens;
    size_t record_bytes_max;
    uint32_t default_thinking_tokens; /* of the topic; 0: none */
    bool strict;                      /* true: a request with unknown fields is rejected */
    int64_t now_ms;                   /* present time, unix ms */
};

/* A request (codec/records/request.h) with the data from the record's headers. */
struct mr_decoded {
    /* owned by the caller; NULL: the record was rejected */
    struct mr_request *request;
    struct mr_reply_address address;
    /* unix ms, the earlier one of the deadlines in the header and the request; 0: no deadline */
    int64_t deadline_ms;
};

/* Fills *decoded, even when an error is returned. */
enum mr_status mr_decode_record(struct mr_decoded *decoded, const struct mr_envelope *envelope,
                                const struct mr_kafka_record *record,
                                const struct mr_decode_options *options, struct mr_error *err);

/* Whether a record rejected with this status goes to the dead-letter topic: it cannot be decoded,
 * its value is not a request, or it crashes workers. A valid request that cannot be served gets
 * only an error as its answer. */
bool mr_decode_is_dead_letter(enum mr_status status);

#endif
