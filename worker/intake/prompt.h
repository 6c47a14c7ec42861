/* prompt - encodes a request's prompt as token ids. Text goes through the tokenizer; messages go
 * through the model's chat template and then the tokenizer.
 *
 * The rendered chat is encoded as one text, so that the token ids equal those of HF transformers.
 * Special tokens that the template wrote become their ids. Control tokens in the text of the
 * request stay text and change nothing around them (codec/tokenizer/added_tokens.h).
 *
 * truncate_prompt_tokens cuts the tokens of the rendered prompt, so a request with it is never
 * rejected for its length. With echo, the text that the answer continues is kept (request->echoed).
 *
 * thinking_token_budget: the tokens that end reasoning, and the words that begin and end it, are
 * set here.
 *
 * A stop string that is the name of a control token becomes a stop token, because control tokens
 * have no text in the answer. If the request shows them as text, it stays a stop string.
 *
 * Continuations of task score are encoded one by one. After a text prompt their special tokens
 * become ids; after messages they stay text.
 *
 * Tools: the chat template determines the format in which the model writes calls (codec/tools). As
 * in transformers, a request with tools is rendered with the model's template for tools, if it has
 * one.
 *
 * A request with a response_format also gets its grammar (worker/intake/grammars.h). If the last
 * turn of the prompt opens reasoning (codec/records/opened.h) and the answer is split, the grammar
 * applies after the reasoning.
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
    struct mr_text tool_template; /* for requests with tools; empty: chat_template */
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
/* Fills request->token_ids and token_count, unless the request already has token ids. Also encodes
 * continuations, sets the tool format and compiles the grammar. */
enum mr_status mr_prompt_encode(struct mr_prompt *prompt, struct mr_request *request,
                                uint64_t unix_seconds, struct mr_error *err);

#endif
