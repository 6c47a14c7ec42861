/* base64 - encodes and decodes base64, RFC 4648 section 4, with padding and without line breaks.
 *
 * Threads: any (pure functions). Memory: the caller's buffers. Errors: _decode returns false. */
#ifndef MR_CODEC_BASE64_H
#define MR_CODEC_BASE64_H

#include "codec/text.h"

/* Characters that encode `bytes` bytes, without the terminating NUL. */
#define MR_BASE64_CHARS(bytes) (((bytes) + 2) / 3 * 4)

/* Writes MR_BASE64_CHARS(length) characters and a NUL to out. length is below 1 GiB. */
void mr_base64_encode(const unsigned char *bytes, size_t length, char *out);

/* False for text that is not base64 or decodes to more than bytes_max bytes; bytes and *length are
 * then undefined. */
bool mr_base64_decode(struct mr_text text, unsigned char *bytes, size_t bytes_max, size_t *length);

#endif
