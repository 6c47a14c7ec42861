/* end_tokens - finds the tokens of a vocabulary that end an answer, by their text. Many GGUF files
 * name one end token only, which for a chat model is often the end of a document and not that of a
 * turn. Hugging Face folders list all of them.
 *
 * Threads: pure function. Memory: none. Errors: none.
 * Source:  the texts are those by which llama.cpp finds them (its special_eog_ids), for the
 *          families that are served. Those of code models, which write them behind a filled-in
 *          middle, are the last: a model's list of end tokens has room for its first ones. */
#ifndef MR_OPS_FILES_END_TOKENS_H
#define MR_OPS_FILES_END_TOKENS_H

#include "codec/text.h"

#include <stdint.h>

#define MR_END_TOKENS_MAX 18u

/* Sets ids to the ids of the end tokens among tokens[count], whose index is their id; returns how
 * many there are. */
uint32_t mr_end_tokens_find(const struct mr_text *tokens, uint32_t count,
                            uint32_t ids[MR_END_TOKENS_MAX]);

#endif
