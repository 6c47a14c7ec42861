/* tier_memory - allocator for the jobs of the tier's queue: one block of memory made at creation,
 * from which pieces of any size are taken and returned in any order, so that a request to the tier
 * costs the engine's step no allocation from the system.
 *
 * First fit by address; adjacent free pieces are merged during the search. There are few pieces
 * (MR_TIER_JOBS_MAX), returned mostly in the order they were taken. Pages never needed are never
 * touched.
 *
 * Owner: one thread, or under its owner's lock. Memory: all of it in _create. Errors: _create
 * MR_NOMEM; _take NULL when no gap is large enough. */
#ifndef MR_WORKER_REDIS_TIER_MEMORY_H
#define MR_WORKER_REDIS_TIER_MEMORY_H

#include "codec/status.h"

#include <stddef.h>

struct mr_tier_memory;

enum mr_status mr_tier_memory_create(struct mr_tier_memory **out, size_t bytes,
                                     struct mr_error *err);
/* memory may be NULL. Pieces that are still taken become invalid. */
void mr_tier_memory_destroy(struct mr_tier_memory *memory);

/* The piece is zeroed, and aligned as by malloc. */
void *mr_tier_memory_take(struct mr_tier_memory *memory, size_t bytes);
void mr_tier_memory_give(struct mr_tier_memory *memory, void *bytes);

/* Bytes taken, headers included. Asserts that the pieces fill the block. */
size_t mr_tier_memory_check(const struct mr_tier_memory *memory);

#endif
