/* response - writes what OpenAI's API returns for a call, from the call's result record.
 *
 * Chat completions, text completions, a list of embeddings, a Response or a list of ranked
 * documents, by the endpoint. The finish reason is stop if the text is complete, tool_calls if the
 * answer has calls, else length. Reasoning is written as reasoning_content and as reasoning,
 * because clients read either. A log-probability has `bytes` if its token is whole characters.
 *
 * A result with an error, also one with a part of the answer, has an error object in place of the
 * response (codec/openai/error.h).
 *
 * codec/openai/responses.c writes the Response of /v1/responses.
 *
 * Threads: any (pure functions). Memory: the writer's. Errors: the writer's, at its _take; members
 * that a result lacks are written as empty or null. */
#ifndef MR_CODEC_OPENAI_RESPONSE_H
#define MR_CODEC_OPENAI_RESPONSE_H

#include "codec/openai/endpoint.h"
#include "codec/openai/error.h"
#include "codec/wire/json_writer.h"

struct mr_openai_answer {
    enum mr_openai_endpoint endpoint;
    struct mr_text id;       /* of the request; the response's id is a prefix and this */
    int64_t created_s;       /* Unix time */
    struct mr_value request; /* body of the call, a map */
    struct mr_value result;  /* root of the result record, a map */
    /* For a Response of a stream only. unfinished: the answer is being computed, or has failed with
     * `error`; result is then any map without the members of a result. model: unless the result
     * has it. */
    bool unfinished;
    const struct mr_openai_error *error;
    struct mr_text model;
};

/* Writes the response object. The result has no error (mr_openai_result_failed). */
void mr_openai_put_response(struct mr_json_writer *writer, const struct mr_openai_answer *answer);

/* ---- for the files of this room ---- */

struct mr_openai_head {
    struct mr_text id, model;
    int64_t created_s;
};

/* Writes the members id, with this prefix, object, created and model. */
void mr_openai_put_head(struct mr_json_writer *writer, const char *prefix, const char *object,
                        const struct mr_openai_head *head);
/* Writes the member usage. */
void mr_openai_put_usage(struct mr_json_writer *writer, struct mr_value result);
/* finish_reason of an answer: the root of a result or one of its choices. */
const char *mr_openai_finish(struct mr_value answer);
/* The answer's text without calls and reasoning. */
struct mr_text mr_openai_content(struct mr_value answer);
/* The number of choices of a result, and one of them. */
size_t mr_openai_choice_count(struct mr_value result);
struct mr_value mr_openai_choice(struct mr_value result, size_t index);
/* Writes the Response of /v1/responses. */
void mr_openai_put_responses_object(struct mr_json_writer *writer,
                                    const struct mr_openai_answer *answer);

#endif
