/* charsmap - the precompiled character map of SentencePiece: the sequences of characters that a
 * normalizer replaces, and their replacements.
 *
 * The map is a block of bytes: the size of a trie, the trie (a double array as in Yata,
 * "Darts-clone", 2011: 32-bit little-endian units), and the replacements, each ended by a byte of
 * value 0. It comes from a file, so every index is checked.
 *
 * Threads: immutable. Memory: a copy of the block. Errors: MR_BAD_FILE, MR_NOMEM. */
#ifndef MR_CODEC_UNICODE_CHARSMAP_H
#define MR_CODEC_UNICODE_CHARSMAP_H

#include "codec/status.h"
#include "codec/text.h"

struct mr_charsmap;

enum mr_status mr_charsmap_create(struct mr_charsmap **out, struct mr_text block,
                                  struct mr_error *err);
/* map may be NULL. */
void mr_charsmap_destroy(struct mr_charsmap *map);

/* Looks up the sequences of the map that text starts with, and takes the longest, or with
 * `shortest` the shortest of them. Sets *replacement to its replacement, which lives as long as the
 * map, and returns its length in bytes; 0 when text starts with none. */
size_t mr_charsmap_find(const struct mr_charsmap *map, struct mr_text text, bool shortest,
                        struct mr_text *replacement);

#endif
