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
 * Threads: any (pure functions). Memory: the writer's. Errors: the writer's, at its _take; members
 * that a result lacks are written as empty or null. */
#ifndef MR_CODEC_OPENAI_RESPONSE_H
#define MR_CODEC_OPENAI_RESPONSE_H

#include "codec/openai/answer.h"
#include "codec/wire/json_writer.h"

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
#endif
