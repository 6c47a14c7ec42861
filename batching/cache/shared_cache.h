/* shared_cache - KV shared with other workers through a tier (kvcache/tier.h): which prefixes the
 * engine looks up, loads and stores there.
 *
 * Items. A prompt's full blocks, each under its chain key. Its part-filled last block in pieces of
 *        MR_PIECE_TOKENS, each under the chain key of the tokens up to its end, so that prompts
 * that differ within a block share it up to there. The entry of the complete prompt: its logits and
 * the KV of the tokens behind the last piece. Parts. batching/cache/shared_lookup.h: what the tier
 * holds of a prompt. shared_load.h: loading while the engine computes. shared_store.h: storing.
 * shared_tables.h: blocks the tier uses after their sequence has ended. shared_base.h: their common
 * state. How far each request is: the state machine in batching/sequence/fetch.h. This module
 * creates them, passes on the tier's answers and checks them together.
 *
 * Blocks go without a copy: the tier reads and fills them where they lie in the pool, when the
 * pool's form is the stored one and in reach (model_port.h, kv_bytes_of). A block being read is
 * full and published, so no step writes it; a block being filled is neither read nor written until
 * the tier has verified it and reported it.
 *
 * Owner: engine thread. Memory: all in _create: staging_bytes of buffers and small tables; at a
 * bound nothing is loaded or stored. Clock: none. Errors: _create MR_NOMEM. */
#ifndef MR_BATCHING_CACHE_SHARED_CACHE_H
#define MR_BATCHING_CACHE_SHARED_CACHE_H

#include "batching/cache/shared_base.h"

#define MR_STAGING_BYTES ((uint64_t)256 << 20)

enum mr_status mr_shared_cache_create(struct mr_shared_cache **out,
                                      const struct mr_shared_cache_options *options,
                                      struct mr_error *err);
/* The tier must not touch the staging buffers any more. shared may be NULL. */
void mr_shared_cache_destroy(struct mr_shared_cache *shared);

/* Collects the tier's answers; call before planning. */
void mr_shared_cache_poll(struct mr_shared_cache *shared, uint64_t now_ns);
/* When, after now_ns, a wait for the tier ends by itself; UINT64_MAX: nothing waits. */
uint64_t mr_shared_cache_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns);
struct mr_shared_cache_stats mr_shared_cache_stats(const struct mr_shared_cache *shared);
/* Asserts slots, buffers, tables and request states. */
void mr_shared_cache_check(const struct mr_shared_cache *shared);

#endif
