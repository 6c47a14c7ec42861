/* kv_cache - the façade over block pool, prefix index and block tables: the only header of this
 * folder that batching/ includes; it brings tier.h and kv_window.h along. Ids, hashes and counts;
 * never a tensor.
 *
 * A sequence holds a block table: the blocks of its tokens in order, some shared with other
 * sequences and with the prefix index. Blocks whose KV has been computed are published under the
 * chain of what precedes them and found again by _match.
 *   - Full blocks are shared by reference and never written again.
 *   - Inside the first block that differs, and from part-filled blocks, the common tokens are
 *     handed on as a copy order into a block of the asker's own, so a match is exact to the token
 *     although blocks are large. The owner of a part-filled published block may go on appending
 *     to it: tokens already published do not change, and nobody reads beyond them.
 *   - A table that publishes a full block which the index already has gives up its own and holds
 *     that one instead, so equal blocks are kept once: read table->blocks anew for every batch.
 * Whoever holds a block holds all of its chain, and lets go tail first; so a chain is evicted from
 * its end and what is indexed can always be reached.
 *
 * Owner:  engine thread. Memory: all in _create. No clock: now_ns is passed in.
 * Errors: _create, _reserve (MR_FULL, nothing changed). Everything else asserts.
 * Invariant: free + cached + held == block_count, proved by mr_kv_cache_check(). */
#ifndef MR_KVCACHE_KV_CACHE_H
#define MR_KVCACHE_KV_CACHE_H

#include "codec/status.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"
#include "kvcache/kv_window.h"
#include "kvcache/tier.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_kv_cache;

struct mr_kv_cache_options {
    uint32_t block_count;
    uint32_t sequence_tokens_max; /* longest sequence: bounds a block table */
    uint32_t sequences_max;       /* block tables alive at once */
    uint32_t kept_max;            /* blocks _keep may keep; 0: it does nothing */
    bool prefix_cache;            /* false: _match never finds anything */
    uint32_t window_slots;        /* of the sliding-window layers; 0: no layer slides, and */
    uint32_t window_tokens;       /* the window is ignored */
    uint32_t step_tokens;         /* most tokens of one sequence in one step */
};

/* The identity of everything a block's bytes depend on besides its tokens: weights digest,
 * tokenizer digest, geometry, rope, kv dtype, layout, block size. mr_kv_cache_namespace() adds the
 * tenant. */
struct mr_kv_fingerprint {
    unsigned char bytes[MR_HASH_BYTES];
};

/* A sequence's blocks. Made by _table_create within sequences_max; fields are read-only outside. */
struct mr_block_table {
    struct mr_kv_cache *cache;
    mr_block_id *blocks; /* [block_count], capacity for sequence_tokens_max */
    uint32_t *slots;     /* the same for sliding layers, of blocks [window_begin, window_end) */
    uint32_t block_count, window_begin, window_end;
    uint32_t published_tokens;         /* tokens [0, published_tokens) are in the prefix index */
    unsigned char root[MR_HASH_BYTES]; /* h_{-1}: fingerprint and tenant namespace */
    unsigned char tail[MR_HASH_BYTES]; /* chain key of the last full published block */
    /* private to kvcache/ */
    mr_block_id copy_from;                 /* of an open copy order; MR_BLOCK_NONE */
    uint32_t asked_tokens, matched_tokens; /* of the last _match, taken back when it is repeated */
    uint32_t promised_slots, usual_slots;  /* the second: without what a load takes */
};

struct mr_kv_match {
    uint32_t token_count; /* tokens found, those to be copied included */
    /* Copy order: the engine copies KV of the first copy_tokens tokens of block copy_from into
     * block copy_to before the step, then calls mr_kv_cache_copied(). copy_tokens 0: nothing to
     * copy. */
    mr_block_id copy_from, copy_to;
    uint32_t copy_tokens;
};

struct mr_kv_cache_stats {
    uint32_t block_count, free_count, cached_count, held_count;
    uint32_t kept_count; /* among the cached ones */
    uint64_t queries_tokens, hit_tokens, evictions, copies;
    uint64_t oldest_cached_ns; /* when the next block to be evicted was let go; 0: none is cached */
    uint32_t slot_count, slots_free, slots_cached; /* of sliding layers; the others are needed */
};

