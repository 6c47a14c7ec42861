/* byte_alphabet - byte-level vocabularies write each byte as one printable character, as the GPT-2
 * encoder (2019) does. A byte that is printable in Latin-1 is written as itself. The other 68 bytes
 * are written as U+0100 to U+0143, in byte order.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_CODEC_TOKENIZER_BYTE_ALPHABET_H
#define MR_CODEC_TOKENIZER_BYTE_ALPHABET_H

#include "codec/buffer.h"

/* Writes the character of a byte as UTF-8 to out; returns its length, 1 or 2. */
size_t mr_byte_alphabet_put(char out[4], unsigned char byte);

/* The byte that a character of the alphabet stands for, -1 for a character outside the alphabet. */
int mr_byte_alphabet_byte(uint32_t code_point);

/* Appends the alphabet's character for each byte of text to out; false when they do not fit. */
bool mr_byte_alphabet_encode(struct mr_text text, struct mr_buffer *out);

/* Appends the bytes that the characters of text stand for to out. When a character is outside the
 * alphabet, appends nothing and sets *inside to false. Returns false only when the bytes do not
 * fit. */
bool mr_byte_alphabet_decode(struct mr_text text, struct mr_buffer *out, bool *inside);

#endif
