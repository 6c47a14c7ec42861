/* text - a pointer to bytes and their length. The bytes are not NUL-terminated.
 *
 * Threads: any (pure functions). Memory: the bytes are borrowed from their owner. Errors: none. */
#ifndef MR_CODEC_TEXT_H
#define MR_CODEC_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct mr_text {
    const char *bytes;
    size_t length;
};

/* The bytes [start, end) of a text. */
struct mr_text_range {
    size_t start, end;
};

bool mr_text_equal(struct mr_text a, struct mr_text b);
/* True when text equals this NUL-terminated word. */
bool mr_text_is(struct mr_text text, const char *word);
/* Like mr_text_is, but ignores the case of ASCII letters. */
bool mr_text_is_any_case(struct mr_text text, const char *word);
/* The bytes [start, end) of text, borrowed; start <= end <= text.length. */
struct mr_text mr_text_part(struct mr_text text, size_t start, size_t end);
/* True for ASCII white space: space, tab, line feed, vertical tab, form feed, carriage return. */
bool mr_text_is_space(char c);
/* The part of text between the white space at its ends, borrowed. */
struct mr_text mr_text_trim(struct mr_text text);
/* The value of a hexadecimal digit of either case, -1 for any other character. */
int mr_text_hex_value(char c);

#endif
