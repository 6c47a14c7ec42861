/* stop_match - stop strings across token borders, several at once, on bytes.
 *
 * Aho-Corasick ("Efficient string matching", 1975) over the request's stop strings: feeding a byte
 * costs O(1), and the automaton's depth is the length of the longest live prefix, which is exactly
 * what a stream must hold back. The match that completes first wins, ties by list order.
 *
 * Owner:  the sequence. Memory: one block made in _create, bounded by MR_STOP_COUNT_MAX strings of
 *         MR_STOP_BYTES_MAX. Errors: only _create. Immutable after creation; the position is a
 *         plain integer the caller keeps, so choices of one request share a matcher. */
#ifndef MR_CODEC_TOKENIZER_STOP_MATCH_H
#define MR_CODEC_TOKENIZER_STOP_MATCH_H

#include "codec/arena.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_stop_match;

/* Built inside arena (freed with it). stop_count 0 gives a matcher that never matches. Each string
 * is 1..MR_STOP_BYTES_MAX bytes (asserted: the request decoder has checked). */
enum mr_status mr_stop_match_create(struct mr_stop_match **out, struct mr_arena *arena,
                                    const struct mr_text *stops, size_t stop_count,
                                    struct mr_error *err);

struct mr_stop_hit {
    size_t stop_index; /* which string */
    size_t end;        /* index just behind the match in the bytes fed now */
    size_t length;     /* of the matched string: the match starts `length` bytes before `end`,
                          possibly in bytes fed earlier */
};

/* Feeds bytes from *position (0 at the start) and stops at the first completed match: true and *hit
 * filled. Otherwise false, with *position moved on. */
bool mr_stop_match_feed(const struct mr_stop_match *matcher, uint32_t *position, const char *bytes,
                        size_t length, struct mr_stop_hit *hit);
/* Bytes at the end of what was fed that may still become a match: hold that many back. */
size_t mr_stop_match_held(const struct mr_stop_match *matcher, uint32_t position);

#endif
