/* gguf_tokenizer - the tokenizer, template texts and end tokens that GGUF metadata carries.
 *
 * Threads: one at a time. Memory: what is returned is new and does not borrow from the file, texts
 * excepted. Errors: MR_BAD_FILE names the key; those of mr_tokenizer_create. */
#ifndef MR_OPS_FILES_GGUF_TOKENIZER_H
#define MR_OPS_FILES_GGUF_TOKENIZER_H

#include "codec/tokenizer/tokenizer.h"
#include "ops/files/gguf.h"

enum mr_status mr_gguf_tokenizer_create(struct mr_tokenizer **out, const struct mr_gguf *gguf,
                                        struct mr_error *err);
/* The vocabulary's own text of the id that stands under `key` (tokenizer.ggml.bos_token_id ...),
 * borrowed from the file; empty when there is none. */
struct mr_text mr_gguf_token_text(const struct mr_gguf *gguf, const char *key);

#endif
