/* kv_cache - the KV cache of one engine: one interface to block pool, prefix index, block tables
 * and window slots. batching/ and worker/ use this header, kvcache/fingerprint.h and the remote
 * cache. This module handles ids, hashes and counts, not tensors.
 *
 * A sequence has a block table (block_table.h): the blocks of its tokens in order, some shared with
 * other sequences and with the prefix index. Blocks whose KV has been computed are published in the
 * index under the chain key of the tokens before them, and _match finds them again.
 *   - Full blocks are shared by reference and never written again.
 *   - Inside the first block that differs, and from part-filled blocks, the common tokens are
 *     copied into a block of the new sequence (a copy order), so a match is exact to the token
 *     although blocks are large. The sequence that owns a part-filled published block may append to
 *     it: tokens already published do not change, and only published tokens are read.
 *   - When a table publishes a full block that the index already has, it releases its own block and
 *     holds the indexed one instead, so that equal blocks are stored once. table->blocks must
 *     therefore be read again for every batch.
 * In a model with recurrent layers (state_slots.h) a table has a slot for the sequence's state, and
 * a match ends after the last full block at whose end a state was kept (a snapshot).
 * table->state_from orders the engine to copy this snapshot to table->state before the step.
 *
 * A table that holds a block holds the whole chain before it, and releases it from the tail. So a
 * chain is evicted from its end, and every indexed block can be reached from the root.
 *
 * Owner:  engine thread. Memory: all in _create. No clock: now_ns is passed in.
 * Errors: _create; _reserve (MR_FULL, nothing changed). Everything else asserts.
 * Invariant: free + cached + held == block_count, checked by mr_kv_cache_check(). */
#ifndef MR_KVCACHE_KV_CACHE_H
#define MR_KVCACHE_KV_CACHE_H

#include "kvcache/fingerprint.h"
#include "kvcache/kv_cache_values.h"
#include "kvcache/kv_window.h"
#include "kvcache/remote_cache.h"
#include "kvcache/state_slots.h"

struct mr_kv_cache;

enum mr_status mr_kv_cache_create(struct mr_kv_cache **out,
                                  const struct mr_kv_cache_options *options, struct mr_error *err);
/* cache may be NULL. */
void mr_kv_cache_destroy(struct mr_kv_cache *cache);

/* Writes h_{-1}, the root of a tenant's chain keys: SHA-256 over the length-framed, tagged
 * fingerprint and tenant name. */
void mr_kv_cache_namespace(const struct mr_kv_fingerprint *fingerprint, const char *tenant,
                           unsigned char root[MR_HASH_BYTES]);

/* Takes an empty table for one sequence, whose chain keys start at `root`. NULL: sequences_max
 * tables exist. */
struct mr_block_table *mr_block_table_create(struct mr_kv_cache *cache,
                                             const unsigned char root[MR_HASH_BYTES]);
/* Releases the table's blocks from the last to the first, so that the first tokens' blocks are
 * evicted last. table may be NULL. */
void mr_block_table_destroy(struct mr_block_table *table, uint64_t now_ns);
/* Releases all blocks of the table (preemption); those in the prefix index can be found until they
 * are evicted. */
void mr_block_table_clear(struct mr_block_table *table, uint64_t now_ns);

/* Number of tokens of this prompt that _match would find now. Takes no reference to a block. */
uint32_t mr_kv_cache_probe(const struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                           const uint32_t *tokens, uint32_t count);
/* Takes references to the blocks of the longest cached prefix of tokens[0..count), but never of all
 * tokens: the last token is left to compute. The table must not hold KV computed for this sequence
 * yet; the call may be repeated. */
void mr_kv_cache_match(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                       struct mr_kv_match *match);
/* Like mr_kv_cache_match() for all of tokens[0..count), for a prompt whose next-token logits are
 * known. False: not all of the prompt is cached, and the table is left empty. */
bool mr_kv_cache_match_whole(struct mr_block_table *table, const uint32_t *tokens, uint32_t count,
                             struct mr_kv_match *match);
