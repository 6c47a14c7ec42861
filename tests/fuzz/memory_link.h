/* memory_link - replaces kvcache/remote/redis_conn_link.c in fuzz targets: every connection opens
 * immediately, discards written bytes, and reads the bytes given here.
 *
 * The bytes are turns of a server, each a length (u8) and this many bytes. A turn can be read once
 * the client has written after the previous turn, because a server only answers.
 *
 * Threads: one. Memory: the bytes are borrowed until the next call of _set. */
#ifndef MR_TESTS_FUZZ_MEMORY_LINK_H
#define MR_TESTS_FUZZ_MEMORY_LINK_H

#include "codec/text.h"

#include <stdbool.h>
#include <stdint.h>

/* All connections share the turns. seed: decides where reads end; 0: a read returns all available
 * bytes. */
void memory_link_set(struct mr_text turns, uint8_t seed);
/* True when every byte has been read. */
bool memory_link_is_empty(void);

#endif
