/* utf8 - walking over bytes that may or may not be UTF-8.
 *
 * Well-formed means table 3-7 of the Unicode standard: no surrogates, nothing above U+10FFFF, no
 * overlong forms. An ill-formed place is the maximal subpart of chapter 3.9: the longest prefix of
 * a well-formed character, at least one byte, which is replaced by one U+FFFD.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_CODEC_UTF8_H
#define MR_CODEC_UTF8_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

struct mr_utf8_step {
    uint8_t length; /* bytes of the character or of the maximal ill-formed subpart: 1..4 */
    bool valid;
    uint32_t code_point; /* U+FFFD when not valid */
};

/* The character at text.bytes[at]; at < text.length. */
struct mr_utf8_step mr_utf8_next(struct mr_text text, size_t at);

/* True when the bytes at the end (1 to 3 of them, from at) are the beginning of a character that
 * further bytes may complete. */
bool mr_utf8_is_unfinished(struct mr_text text, size_t at);

/* True for a byte that starts a character of valid UTF-8. */
bool mr_utf8_is_start(char byte);
/* Index of the character that ends in front of `at`; text is valid UTF-8 and at > 0. */
size_t mr_utf8_previous(struct mr_text text, size_t at);

bool mr_utf8_is_valid(struct mr_text text);

/* Writes the character's 1 to 4 bytes and returns how many. code_point must be a scalar value. */
size_t mr_utf8_put(char out[4], uint32_t code_point);

#endif
