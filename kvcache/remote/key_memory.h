/* key_memory - a set of keys, each remembered for a fixed time, in bounded memory: the keys that
 * Redis has, and the keys that were offered for storing once.
 *
 * A hash table with buckets of four entries. An insert into a full bucket replaces the entry that
 * expires first. A key may thus be forgotten early, but is never remembered longer.
 *
 * Owner: one thread, or under its owner's lock. Memory: all in _create. Errors: _create MR_NOMEM.
 * Clock: passed in. */
#ifndef MR_KVCACHE_REMOTE_KEY_MEMORY_H
#define MR_KVCACHE_REMOTE_KEY_MEMORY_H

#include "codec/status.h"
#include "kvcache/block_hash.h"

struct mr_key_memory;

/* count_max: most keys remembered, rounded up to a power of two. */
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
