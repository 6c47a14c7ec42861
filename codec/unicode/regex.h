/* regex - regular expressions of a tokenizer file, the only module that knows PCRE2.
 *
 * Files are written for Oniguruma. A pattern is translated so that it means the same here: \s
 * without U+180E, \w as Unicode's words, scripts by Script (not Script_Extensions), categories
 * completed with the characters Unicode added after 14.0 (codec/unicode/unicode_tables.h). What the
 * two engines read differently and no known file uses is refused, never guessed.
 *
 * Threads: an expression is immutable; each thread matches with its own mr_regex_scratch.
 * Memory:  bounded: match, heap and stack limits are set, JIT stack at most 1 MiB a scratch.
 * Errors:  MR_BAD_FILE for a pattern, MR_INVALID_REQUEST for a text on which a limit was hit. */
#ifndef MR_CODEC_UNICODE_REGEX_H
#define MR_CODEC_UNICODE_REGEX_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_regex;
struct mr_regex_scratch;

enum mr_status mr_regex_create(struct mr_regex **out, struct mr_text pattern, struct mr_error *err);
void mr_regex_destroy(struct mr_regex *regex);

/* NULL when memory is out. Serves any expression. */
struct mr_regex_scratch *mr_regex_scratch_create(void);
void mr_regex_scratch_destroy(struct mr_regex_scratch *scratch);

/* Where a search goes on: zeroed before the first one of a text. */
struct mr_regex_cursor {
    size_t from;
    bool matched;
    size_t last_end; /* of the last match */
};

struct mr_regex_match {
    bool found;
    size_t start, end;
};

/* The next match, in the reference's order: an empty match right behind the last one is passed
 * over. text is valid UTF-8 and the same in all calls with one cursor. */
enum mr_status mr_regex_next(const struct mr_regex *regex, struct mr_regex_scratch *scratch,
                             struct mr_text text, struct mr_regex_cursor *cursor,
                             struct mr_regex_match *match, struct mr_error *err);

#endif
