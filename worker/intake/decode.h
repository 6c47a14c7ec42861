/* decode - turns the headers and the value of a consumed record into a validated request, or into a
 * reason for the rejection and the address (id, reply topic) of the answer.
 *
 * A CloudEvent in structured mode is opened first: the request is the event's data. Of a record
 * whose deadline header has passed only the address is decoded. A record is rejected when its
 * headers to echo are larger than MR_ENVELOPE_ECHO_BYTES_MAX together, when another header cannot
 * be read, or when its deadline header is more than 24 hours ahead.
 *
 * Pure functions. Memory: the request's arena. Errors: statuses of class REJECT. */
#ifndef MR_WORKER_INTAKE_DECODE_H
#define MR_WORKER_INTAKE_DECODE_H

#include "codec/records/request_decode.h"
#include "worker/intake/envelope.h"

struct mr_decode_options {
    uint32_t default_max_tokens;
    size_t record_bytes_max;
    bool strict;    /* true: a request with unknown fields is rejected */
    int64_t now_ms; /* present time, unix ms */
};

struct mr_decoded {
    /* the decoded request, which the caller destroys; NULL: the record was rejected */
    struct mr_request *request;
    struct mr_reply_address address;
    /* unix ms, the earlier of the deadlines in header and request field; 0: no deadline */
    int64_t deadline_ms;
};

/* Decodes the record; *decoded is filled even when an error is returned. */
enum mr_status mr_decode_record(struct mr_decoded *decoded, const struct mr_envelope *envelope,
                                const struct mr_kafka_record *record,
                                const struct mr_decode_options *options, struct mr_error *err);

/* True for the reasons with which a rejected record goes to the dead-letter topic: it cannot be
 * decoded, its value is not a request, or it crashes workers. A well-formed request that cannot be
 * served is only answered with an error. */
bool mr_decode_is_dead_letter(enum mr_status status);

#endif
