/* regex_translate - turns an Oniguruma pattern into the PCRE2 pattern that matches the same text.
 *
 * It changes: \s to White_Space, which excludes U+180E; \w to the characters of Unicode words;
 * scripts to Script instead of Script_Extensions; categories, to which it adds the characters
 * assigned after Unicode 14. It refuses syntax that the two engines read differently and that no
 * known tokenizer file uses.
 *
 * Threads: any (pure function). Memory: appends to the caller's buffer.
 * Errors:  MR_BAD_FILE with the unsupported syntax and its place, MR_NOMEM. */
#ifndef MR_CODEC_UNICODE_REGEX_TRANSLATE_H
#define MR_CODEC_UNICODE_REGEX_TRANSLATE_H

#include "codec/buffer.h"

/* Appends the translated pattern to out. */
enum mr_status mr_regex_translate(struct mr_text pattern, struct mr_buffer *out,
                                  struct mr_error *err);

#endif
