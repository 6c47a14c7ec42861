/* shared_cache - KV shared with other workers through a cache in Redis (interface kvcache/tier.h):
 * which prefixes of prompts the engine looks up, loads and stores there.
 *
 * What Redis holds of a prompt ("item" in names means one of these three values):
 *     block: a full KV block, under its chain key (a hash of all tokens up to its end);
 *     piece: MR_PIECE_TOKENS tokens of the part-filled last block, under the chain key of the
 *     tokens up to the end of the piece, so that prompts that differ within a block share it up to
 *     there;
 *     entry: the complete-prompt entry, with the logits of the last token and the KV of the tokens
 *     behind the last piece.
 *
 * Modules: shared_lookup.h finds what Redis holds of a prompt, shared_load.h loads while the engine
 * computes, shared_store.h stores, shared_tables.h keeps blocks that the Redis cache uses after
 * their sequence has ended, shared_base.h is their common state. The lookup and load state of each
 * request is in batching/sequence/fetch.h. This module creates the others, passes on the answers of
 * the Redis cache and checks all states together.
 *
 * Full blocks go without a copy when kv_bytes_of (batching/base/model_port.h) gives their address:
 * the Redis cache reads and fills them where they lie in the KV pool. A block being read is full
 * and in the prefix index, so no step writes it; a block being filled is neither read nor written
 * by the engine until the Redis cache has verified it and reported it.
 *
 * Owner: engine thread. Memory: all in _create: staging_bytes of buffers and small tables; when
 * these are used up, nothing is loaded or stored. Clock: none. Errors: _create MR_NOMEM. */
#ifndef MR_BATCHING_CACHE_SHARED_CACHE_H
#define MR_BATCHING_CACHE_SHARED_CACHE_H

#include "batching/cache/shared_base.h"

#define MR_STAGING_BYTES ((uint64_t)256 << 20)

enum mr_status mr_shared_cache_create(struct mr_shared_cache **out,
                                      const struct mr_shared_cache_options *options,
                                      struct mr_error *err);
/* shared may be NULL. The Redis cache must not use the staging buffers any more. */
void mr_shared_cache_destroy(struct mr_shared_cache *shared);

/* Processes the answers of the Redis cache that have arrived; call before planning a step. */
void mr_shared_cache_poll(struct mr_shared_cache *shared, uint64_t now_ns);
/* When, after now_ns, the next wait for the Redis cache times out; UINT64_MAX: nothing waits for
 * the Redis cache. */
uint64_t mr_shared_cache_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns);
struct mr_shared_cache_stats mr_shared_cache_stats(const struct mr_shared_cache *shared);
/* Asserts that slots, staging buffers, block tables and the fetch states of requests agree. */
void mr_shared_cache_check(const struct mr_shared_cache *shared);

#endif
