/* token_trie - the tokens of a vocabulary as a tree of their bytes, to test all of them against a
 * grammar at once.
 *
 * Tokens that consist of plain characters are in a trie of their own. A plain character is U+0020
 * or above, except `"`, `\` and DEL. A grammar state in which any text may follow, such as inside a
 * JSON string, allows all plain tokens, or those of at most n characters. The masks of these sets
 * are computed once. This is the idea of the token slices of llguidance (Microsoft, 2024).
 *
 * Tokens without bytes and those longer than MR_TRIE_TOKEN_BYTES_MAX are left out.
 *
 * Threads: immutable after creation. Memory: about 40 bytes for each token, and a bit mask of the
 *          vocabulary for each number of characters up to MR_TRIE_PLAIN_CHARS_MAX.
 * Errors:  MR_NOMEM. */
#ifndef MR_CODEC_GRAMMAR_TOKEN_TRIE_H
#define MR_CODEC_GRAMMAR_TOKEN_TRIE_H

#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_TRIE_TOKEN_BYTES_MAX 256u
#define MR_TRIE_PLAIN_CHARS_MAX 32u /* a token with more plain characters is in the other trie */

/* The nodes are in depth-first order. */
struct mr_trie_node {
    uint32_t skip;        /* index of the next node outside of this node's subtree */
    uint32_t first_token; /* index in `ids` of the tokens that end here */
    uint16_t token_count;
    uint16_t depth; /* bytes from the root; the first byte has depth 1 */
    uint8_t byte;
};

struct mr_trie {
    struct mr_trie_node *nodes;
    uint32_t node_count;
    uint32_t *ids; /* ids of the tokens, in order of their bytes */
    uint32_t id_count;
};

struct mr_token_trie {
    uint32_t vocab_size, word_count; /* word_count: 64-bit words of a mask */
    struct mr_trie plain, other;
    /* [MR_TRIE_PLAIN_CHARS_MAX + 1][word_count] masks of the plain tokens of at most that many
     * characters */
    uint64_t *plain_masks;
    uint32_t plain_chars; /* the most characters of a plain token */
};

/* tokens: [vocab_size] the bytes of each token; empty for tokens that are never allowed. */
enum mr_status mr_token_trie_create(struct mr_token_trie **out, const struct mr_text *tokens,
                                    uint32_t vocab_size, struct mr_error *err);
void mr_token_trie_destroy(struct mr_token_trie *trie);
/* A token found at the start of some bytes. */
struct mr_trie_match {
    uint32_t id;
    size_t length; /* bytes of the token; 0: no token matches */
    bool shared;   /* other tokens have the same bytes */
    bool goes_on;  /* a longer token begins with all the bytes that were given */
};

/* Finds the longest token that `bytes` begin with; among equal tokens the lowest id. */
struct mr_trie_match mr_token_trie_longest(const struct mr_token_trie *trie, struct mr_text bytes);
/* Bytes of memory. */
size_t mr_token_trie_bytes(const struct mr_token_trie *trie);

#endif
