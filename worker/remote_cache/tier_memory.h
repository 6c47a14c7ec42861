/* tier_memory - memory allocator for the lookups, loads and stores that wait in the queue of the
 * Redis cache: one block of memory is made at creation; pieces of any size are taken from it and
 * returned in any order. So a request to the Redis cache costs the engine's step no malloc.
 *
 * First fit by address; adjacent free pieces are merged during the search. There are few pieces (at
 * most MR_TIER_JOBS_MAX), mostly returned in the order in which they were taken. Pages of the block
 * that are never needed are never touched.
 *
 * Owner: one thread at a time; the queue calls it under its lock. Memory: all of it in _create.
 * Errors: _create MR_NOMEM; _take returns NULL when no gap is large enough. */
#ifndef MR_WORKER_REMOTE_CACHE_TIER_MEMORY_H
#define MR_WORKER_REMOTE_CACHE_TIER_MEMORY_H

#include "codec/status.h"

#include <stddef.h>

struct mr_tier_memory;

enum mr_status mr_tier_memory_create(struct mr_tier_memory **out, size_t bytes,
                                     struct mr_error *err);
/* Frees the whole block, with the pieces still in use. memory may be NULL. */
void mr_tier_memory_destroy(struct mr_tier_memory *memory);

/* Returns a zeroed piece, aligned like memory from malloc; NULL when no gap is large enough. */
void *mr_tier_memory_take(struct mr_tier_memory *memory, size_t bytes);
void mr_tier_memory_give(struct mr_tier_memory *memory, void *bytes);

/* Returns the bytes in use, piece headers included. Asserts that the pieces fill the block without
 * gaps. */
size_t mr_tier_memory_check(const struct mr_tier_memory *memory);

#endif
