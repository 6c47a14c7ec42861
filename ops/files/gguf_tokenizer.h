/* gguf_tokenizer - creates the tokenizer described by GGUF metadata.
 *
 * Threads: any, one call at a time for a file. Memory: the tokenizer is the caller's and borrows
 * nothing from the file; the text of mr_gguf_token_text is borrowed from the file.
 * Errors:  MR_BAD_FILE names the GGUF key; mr_tokenizer_create's errors. */
#ifndef MR_OPS_FILES_GGUF_TOKENIZER_H
#define MR_OPS_FILES_GGUF_TOKENIZER_H

#include "codec/tokenizer/tokenizer.h"
#include "ops/files/gguf.h"

enum mr_status mr_gguf_tokenizer_create(struct mr_tokenizer **out, const struct mr_gguf *gguf,
                                        struct mr_error *err);
/* Returns the text of the token whose id is the value of `key` (tokenizer.ggml.bos_token_id ...),
 * from the file's vocabulary; empty when the key or the token does not exist. */
struct mr_text mr_gguf_token_text(const struct mr_gguf *gguf, const char *key);

#endif
