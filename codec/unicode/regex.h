/* regex - regular expressions of tokenizer files. The only module that uses PCRE2.
 *
 * Tokenizer files are written for Oniguruma. codec/unicode/regex_translate.h turns a pattern into
 * one that matches the same text in PCRE2, or refuses it.
 *
 * Threads: an expression is immutable; each thread matches with its own mr_regex_scratch.
 * Memory:  match, heap and stack of a search have limits; the JIT stack is at most 1 MiB a scratch.
 * Errors:  MR_BAD_FILE for a pattern, MR_INVALID_REQUEST for a text that exceeds a limit. */
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

/* Makes the working memory for searches. NULL when memory is out. A scratch can be used with every
 * expression. */
struct mr_regex_scratch *mr_regex_scratch_create(void);
void mr_regex_scratch_destroy(struct mr_regex_scratch *scratch);

/* Position of repeated searches in one text. Set to zero before the first search. */
struct mr_regex_cursor {
    size_t from;
    bool matched;
    size_t last_end; /* end of the last match */
};

struct mr_regex_match {
    bool found;
    size_t start, end;
};

/* Finds the next match from left to right. As in the reference implementation, an empty match at
 * the end of the last match does not count. text is valid UTF-8 and the same in all calls with one
 * cursor. */
enum mr_status mr_regex_next(const struct mr_regex *regex, struct mr_regex_scratch *scratch,
                             struct mr_text text, struct mr_regex_cursor *cursor,
                             struct mr_regex_match *match, struct mr_error *err);

#endif
