/* token_trie - the tokens of a vocabulary as a tree of their bytes, to test all of them against a
 * grammar at once.
 *
 * Tokens of plain characters only are kept apart. A plain character is one of U+0020 and above that
 * JSON does not escape, DEL excepted: not `"`, not `\`. A state of a grammar in which any text may
 * follow, such as the inside of a JSON string, allows all plain tokens, or those of at most n
 * characters: their masks are computed once. This is the idea of the token slices of llguidance
 * (Microsoft, 2024).
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
#define MR_TRIE_PLAIN_CHARS_MAX 32u /* a token of more plain characters counts as not plain */

/* The nodes are in the order of a depth-first walk. */
struct mr_trie_node {
    uint32_t skip;        /* index of the next node that is not below this one */
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
    /* [MR_TRIE_PLAIN_CHARS_MAX + 1][word_count] plain tokens of at most so many characters */
    uint64_t *plain_masks;
    uint32_t plain_chars; /* the most characters of a plain token */
};

/* tokens: [vocab_size] the bytes of each token; empty for tokens that are never allowed. */
enum mr_status mr_token_trie_create(struct mr_token_trie **out, const struct mr_text *tokens,
                                    uint32_t vocab_size, struct mr_error *err);
void mr_token_trie_destroy(struct mr_token_trie *trie);
/* A token that some bytes begin with. */
struct mr_trie_match {
    uint32_t id;
    size_t length; /* of the token; 0: there is none */
    bool shared;   /* other tokens have the same bytes */
    bool goes_on;  /* a token begins with all of the bytes that were looked for, and is longer */
};

/* The token with the most bytes that `bytes` begin with, the lowest id among equals. */
struct mr_trie_match mr_token_trie_longest(const struct mr_token_trie *trie, struct mr_text bytes);
/* Bytes of memory. */
size_t mr_token_trie_bytes(const struct mr_token_trie *trie);

#endif
