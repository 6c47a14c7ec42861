/* draft - encodes a request record from the command line: `millrace send FIELD=VALUE PROMPT`.
 *
 * Threads: any. Memory: one malloc'ed buffer, owned by the caller.
 * Errors:  MR_INVALID_REQUEST for a field that is not NAME=VALUE or is given twice,
 *          MR_RECORD_TOO_LARGE, MR_NOMEM. Names, types and ranges of fields are not checked: the
 *          worker that decodes the record checks them. */
#ifndef MR_CODEC_RECORDS_DRAFT_H
#define MR_CODEC_RECORDS_DRAFT_H

#include "codec/wire/encoding.h"

struct mr_draft {
    struct mr_text id;     /* id of the request; empty: the record has no id */
    struct mr_text prompt; /* prompt text; empty: one of `fields` has the prompt */
    bool as_chat;          /* send the prompt as one message of role user */
    bool no_stream;        /* write "stream": false */
    /* [field_count] "NAME=VALUE"; VALUE is JSON, or text if it is not valid JSON */
    const char *const *fields;
    size_t field_count;
};

/* Encodes the draft as a record. The caller frees *bytes, which is NULL on an error. */
enum mr_status mr_draft_encode(const struct mr_draft *draft, enum mr_encoding encoding,
                               unsigned char **bytes, size_t *length, struct mr_error *err);

#endif
