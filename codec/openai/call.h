/* call - translates the body of a call to OpenAI's API into the value of a request record, in JSON.
 *
 * Most members have the same name and meaning in a record and are copied; the worker checks them.
 * Translated are `input` of embeddings and responses, several forms of `prompt`, and the members in
 * which /v1/responses differs from chat completions. Refused are members without which the answer
 * would be another one and which no record can express, such as previous_response_id.
 *
 * Answers of chat models are requested with separate_reasoning, unless the body sets it: OpenAI's
 * clients expect a content without reasoning.
 *
 * Threads: any (pure functions). Memory: one malloc'ed buffer, owned by the caller.
 * Errors:  MR_INVALID_REQUEST or MR_UNSUPPORTED, whose sentence begins with the member's name;
 *          MR_MALFORMED for a body that is nested too deeply; MR_NOMEM. */
#ifndef MR_CODEC_OPENAI_CALL_H
#define MR_CODEC_OPENAI_CALL_H

#include "codec/openai/endpoint.h"
#include "codec/text.h"

struct mr_openai_call {
    enum mr_openai_endpoint endpoint;
    struct mr_value body; /* a map */
    struct mr_text id;    /* id of the request */
    bool stream;          /* the worker writes token records */
    /* priority and deadline of a body that sets none; priority NULL, timeout_ms 0: none */
    const char *priority;
    int64_t timeout_ms;
};

/* Encodes the record. The caller frees *record, which is NULL on an error. */
enum mr_status mr_openai_call_record(const struct mr_openai_call *call, char **record,
                                     size_t *length, struct mr_error *err);

#endif
