/* byte_alphabet - the printable character that stands for each byte in byte-level vocabularies.
 *
 * Bytes that are printable in Latin-1 stand for themselves; the other 68 are numbered from U+0100
 * upwards in byte order (the GPT-2 encoder, 2019).
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_CODEC_TOKENIZER_BYTE_ALPHABET_H
#define MR_CODEC_TOKENIZER_BYTE_ALPHABET_H

#include "codec/buffer.h"

/* The character of a byte, 1 or 2 bytes of UTF-8 into out; returns how many. */
size_t mr_byte_alphabet_put(char out[4], unsigned char byte);

/* The byte a character stands for, -1 for a character outside the alphabet. */
int mr_byte_alphabet_byte(uint32_t code_point);

/* Appends the characters of text's bytes; false when they do not fit. */
bool mr_byte_alphabet_encode(struct mr_text text, struct mr_buffer *out);

/* Appends the bytes text's characters stand for. When one of them is outside the alphabet, nothing
 * is appended and *inside is false. The result is false only when the bytes do not fit. */
bool mr_byte_alphabet_decode(struct mr_text text, struct mr_buffer *out, bool *inside);

#endif
