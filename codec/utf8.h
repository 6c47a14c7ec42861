/* utf8 - reads and writes the characters of UTF-8, also in bytes that may not be valid.
 *
 * Valid UTF-8 is table 3-7 of the Unicode standard: no surrogates, nothing above U+10FFFF, no
 * overlong forms. Invalid bytes are split as chapter 3.9 recommends, into maximal subparts: the
 * longest beginning of a valid character, or else one byte. One U+FFFD replaces each of them.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_CODEC_UTF8_H
#define MR_CODEC_UTF8_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, written in place of invalid bytes */

struct mr_utf8_step {
    uint8_t length; /* bytes of the character or of the invalid subpart: 1 to 4 */
    bool valid;
    uint32_t code_point; /* the character; U+FFFD when not valid */
};

/* Reads the character, or the invalid subpart, that starts at text.bytes[at]; at < text.length. */
struct mr_utf8_step mr_utf8_next(struct mr_text text, size_t at);

/* True when the bytes from `at` to the end of text are the first bytes of a valid character whose
 * other bytes are missing. */
bool mr_utf8_is_unfinished(struct mr_text text, size_t at);

/* True for a byte that starts a character of valid UTF-8. */
bool mr_utf8_is_start(char byte);
/* Index of the first byte of the character that ends in front of `at`; text is valid UTF-8 and at >
 * 0. */
size_t mr_utf8_previous(struct mr_text text, size_t at);

bool mr_utf8_is_valid(struct mr_text text);

/* Writes the 1 to 4 bytes of a character and returns their number. Asserts that code_point is a
 * Unicode scalar value. */
size_t mr_utf8_put(char out[4], uint32_t code_point);

#endif
