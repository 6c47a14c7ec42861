/* request - one request of a producer: the record of CONTRACT section 3, decoded and validated.
 * codec/records/request_decode.h makes it from a record, codec/records/result.h has the answers.
 *
 * Owner:  intake creates a request, the engine owns it while it runs, publish destroys it. Only one
 *         thread uses a request at a time.
 * Memory: the request and everything it points to are in its arena; _destroy frees the arena.
 * Errors: _create returns NULL when memory is out. */
#ifndef MR_CODEC_RECORDS_REQUEST_H
#define MR_CODEC_RECORDS_REQUEST_H

#include "codec/arena.h"
#include "codec/text.h"
#include "codec/wire/encoding.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    int64_t integer; /* of INT; of BOOL 0 or 1 */
    double number;
    struct mr_text text;
};

/* temperature NaN: not given, so the model's generation_config decides, or else 1.0. */
struct mr_sampling {
    float temperature, top_p, min_p, typical_p;
    uint32_t top_k;
    float repetition_penalty, presence_penalty, frequency_penalty;
    uint64_t seed; /* hash of the id when not given */
    bool has_seed; /* seed was given */
    const struct mr_logit_bias *logit_bias;
    size_t logit_bias_count;
    const uint32_t *allowed_token_ids;
    size_t allowed_token_count;
    const struct mr_text *bad_words;
    size_t bad_word_count;
    int32_t logprobs; /* best alternatives reported for each token, 0: none; -1: no logprobs */
};

struct mr_request {
    struct mr_arena *arena;
    struct mr_text id;
    struct mr_text model;
    struct mr_text prompt; /* bytes NULL: not given */
    const struct mr_message *messages;
    size_t message_count;
    const struct mr_kwarg *kwargs;
    size_t kwarg_count;
    const uint32_t *token_ids; /* given, or set by intake when it has tokenized the prompt */
    size_t token_count;
    bool has_token_ids; /* token_ids were given */
    struct mr_sampling sampling;
    uint32_t max_tokens, min_tokens;
    bool ignore_eos, include_stop, stream;
    const struct mr_text *stops;
    size_t stop_count;
    const uint32_t *stop_token_ids;
    size_t stop_token_count;
    uint32_t max_chars;    /* 0: no limit */
    float min_confidence;  /* 0: no limit */
    uint32_t choice_count; /* n */
    int32_t priority;
    int64_t deadline_ms; /* unix milliseconds, from deadline_ms or timeout_ms; 0: none */
    struct mr_text session;
    bool cache_read, cache_write;
    struct mr_text metadata; /* bytes of the record, in `encoding` */
    enum mr_encoding encoding;
    uint32_t unknown_fields; /* members of the record that no field has */
};

/* A request without prompt in which every optional field has its default. */
struct mr_request *mr_request_create(enum mr_encoding encoding, uint32_t default_max_tokens);
/* request may be NULL. */
void mr_request_destroy(struct mr_request *request);

#endif
