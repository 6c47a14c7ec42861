/* jinja_space - the white space of Python's str, which tags with a minus sign, trim, strip and
 * split remove. Unicode's White_Space, and the separators U+001C to U+001F.
 *
 * Threads: any (pure functions). Memory: none. Errors: none; text may be invalid UTF-8. */
#ifndef MR_CODEC_JINJA_JINJA_SPACE_H
#define MR_CODEC_JINJA_JINJA_SPACE_H

#include "codec/text.h"

/* Bytes of the white space character at text.bytes[at]; 0 for any other character and at the end of
 * the text. */
size_t mr_jinja_space_at(struct mr_text text, size_t at);
/* Where the white space at the end of text starts; text.length when there is none. */
size_t mr_jinja_space_start(struct mr_text text);

#endif
