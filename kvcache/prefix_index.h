/* prefix_index - maps tokens to blocks, to find the longest cached prefix of a prompt.
 *
 * An entry of the index states that block `id` holds the KV of 1..MR_BLOCK_TOKENS tokens that
 * follow the chain with key parent_key. A full entry also has its own chain key, the parent_key of
 * its children; a part-filled entry has no children. All entries are sorted by (parent_key, tokens)
 * in a treap (Seidel & Aragon, "Randomized search trees", 1996). In that order the entry with the
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

/* One entry of the index: the tokens of a block that follow a chain of full blocks. */
struct mr_prefix_entry {
    /* block whose chain key is parent_key; MR_BLOCK_NONE at the start of a prompt */
    mr_block_id parent;
    const unsigned char *parent_key; /* [MR_HASH_BYTES] chain key of the block before */
    /* [MR_HASH_BYTES] chain key of a full block; ignored for a part-filled block */
    const unsigned char *key;
    const uint32_t *tokens; /* [token_count] token ids */
    uint32_t token_count;   /* 1..MR_BLOCK_TOKENS */
};

struct mr_prefix_hit {
    mr_block_id id; /* the block found; MR_BLOCK_NONE: no block has a first token in common */
    /* number of first tokens that the block and the searched tokens share */
    uint32_t common_tokens;
};

enum mr_status mr_prefix_index_create(struct mr_prefix_index **out, uint32_t block_count,
                                      struct mr_error *err);
/* index may be NULL. */
void mr_prefix_index_destroy(struct mr_prefix_index *index);

/* Finds, of the blocks that follow parent_key, the one whose tokens have the longest common prefix
 * with tokens[0..count). */
struct mr_prefix_hit mr_prefix_index_find(const struct mr_prefix_index *index,
                                          const unsigned char parent_key[MR_HASH_BYTES],
                                          const uint32_t *tokens, uint32_t count);
/* Adds block id with a copy of `entry`. Neither the block nor an equal entry may be in the index
 * (asserted). */
void mr_prefix_index_insert(struct mr_prefix_index *index, mr_block_id id,
                            const struct mr_prefix_entry *entry);
/* Removes a block; it must be in the index, and no other block may follow it (asserted). */
void mr_prefix_index_remove(struct mr_prefix_index *index, mr_block_id id);

/* Number of tokens in the block; 0 when the block is not in the index. */
uint32_t mr_prefix_index_tokens(const struct mr_prefix_index *index, mr_block_id id);
/* Chain key of a full block, valid until the block is removed from the index. */
const unsigned char *mr_prefix_index_key(const struct mr_prefix_index *index, mr_block_id id);
/* Asserts the index's sort order, heap order, parent links and child counts; O(blocks). */
void mr_prefix_index_check(const struct mr_prefix_index *index);

#endif
