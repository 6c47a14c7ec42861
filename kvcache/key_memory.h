/* key_memory - which keys were seen lately, for a bounded time and in bounded memory: what a store
 * already has, what was asked for once.
 *
 * A table of buckets of four; in a full bucket the entry that ends first gives way. Forgetting
 * early is allowed, remembering longer is not.
 *
 * Owner: one thread, or under its owner's lock. Memory: all in _create. Errors: _create MR_NOMEM.
 * Clock: passed in. */
#ifndef MR_KVCACHE_KEY_MEMORY_H
#define MR_KVCACHE_KEY_MEMORY_H

#include "codec/status.h"
#include "kvcache/block_hash.h"

struct mr_key_memory;

/* count_max: keys it holds at least some of; rounded up to a power of two. */
enum mr_status mr_key_memory_create(struct mr_key_memory **out, uint32_t count_max,
                                    uint64_t keep_ns, struct mr_error *err);
/* memory may be NULL. */
void mr_key_memory_destroy(struct mr_key_memory *memory);

void mr_key_memory_add(struct mr_key_memory *memory, const unsigned char key[MR_HASH_BYTES],
                       uint64_t now_ns);
bool mr_key_memory_has(const struct mr_key_memory *memory, const unsigned char key[MR_HASH_BYTES],
                       uint64_t now_ns);
void mr_key_memory_remove(struct mr_key_memory *memory, const unsigned char key[MR_HASH_BYTES]);
void mr_key_memory_clear(struct mr_key_memory *memory);

#endif
