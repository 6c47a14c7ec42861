/* shared_store - stores a sequence's KV in the Redis cache, from the first token on that the Redis
 * cache does not have.
 *
 * Full blocks of the prompt are stored after the step that wrote them; pieces of the last block and
 * the complete-prompt entry (logits and tail KV) after the step that finished the prompt. The next
 * turn of a session begins with this turn's answer, so the blocks of the answer are stored too, and
 * at the end of the answer the pieces of its last block. The Redis cache reads a full block
 * straight from the KV pool where it can; everything else is copied into a staging buffer first.
 * When the Redis cache does not take an item, nothing behind it is stored: it would not be found.
 *
 * Owner: engine thread. Memory: slots of shared_base.h, and at most half of the staging buffers;
 * when no slot or buffer is free, the rest is stored after a later step. */
#ifndef MR_BATCHING_CACHE_SHARED_STORE_H
#define MR_BATCHING_CACHE_SHARED_STORE_H

#include "batching/cache/shared_base.h"

/* Stores in the Redis cache the blocks of the sequence that are in the local prefix index and not
 * yet in the Redis cache. last: the sequence is about to release its blocks. */
void mr_shared_store_sequence(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                              bool last);
/* Processes the answer of the Redis cache to a store. */
void mr_shared_store_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer);
/* Checks every store slot and returns the number of staging buffers that stores use. */
uint32_t mr_shared_store_check(const struct mr_shared_cache *shared);

#endif
