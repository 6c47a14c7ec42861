/* prefix_index - which tokens are in which block, so that a prompt finds its longest cached prefix.
 *
 * An entry says: block `id` holds the KV of these tokens (1..MR_BLOCK_TOKENS of them), which follow
 * the chain named parent_key. Full entries have a chain key of their own, under which their
 * children hang; part-filled ones are always leaves. All entries stand in one order, by
 * (parent_key, tokens), kept as a treap (Seidel & Aragon, "Randomized search trees", 1996). In that
 * order the entry with the longest run in common with any given tokens is a neighbour of the place
 * where those tokens would stand, so one descent finds the best child of a chain, full match or
 * partial, among any number of siblings, and compares tokens exactly: no hash is trusted for them.
 * Tenants cannot meet, because parent_key comes from the tenant's root.
 *
 * An entry with children cannot be removed (asserted); the cache lets blocks go leaf first.
 *
 * Owner:  engine thread. Memory: all in _create: per block a node and its tokens.
 * Errors: _create MR_NOMEM. Costs: O(log entries) comparisons for find, insert, remove. */
#ifndef MR_KVCACHE_PREFIX_INDEX_H
#define MR_KVCACHE_PREFIX_INDEX_H

#include "codec/status.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"

struct mr_prefix_index;

/* What an entry is: tokens following a chain. key is needed for a full entry, else ignored. */
struct mr_prefix_entry {
    mr_block_id parent;              /* entry whose key is parent_key; MR_BLOCK_NONE at the root */
    const unsigned char *parent_key; /* [MR_HASH_BYTES] */
    const unsigned char *key;        /* [MR_HASH_BYTES] */
    const uint32_t *tokens;          /* [token_count] */
    uint32_t token_count;            /* 1..MR_BLOCK_TOKENS */
};

struct mr_prefix_hit {
    mr_block_id id;         /* MR_BLOCK_NONE when nothing is in common */
    uint32_t common_tokens; /* leading tokens in common */
};

enum mr_status mr_prefix_index_create(struct mr_prefix_index **out, uint32_t block_count,
                                      struct mr_error *err);
/* index may be NULL. */
void mr_prefix_index_destroy(struct mr_prefix_index *index);

/* The entry under parent_key with the longest run in common with tokens[0..count). */
struct mr_prefix_hit mr_prefix_index_find(const struct mr_prefix_index *index,
                                          const unsigned char parent_key[MR_HASH_BYTES],
                                          const uint32_t *tokens, uint32_t count);
/* Copies what entry points to. Neither the block nor an equal entry may be here (asserted). */
void mr_prefix_index_insert(struct mr_prefix_index *index, mr_block_id id,
                            const struct mr_prefix_entry *entry);
/* The entry must be here and have no children (asserted). */
void mr_prefix_index_remove(struct mr_prefix_index *index, mr_block_id id);

/* 0 when the block is not in the index. */
uint32_t mr_prefix_index_tokens(const struct mr_prefix_index *index, mr_block_id id);
/* Chain key of a full entry, valid until it is removed. */
const unsigned char *mr_prefix_index_key(const struct mr_prefix_index *index, mr_block_id id);
uint32_t mr_prefix_index_count(const struct mr_prefix_index *index);
/* Asserts order, heap, links and child counts; O(entries). */
void mr_prefix_index_check(const struct mr_prefix_index *index);

#endif
