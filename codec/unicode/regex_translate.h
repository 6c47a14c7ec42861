/* regex_translate - an Oniguruma pattern as the PCRE2 pattern that matches the same.
 *
 * Threads: any (pure function). Memory: appends to the caller's buffer.
 * Errors:  MR_BAD_FILE with what is not understood, MR_NOMEM. */
#ifndef MR_CODEC_UNICODE_REGEX_TRANSLATE_H
#define MR_CODEC_UNICODE_REGEX_TRANSLATE_H

#include "codec/buffer.h"

enum mr_status mr_regex_translate(struct mr_text pattern, struct mr_buffer *out,
                                  struct mr_error *err);

#endif
