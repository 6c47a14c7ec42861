/* prompt - a request's prompt as token ids: text through the tokenizer, messages through the
 * model's chat template and then the tokenizer.
 *
 * The rendered chat is encoded as one text, so that the token ids equal those of HF transformers;
 * special tokens that the template wrote become their ids. The text of the request is barred from
 * control tokens (codec/tokenizer/added_tokens.h): one that a user writes stays text, and changes
 * nothing around it.
 *
 * truncate_prompt_tokens cuts the tokens of the rendered prompt; with it no prompt is too long.
 * With echo the text that the answer continues is kept (request->echoed).
 *
 * Continuations of task score are encoded each by itself; special tokens in them are found as in
 * `prompt`, and stay text behind messages.
 *
 * Tools: the chat template says how the model writes calls (codec/tools). As in transformers, a
 * request with a list of tools is rendered with the template that the model has for them.
 *
 * A request with a response_format also gets its grammar, compiled here or found in the cache of
 * grammars (worker/intake/grammars.h). It begins behind the reasoning of a split answer that the
 * prompt has opened.
 *
 * Owner:  one thread per object. Memory: ids are in the request's arena; a work buffer as large as
 *         the longest prompt. Errors: MR_PROMPT_TOO_LONG, MR_EMPTY_PROMPT, MR_INVALID_REQUEST (the
 *         chat template reports an error, or the model has none), MR_MALFORMED. */
#ifndef MR_WORKER_INTAKE_PROMPT_H
#define MR_WORKER_INTAKE_PROMPT_H

#include "codec/records/request.h"
#include "codec/template/chat_template.h"
#include "codec/tokenizer/tokenizer.h"

struct mr_prompt;

struct mr_prompt_options {
    const struct mr_tokenizer *tokenizer;
    struct mr_text chat_template; /* empty: requests with chat messages are refused */
    struct mr_text tool_template; /* for those with tools, in place of the other; empty: the same */
    struct mr_special_texts special;
    uint32_t prompt_tokens_max;
};

enum mr_status mr_prompt_create(struct mr_prompt **out, const struct mr_prompt_options *options,
                                struct mr_error *err);
void mr_prompt_destroy(struct mr_prompt *prompt);
/* Renders the messages of a request; the text is in the request's arena. */
enum mr_status mr_prompt_render(const struct mr_prompt *prompt, const struct mr_request *request,
                                uint64_t unix_seconds, struct mr_rendered *out,
                                struct mr_error *err);
/* Fills request->token_ids and token_count with the encoded prompt, unless the request came with
 * token ids. */
enum mr_status mr_prompt_encode(struct mr_prompt *prompt, struct mr_request *request,
                                uint64_t unix_seconds, struct mr_error *err);

#endif
