/* request_decode - decodes a record to a request: finds the id and the encoding, reads all fields,
 * checks fields that depend on each other.
 *
 * Threads: any (pure functions). Memory: the request is the caller's; the record may be freed after
 *          the call.
 * Errors:  a status of class REJECT with one sentence, MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_REQUEST_DECODE_H
#define MR_CODEC_RECORDS_REQUEST_DECODE_H

#include "codec/limits.h"
#include "codec/records/request.h"
#include "codec/status.h"

/* Properties of the Kafka record around the value, and settings of its topic. */
struct mr_request_context {
    struct mr_text key;          /* key of the Kafka record, may be empty */
    struct mr_text event_id;     /* id of the CloudEvent around the request, may be empty */
    struct mr_text fallback_id;  /* "<topic>/<partition>/<offset>" */
    struct mr_text content_type; /* content-type header of the Kafka record, empty when absent */
    int64_t timestamp_ms;        /* Kafka timestamp, unix milliseconds; timeout_ms starts there */
    int64_t now_ms;              /* current time, unix milliseconds, to check MR_DEADLINE_MS_MAX */
    uint32_t default_max_tokens;
    uint32_t default_thinking_tokens; /* of a request without a limit; 0: it has none */
    size_t record_bytes_max;
    bool strict; /* reject a record that has a member with an unknown name */
};

/* The id and encoding of the answer to a record. Always filled, also for a rejected record. */
struct mr_reply_address {
    /* The first valid id of: the field `id` (found even if the record is malformed after it),
     * event_id, key, fallback_id. */
    char id[MR_ID_BYTES_MAX + 1];
    bool id_readable; /* id is not a fallback_id */
    enum mr_encoding encoding;
};

/* Decodes and validates one record. *out is NULL unless the status is MR_OK. */
enum mr_status mr_request_decode(struct mr_request **out, struct mr_text record,
                                 const struct mr_request_context *context,
                                 struct mr_reply_address *address, struct mr_error *err);
/* Fills *address and reads no field except `id`; for a record that is rejected for another reason.
 * Any status other than MR_OK: the record is malformed. */
enum mr_status mr_request_address(struct mr_text record, const struct mr_request_context *context,
                                  struct mr_reply_address *address, struct mr_error *err);

#endif