/* Like mr_kv_cache_match(), for the first token_count tokens of a running sequence with the same
 * root. Its table `from` has their KV, whether or not it is in the prefix index. False: the window
 * has passed some of them; nothing changed. */
bool mr_kv_cache_share(struct mr_block_table *table, const struct mr_block_table *from,
                       uint32_t token_count, struct mr_kv_match *match);
/* Whether a sequence that holds this table can compute the token at `position` next: no layer is
 * recurrent, and the window has all blocks that the token attends to. The KV of the tokens before
 * must be computed. */
bool mr_kv_cache_can_go_back(const struct mr_block_table *table, uint32_t position);
/* Call when the engine has copied the KV that `match` orders to copy: releases the block that was
 * the source. */
void mr_kv_cache_copied(struct mr_block_table *table, struct mr_kv_match *match);

/* Call when the engine has copied the state that table->state_from orders to copy; does nothing
 * without an order. */
void mr_kv_cache_state_copied(struct mr_block_table *table);
/* Returns the slot to which the engine copies the table's state as a snapshot after the first
 * token_count tokens, a multiple of MR_BLOCK_TOKENS; the state must be that after these tokens.
 * MR_NO_STATE: the blocks are not in the prefix index, have a snapshot there, or no slot is left.
 */
uint32_t mr_kv_cache_keep_state(struct mr_block_table *table, uint32_t token_count);

/* Adds blocks to the table until it covers token_count tokens, evicting cached blocks as needed.
 * MR_FULL: nothing changed. */
enum mr_status mr_kv_cache_reserve(struct mr_block_table *table, uint32_t token_count);
/* Puts the blocks whose KV is computed, tokens[0..computed), into the prefix index, unless they are
 * there: the full blocks, and with `final` the part-filled last block too (at the end of a prompt
 * or sequence; more may be appended and published later). tokens is the sequence from its start.
 * Call it only after the step that wrote the blocks. */
void mr_kv_cache_publish(struct mr_block_table *table, const uint32_t *tokens, uint32_t computed,
                         bool final);
/* Keeps the table's blocks that are in the prefix index until until_ns (a conversation that
 * continues): they are evicted only when no other cached block is left. */
void mr_kv_cache_keep(struct mr_block_table *table, uint64_t until_ns);

/* Writes the key of a complete prompt under a tenant's root; its logits are stored under this
 * key. */
void mr_kv_cache_prompt_key(struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                            const uint32_t *tokens, uint32_t count,
                            unsigned char key[MR_HASH_BYTES]);
/* Writes the chain keys of the first block_count full blocks of tokens:
 * keys[block_count][MR_HASH_BYTES]. */
void mr_kv_cache_keys(struct mr_kv_cache *cache, const unsigned char root[MR_HASH_BYTES],
                      const uint32_t *tokens, uint32_t block_count, unsigned char *keys);
/* Writes the chain key of the first count tokens of the block that follows the block with key
 * `parent`. */
void mr_kv_cache_piece_key(struct mr_kv_cache *cache, const unsigned char parent[MR_HASH_BYTES],
                           const uint32_t *tokens, uint32_t count,
                           unsigned char key[MR_HASH_BYTES]);
/* Chain key of a full block that is in the prefix index; valid while the block is held. */
const unsigned char *mr_kv_cache_block_key(const struct mr_kv_cache *cache, mr_block_id id);

/* Sliding-window slot of a held block; UINT32_MAX: the block has none, or no layer has a sliding
 * window. */
uint32_t mr_kv_cache_slot(const struct mr_kv_cache *cache, mr_block_id id);
/* Whether the block has the KV of every layer, including those with a sliding window. */
bool mr_kv_cache_is_complete(const struct mr_kv_cache *cache, mr_block_id id);

/* Number of blocks that _reserve could still take: free + cached. */
uint32_t mr_kv_cache_available(const struct mr_kv_cache *cache);
struct mr_kv_cache_stats mr_kv_cache_stats(const struct mr_kv_cache *cache);
/* Asserts every invariant of the cache; O(blocks). */
void mr_kv_cache_check(const struct mr_kv_cache *cache);

#endif
