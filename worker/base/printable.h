/* printable - makes text of producers and servers safe for an operator's terminal. Control
 * characters in such a text could move the cursor, change the terminal's settings or fake lines of
 * a log.
 *
 * The functions escape the control characters C0 (below U+0020), DEL and C1 (U+0080 to U+009F), the
 * characters that reverse the direction of text (U+202A to U+202E, U+2066 to U+2069), and bytes
 * that are not UTF-8.
 *
 * Threads: any (pure functions). Memory: none. Errors: those of the stream, which its owner checks.
 */
#ifndef MR_WORKER_BASE_PRINTABLE_H
#define MR_WORKER_BASE_PRINTABLE_H

#include "codec/text.h"

#include <stdio.h>

/* Prints the text with those characters as \n, \t, \xHH or \uHHHH, except the characters in `kept`.
 */
void mr_print_escaped(FILE *out, struct mr_text text, const char *kept);
/* Prints JSON with those characters, which only its strings can have, as \uHHHH. Bytes that are not
 * UTF-8 are kept. */
void mr_print_escaped_json(FILE *out, struct mr_text json);
/* Replaces each byte of such a character by '?', in a NUL-terminated text. */
void mr_make_printable(char *text);

#endif
