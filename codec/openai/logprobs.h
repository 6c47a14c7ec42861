/* logprobs - writes the log-probabilities of a result in the three forms of OpenAI's API.
 *
 * Threads: any (pure functions). Memory: the writer's. Errors: the writer's. */
#ifndef MR_CODEC_OPENAI_LOGPROBS_H
#define MR_CODEC_OPENAI_LOGPROBS_H

#include "codec/wire/json_writer.h"
#include "codec/wire/value.h"

/* Each writes a value. logprobs: the array of a result or a token record. */

/* {content: [{token, logprob, bytes, top_logprobs}], refusal}, of a chat completion. */
void mr_openai_put_chat_logprobs(struct mr_json_writer *writer, struct mr_value logprobs);
/* {tokens, token_logprobs, top_logprobs, text_offset}, of a text completion. Offsets count bytes.
 */
void mr_openai_put_text_logprobs(struct mr_json_writer *writer, struct mr_value logprobs);
/* [{token, logprob, bytes, top_logprobs}], of a Response. */
void mr_openai_put_logprob_list(struct mr_json_writer *writer, struct mr_value logprobs);

#endif
