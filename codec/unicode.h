/* unicode - properties of characters, decomposition and composition. The only module that knows the
 * Unicode library.
 *
 * The reference tokenizer splits by tables newer than the ones this program may be built with and
 * normalizes by older ones; codec/unicode_tables.h has the differences to Unicode 14, so that ids
 * do not depend on the version of a shared library.
 *
 * Threads: any (pure functions). Memory: only mr_unicode_normalize allocates, and frees before it
 *          returns. Errors: MR_NOMEM. */
#ifndef MR_CODEC_UNICODE_H
#define MR_CODEC_UNICODE_H

#include "codec/buffer.h"

/* A run of code points of one general category: major 'L', minor 'u'. */
struct mr_unicode_range {
    uint32_t first, last;
    char major, minor;
};

/* Category N of the reference's newest Unicode. */
bool mr_unicode_is_numeric(uint32_t code_point);
/* White_Space. */
bool mr_unicode_is_space(uint32_t code_point);
/* What the reference's Punctuation component splits on. */
bool mr_unicode_is_punctuation(uint32_t code_point);
/* Categories Mn, Mc and Me. */
bool mr_unicode_is_mark(uint32_t code_point);
/* A mark the reference's StripAccents takes away: its tables are older. */
bool mr_unicode_is_stripped_mark(uint32_t code_point);
/* Alphabetic, a mark, a decimal digit or a connector: \w. */
bool mr_unicode_is_word(uint32_t code_point);

/* Lower case without context; 1 or 2 code points into out, how many is returned. */
size_t mr_unicode_lower(uint32_t code_point, uint32_t out[2]);

enum mr_normal_form { MR_NFC, MR_NFD, MR_NFKC, MR_NFKD };

/* Appends text, which is valid UTF-8, in that normal form. O(n) for any text, long runs of marks
 * included. */
enum mr_status mr_unicode_normalize(struct mr_text text, enum mr_normal_form form,
                                    struct mr_buffer *out, struct mr_error *err);

/* Ranges assigned after Unicode 14; *count is set. */
const struct mr_unicode_range *mr_unicode_added(size_t *count);

#endif
