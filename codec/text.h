/* text - bytes with a length, borrowed from whoever holds them; not NUL-terminated.
 *
 * Pure values. Owner: any. Memory: borrowed. Errors: none. */
#ifndef MR_CODEC_TEXT_H
#define MR_CODEC_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct mr_text {
    const char *bytes;
    size_t length;
};

/* The text is exactly this NUL-terminated word. */
bool mr_text_is(struct mr_text text, const char *word);
/* ASCII white space: space, tab, line feed, vertical tab, form feed, carriage return. */
bool mr_text_is_space(char c);

#endif
