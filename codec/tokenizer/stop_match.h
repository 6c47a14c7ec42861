/* stop_match - finds stop strings in the bytes of an answer, also across the borders of tokens.
 *
 * Aho-Corasick ("Efficient string matching", 1975) over the stop strings of one request. Each byte
 * costs O(1). The depth of the automaton's state is the number of bytes at the end that may be the
 * beginning of a stop string: a stream must hold these bytes back. The match that ends first wins;
 * of matches with one end the first in the list wins.
 *
 * Owner:  the sequence. The matcher is immutable and the position is an integer of the caller, so
 *         the choices of one request share a matcher.
 * Memory: one block from _create, at most MR_STOP_COUNT_MAX strings of MR_STOP_BYTES_MAX bytes.
 * Errors: only _create can fail. */
#ifndef MR_CODEC_TOKENIZER_STOP_MATCH_H
#define MR_CODEC_TOKENIZER_STOP_MATCH_H

#include "codec/arena.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_stop_match;

/* Builds the automaton in memory of arena. With stop_count 0 the matcher never matches. Asserts
 * that each stop string has 1 to MR_STOP_BYTES_MAX bytes, which mr_request_decode has checked. */
enum mr_status mr_stop_match_create(struct mr_stop_match **out, struct mr_arena *arena,
                                    const struct mr_text *stops, size_t stop_count,
                                    struct mr_error *err);

struct mr_stop_hit {
    size_t stop_index; /* index of the matched stop string */
    size_t end;        /* end of the match in the bytes of this call */
    /* length in bytes of the matched stop string, which may start in bytes of an earlier call */
    size_t length;
};

/* Feeds the next bytes of the answer and updates *position, which is 0 before the first call.
 * Returns true with *hit filled at the first match, and does not read the bytes after it. */
bool mr_stop_match_feed(const struct mr_stop_match *matcher, uint32_t *position, const char *bytes,
                        size_t length, struct mr_stop_hit *hit);
/* Number of last bytes that may become part of a match: the caller must not send them yet. */
size_t mr_stop_match_held(const struct mr_stop_match *matcher, uint32_t position);

#endif
