/* prefix_index - which tokens are in which block, so that a prompt finds its longest cached prefix.
 *
 * An entry states that block `id` holds the KV of 1..MR_BLOCK_TOKENS tokens that follow the chain
 * with key parent_key. A full entry has a chain key of its own, which is the parent_key of its
 * children; a part-filled entry has no children. All entries are sorted by (parent_key, tokens) in
 * a treap (Seidel & Aragon, "Randomized search trees", 1996). In that order the entry with the
 * longest common prefix with given tokens is next to the position where those tokens would be
 * inserted. So one descent finds the best child of a chain, full or partial match, among any number
 * of siblings. Tokens are compared exactly, not by hash. parent_key derives from the tenant's root,
 * so one tenant never matches the entries of another.
 *
 * An entry with children cannot be removed (asserted); the cache releases blocks leaf first.
 *
 * Owner:  engine thread. Memory: all in _create: per block a node and its tokens.
 * Errors: _create MR_NOMEM. Costs: O(log entries) comparisons for find, insert, remove. */
#ifndef MR_KVCACHE_PREFIX_INDEX_H
#define MR_KVCACHE_PREFIX_INDEX_H

#include "codec/status.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"

struct mr_prefix_index;

/* Tokens that follow a chain. */
struct mr_prefix_entry {
    mr_block_id parent;              /* entry whose key is parent_key; MR_BLOCK_NONE at the root */
    const unsigned char *parent_key; /* [MR_HASH_BYTES] */
    const unsigned char *key;        /* [MR_HASH_BYTES] of a full entry; else ignored */
    const uint32_t *tokens;          /* [token_count] */
    uint32_t token_count;            /* 1..MR_BLOCK_TOKENS */
};

struct mr_prefix_hit {
    mr_block_id id;         /* MR_BLOCK_NONE: no token in common */
    uint32_t common_tokens; /* length of the common prefix */
};

enum mr_status mr_prefix_index_create(struct mr_prefix_index **out, uint32_t block_count,
                                      struct mr_error *err);
/* index may be NULL. */
void mr_prefix_index_destroy(struct mr_prefix_index *index);

/* The entry under parent_key with the longest common prefix with tokens[0..count). */
struct mr_prefix_hit mr_prefix_index_find(const struct mr_prefix_index *index,
                                          const unsigned char parent_key[MR_HASH_BYTES],
                                          const uint32_t *tokens, uint32_t count);
/* Copies the entry. Neither the block nor an equal entry may be in the index (asserted). */
void mr_prefix_index_insert(struct mr_prefix_index *index, mr_block_id id,
                            const struct mr_prefix_entry *entry);
/* The block must be in the index and have no children (asserted). */
void mr_prefix_index_remove(struct mr_prefix_index *index, mr_block_id id);

/* Tokens of the block's entry; 0 when the block is not in the index. */
uint32_t mr_prefix_index_tokens(const struct mr_prefix_index *index, mr_block_id id);
/* Chain key of a full entry, valid until it is removed. */
const unsigned char *mr_prefix_index_key(const struct mr_prefix_index *index, mr_block_id id);
/* Asserts sort order, heap order, parent links and child counts; O(blocks). */
void mr_prefix_index_check(const struct mr_prefix_index *index);

#endif