enum mr_status mr_kv_cache_create(struct mr_kv_cache **out,
                                  const struct mr_kv_cache_options *options, struct mr_error *err);
void mr_kv_cache_destroy(struct mr_kv_cache *cache);

/* h_{-1} of a tenant: SHA-256 over the length-framed, tagged fingerprint and tenant name. */
void mr_kv_cache_namespace(const struct mr_kv_fingerprint *fingerprint, const char *tenant,
                           unsigned char root[MR_HASH_BYTES]);

/* NULL when sequences_max tables are alive. */
struct mr_block_table *mr_block_table_create(struct mr_kv_cache *cache,
                                             const unsigned char root[MR_HASH_BYTES]);
/* Releases the blocks tail first (so a chain's head is evicted last), frees the table. */
void mr_block_table_destroy(struct mr_block_table *table, uint64_t now_ns);

/* How many tokens of this prompt _match would find now, without holding anything. */
uint32_t mr_kv_cache_probe(const struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                           const uint32_t *tokens, uint32_t count);
/* On an empty table: holds the blocks of the longest cached prefix of tokens[0..count), never all
 * of it (one token is left to compute). May be called again at the next round while the table holds
 * nothing computed. */
void mr_kv_cache_match(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                       struct mr_kv_match *match);
/* The same for all of tokens[0..count), for a prompt whose next-token logits are known: true when
 * all of it was found, else the table is left empty. */
bool mr_kv_cache_match_whole(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                             struct mr_kv_match *match);
/* Name of a complete prompt within a tenant: the key of its logits in the prompt cache. */
void mr_kv_cache_prompt_key(struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                            const uint32_t *tokens, uint32_t count,
                            unsigned char key[MR_HASH_BYTES]);
/* Chain keys of the first block_count full blocks of tokens: keys[block_count][MR_HASH_BYTES]. */
void mr_kv_cache_keys(struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                      const uint32_t *tokens, uint32_t block_count, unsigned char *keys);
/* Chain key of the first count tokens of a block that follows the one named parent. */
void mr_kv_cache_piece_key(struct mr_kv_cache *cache, const unsigned char parent[MR_HASH_BYTES],
                           const uint32_t *tokens, uint32_t count,
                           unsigned char key[MR_HASH_BYTES]);
/* Chain key of a published full block, valid while it is held. */
const unsigned char *mr_kv_cache_block_key(const struct mr_kv_cache *cache, mr_block_id id);
/* Ends the copy order of the last _match: lets go of copy_from. */
void mr_kv_cache_copied(struct mr_block_table *table, struct mr_kv_match *match);

/* Makes the table cover token_count tokens, evicting cached blocks as needed. All or nothing. */
enum mr_status mr_kv_cache_reserve(struct mr_block_table *table, uint32_t token_count);
/* tokens[0..computed) of this sequence have their KV in the table's blocks: puts blocks not yet
 * published into the prefix index (full ones; also the last part-filled one when `final`: at the
 * end of a prompt and at the end of the sequence, say; more may be appended and published later).
 * tokens is the whole sequence from its start. Call only after the step that wrote them. */
void mr_kv_cache_publish(struct mr_block_table *table, const uint32_t *tokens, uint32_t computed,
                         bool final);
/* What is published of this table is evicted only after everything that is not kept, until then:
 * a conversation that goes on. The blocks stay cached ones, so they are in nobody's way. */
void mr_kv_cache_keep(struct mr_block_table *table, uint64_t until_ns);
/* Gives all blocks back (preemption); published ones stay findable until evicted. */
void mr_block_table_clear(struct mr_block_table *table, uint64_t now_ns);

/* Blocks a _reserve could still get: free + cached. */
uint32_t mr_kv_cache_available(const struct mr_kv_cache *cache);
struct mr_kv_cache_stats mr_kv_cache_stats(const struct mr_kv_cache *cache);
/* Asserts every invariant; O(blocks). */
void mr_kv_cache_check(const struct mr_kv_cache *cache);

#endif
