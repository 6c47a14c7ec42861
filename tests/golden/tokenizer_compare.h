/* tokenizer_compare - loads a tokenizer and answers the requests of
 * tests/golden/compare_tokenizer.py on stdin. A script uses it to compare millions of strings with
 * the reference.
 *
 * A request is a letter, a byte of flags, a little-endian u32 count and the bytes or ids:
 *   E flags length text   flags 1: begin and end tokens, 2: read special tokens in the text
 *                         answer: u32 count and the ids, or 0xffffffff on an error
 *   D skip count ids      skip 1: without special tokens; answer: u32 length and the text */
#ifndef MR_TESTS_TOKENIZER_COMPARE_H
#define MR_TESTS_TOKENIZER_COMPARE_H

#include "codec/tokenizer/tokenizer.h"

/* path: a .gguf, a tokenizer.json, or a .spec (GGUF metadata as compare_tokenizer.py writes it).
 * Returns NULL if the file cannot be loaded, and prints the reason to stderr. */
struct mr_tokenizer *tokenizer_load(const char *path);

/* Decodes ids into a new text, which the caller frees. */
char *tokenizer_decode(const struct mr_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                       bool skip_special, size_t *length);

/* Answers requests until stdin ends; returns the exit status. */
int tokenizer_compare(const char *path);

#endif
