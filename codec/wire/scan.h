/* scan - finds a member of the map at the start of a record that the parsers refuse: broken behind
 * the member, cut off, too large, or with a number that does not fit. So a record that cannot be
 * decoded is still answered under its id.
 *
 * One pass over the bytes, from the first one on, up to the first thing that is neither JSON nor
 * msgpack. The first byte decides the encoding. Of several members with one name the first counts.
 *
 * Threads: any (pure functions). Memory: none; *value is borrowed. Errors: none. */
#ifndef MR_CODEC_WIRE_SCAN_H
#define MR_CODEC_WIRE_SCAN_H

#include "codec/text.h"

/* Sets *value to the record's bytes from the member's value to the end of the record. False: there
 * is no such member in front of the first error. */
bool mr_scan_member(struct mr_text record, const char *name, struct mr_text *value);
/* Copies the text that `value` starts with, without a NUL; returns its length, or 0 when that is no
 * text, is empty, has characters above U+00FF as JSON escapes, or has more than `room` bytes. */
size_t mr_scan_text(struct mr_text value, char *out, size_t room);

#endif
