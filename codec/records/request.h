/* request - what a producer asks: the record of CONTRACT section 3, decoded and validated. The
 * answers are in codec/records/result.h. The encodings live behind codec/wire/document.h; this
 * module holds the types and the defaults, codec/records/request_fields.c the one table of fields.
 *
 * Owner:  a request is made by intake, owned by the engine while it runs and by publish at the end;
 *         never by two threads at once.
 * Memory: everything a request points to lives in its own arena; _destroy frees all.
 * Errors: a status of class REJECT with one sentence; the id is filled whenever it was readable. */
#ifndef MR_CODEC_RECORDS_REQUEST_H
#define MR_CODEC_RECORDS_REQUEST_H

#include "codec/arena.h"
#include "codec/limits.h"
#include "codec/status.h"
#include "codec/text.h"
#include "codec/wire/encoding.h"

struct mr_message {
    struct mr_text role, content;
};

struct mr_logit_bias {
    uint32_t token_id;
    float bias;
};

enum mr_scalar_kind {
    MR_SCALAR_NULL,
    MR_SCALAR_BOOL,
    MR_SCALAR_INT,
    MR_SCALAR_FLOAT,
    MR_SCALAR_TEXT
};

struct mr_kwarg {
    struct mr_text name;
    enum mr_scalar_kind kind;
    int64_t integer; /* also of a bool */
    double number;
    struct mr_text text;
};

/* NaN temperature means "not given": the model's generation_config or 1.0. */
struct mr_sampling {
    float temperature, top_p, min_p, typical_p;
    uint32_t top_k;
    float repetition_penalty, presence_penalty, frequency_penalty;
    uint64_t seed; /* derived from the id unless given */
    bool has_seed; /* given */
    const struct mr_logit_bias *logit_bias;
    size_t logit_bias_count;
    const uint32_t *allowed_token_ids;
    size_t allowed_token_count;
    const struct mr_text *bad_words;
    size_t bad_word_count;
    int32_t logprobs; /* -1 off, else number of best tokens reported (0: the chosen one only) */
};

struct mr_request {
    struct mr_arena *arena;
    struct mr_text id;
    struct mr_text model;
    struct mr_text prompt; /* bytes NULL unless given */
    const struct mr_message *messages;
    size_t message_count;
    const struct mr_kwarg *kwargs;
    size_t kwarg_count;
    const uint32_t *token_ids; /* given, or filled by intake after tokenizing */
    size_t token_count;
    bool has_token_ids;
    struct mr_sampling sampling;
    uint32_t max_tokens, min_tokens;
    bool ignore_eos, include_stop, stream;
    const struct mr_text *stops;
    size_t stop_count;
    const uint32_t *stop_token_ids;
    size_t stop_token_count;
    uint32_t max_chars;    /* 0 off */
    float min_confidence;  /* 0 off */
    uint32_t choice_count; /* n */
    int32_t priority;
    int64_t deadline_ms; /* unix milliseconds, 0 none; timeout_ms already added to the timestamp */
    struct mr_text session;
    bool cache_read, cache_write;
    struct mr_text metadata; /* in the request's own encoding, echoed byte for byte */
    enum mr_encoding encoding;
    uint32_t unknown_fields; /* ignored keys, counted */
};

/* What the record around the value says. */
struct mr_request_context {
    struct mr_text key;          /* record key, may be empty */
    struct mr_text event_id;     /* of the CloudEvent it came in; the id of a record without one */
    struct mr_text fallback_id;  /* "<topic>/<partition>/<offset>" */
    struct mr_text content_type; /* header, empty when absent */
    int64_t timestamp_ms;        /* of the record */
    int64_t now_ms;              /* unix clock, for the 24 h limit */
    uint32_t default_max_tokens; /* 256 */
    size_t record_bytes_max;
    bool strict; /* unknown keys are rejected */
};

/* How to answer a record, whatever it was; always filled. */
struct mr_reply_address {
    char id[MR_ID_BYTES_MAX + 1]; /* the request's own when readable, else the event's, else the
                                     key, else fallback */
    bool id_readable;             /* it is the request's own, the event's or the key */
    enum mr_encoding encoding;
};

/* Decodes and validates one record. On a status of class REJECT *out is NULL and the answer goes to
 * *address. */
enum mr_status mr_request_decode(struct mr_request **out, struct mr_text record,
                                 const struct mr_request_context *context,
                                 struct mr_reply_address *address, struct mr_error *err);
/* Only fills *address: for a record that is refused whatever it asks for. MR_OK: the address is the
 * one _decode would find. */
enum mr_status mr_request_address(struct mr_text record, const struct mr_request_context *context,
                                  struct mr_reply_address *address, struct mr_error *err);
void mr_request_destroy(struct mr_request *request);

#include "codec/records/result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#endif
