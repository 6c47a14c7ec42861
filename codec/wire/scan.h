/* scan - finds a member of the root map in a record that the parsers reject, for example because it
 * is cut off, too large or malformed after that member. So the result of a record that cannot be
 * decoded still has its id.
 *
 * One pass over the bytes, up to the first syntax error. The first byte decides the encoding. If a
 * name is repeated, its first member is used.
 *
 * Threads: any (pure functions). Memory: none; *value is borrowed. Errors: none. */
#ifndef MR_CODEC_WIRE_SCAN_H
#define MR_CODEC_WIRE_SCAN_H

#include "codec/text.h"

/* Sets *value to the record's bytes from the member's value to the end of the record. False if
 * there is no such member before the first error. */
bool mr_scan_member(struct mr_text record, const char *name, struct mr_text *value);
/* Copies the text at the start of `value` to out[room], without a NUL, and returns its length.
 * Returns 0 if `value` does not start with a text, or if that text is empty, has JSON escapes above
 * U+00FF, or is longer than `room` bytes. */
size_t mr_scan_text(struct mr_text value, char *out, size_t room);

#endif
