/* tokenizer_compare - the far end of tests/golden/compare_tokenizer.py: loads a tokenizer and
 * answers requests on stdin, so that a script can compare millions of strings.
 *
 * A request is a letter, a byte of flags, a little-endian u32 count and the bytes or ids:
 *   E flags length text   flags 1: begin and end tokens, 2: read special tokens in the text
 *                         answered by u32 count and the ids, or 0xffffffff on an error
 *   D skip count ids      skip 1: without special tokens; answered by u32 length and the text */
#ifndef MR_TESTS_TOKENIZER_COMPARE_H
#define MR_TESTS_TOKENIZER_COMPARE_H

#include "codec/tokenizer/tokenizer.h"

/* path: a .gguf, a tokenizer.json, or a .spec (GGUF's arrays as compare_tokenizer.py writes them).
 * NULL when it does not load, with the reason on stderr. */
struct mr_tokenizer *tokenizer_load(const char *path);

/* Decodes ids into a new text of the caller. */
char *tokenizer_decode(const struct mr_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                       bool skip_special, size_t *length);

/* Until stdin ends; the exit status. */
int tokenizer_compare(const char *path);

#endif
