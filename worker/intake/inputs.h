/* inputs - encodes the texts of a request that has several (codec/records/inputs.h): each with the
 * special tokens of the model, a pair of texts as the tokenizer's files say.
 *
 * truncate_prompt_tokens bounds a text with its special tokens, which stay. A pair loses tokens of
 * its longer text first, as in the reference (PyPI `tokenizers`, strategy longest_first).
 *
 * Threads: the intake thread. Memory: the request's arena, and a buffer of the caller.
 * Errors: a text that is too long gets an error of its own. A request is rejected with the first of
 *         these errors if every text has one. */
#ifndef MR_WORKER_INTAKE_INPUTS_H
#define MR_WORKER_INTAKE_INPUTS_H

#include "codec/records/request.h"
#include "codec/tokenizer/tokenizer.h"

struct mr_input_encoder {
    const struct mr_tokenizer *tokenizer;
    struct mr_tokenizer_scratch *scratch;
    uint32_t *ids;       /* [tokens_max] buffer */
    uint32_t tokens_max; /* longest text that the model reads */
};

/* Encodes one text of a request of task embed, classify or rerank. Errors: MR_PROMPT_TOO_LONG;
 * MR_UNSUPPORTED, the tokenizer has no pairs; those of mr_tokenizer_encode. */
enum mr_status mr_input_encode(const struct mr_input_encoder *encoder, struct mr_request *request,
                               struct mr_input *input, struct mr_error *err);
/* Encodes all texts of the request, and sets inputs.token_count. */
enum mr_status mr_inputs_encode(const struct mr_input_encoder *encoder, struct mr_request *request,
                                struct mr_error *err);

#endif
