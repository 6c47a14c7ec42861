/* tier_memory - where the jobs of the tier's queue lie: one block of memory made at creation, of
 * which pieces of any size are taken and given back in any order, so that asking the tier costs the
 * engine's step no allocation.
 *
 * First fit by address, free neighbours joined on the way: pieces are few (MR_TIER_JOBS_MAX) and
 * mostly given back in the order they were taken. What never was needed is never touched.
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
/* memory may be NULL, and pieces of it still be out. */
void mr_tier_memory_destroy(struct mr_tier_memory *memory);

/* Zeroed, aligned as malloc does. */
void *mr_tier_memory_take(struct mr_tier_memory *memory, size_t bytes);
void mr_tier_memory_give(struct mr_tier_memory *memory, void *bytes);

/* Bytes that are out, with what keeps account of them; asserts that all pieces fit together. */
size_t mr_tier_memory_check(const struct mr_tier_memory *memory);

#endif
