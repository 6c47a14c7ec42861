/* message - splits the text of an answer into reasoning, content and tool calls, as the message of
 * an assistant has them in OpenAI's form.
 *
 * Reasoning is what stands before </think>, or all of a text that begins with <think> and does not
 * close it. Calls are looked for behind it.
 *
 * Threads: any (pure functions). Memory: the caller's arena. Errors: MR_NOMEM. */
#ifndef MR_CODEC_RECORDS_MESSAGE_H
#define MR_CODEC_RECORDS_MESSAGE_H

#include "codec/records/request.h"
#include "codec/records/result.h"

/* Fills the members of *choice from its text if the request has tools or separate_reasoning. */
enum mr_status mr_message_split(struct mr_choice *choice, const struct mr_request *request,
                                struct mr_arena *arena, struct mr_error *err);
#endif
