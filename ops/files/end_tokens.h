/* end_tokens - finds the tokens of a vocabulary that end an answer, by their text. Many GGUF files
 * name only one end token, which for a chat model is often the end of a document instead of the end
 * of a turn. Hugging Face folders list all end tokens.
 *
 * Threads: pure function. Memory: none. Errors: none.
 * Source:  the texts by which llama.cpp finds end tokens (its special_eog_ids), for the supported
 *          families. A model's list of end tokens is short, so the texts that code models write
 *          after a filled-in middle come last. */
#ifndef MR_OPS_FILES_END_TOKENS_H
#define MR_OPS_FILES_END_TOKENS_H

#include "codec/text.h"

#include <stdint.h>

#define MR_END_TOKENS_MAX 18u

/* Writes the ids of the end tokens among tokens[count], in which a token's index is its id, and
 * returns their number. */
uint32_t mr_end_tokens_find(const struct mr_text *tokens, uint32_t count,
                            uint32_t ids[MR_END_TOKENS_MAX]);

#endif
