/* draft - a request record made from words: what `millrace send field=value PROMPT` publishes.
 *
 * Threads: any. Memory: one malloc'ed buffer handed to the caller. Errors: MR_INVALID_REQUEST for a
 * field that is not NAME=VALUE or is given twice, MR_RECORD_TOO_LARGE, MR_NOMEM. Ranges and types
 * are left to the worker that decodes the record. */
#ifndef MR_CODEC_RECORDS_DRAFT_H
#define MR_CODEC_RECORDS_DRAFT_H

#include "codec/wire/encoding.h"

struct mr_draft {
    struct mr_text id;     /* empty: none */
    struct mr_text prompt; /* empty: none, a field brings it */
    bool as_chat;          /* the prompt becomes one message of role user */
    bool no_stream;        /* "stream": false */
    const char *const
        *fields; /* [field_count] "name=value": JSON where it reads as JSON, else text */
    size_t field_count;
};

/* *bytes is NULL on an error; free() it otherwise. */
enum mr_status mr_draft_encode(const struct mr_draft *draft, enum mr_encoding encoding,
                               unsigned char **bytes, size_t *length, struct mr_error *err);

#endif
