/* responses - writes the Response object of /v1/responses. Output items are a message, function
 * calls and reasoning; members that a Response repeats come from the request's body.
 *
 * Threads: any (pure functions). Memory: the writer's. Errors: the writer's, at its _take. */
#ifndef MR_CODEC_OPENAI_RESPONSES_H
#define MR_CODEC_OPENAI_RESPONSES_H

#include "codec/openai/answer.h"
#include "codec/wire/json_writer.h"

void mr_openai_put_responses_object(struct mr_json_writer *writer,
                                    const struct mr_openai_answer *answer);

#endif
