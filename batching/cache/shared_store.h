/* shared_store - stores a sequence's KV in the tier, from the first token the tier does not have.
 *
 * Full blocks of the prompt are stored after the step that wrote them; pieces of the last block and
 * the prompt's entry after the step that finished the prompt. The next turn of a session begins
 * with this turn's answer, so its generated blocks are stored too, and at its end the pieces of the
 * last one. The tier reads a full block in the pool where it can; everything else is copied into a
 * staging buffer.
 *
 * Owner: engine thread. Memory: shared_base's slots, half of the staging buffers at most; without
 * one, the rest is stored after a later step. */
#ifndef MR_BATCHING_CACHE_SHARED_STORE_H
#define MR_BATCHING_CACHE_SHARED_STORE_H

#include "batching/cache/shared_base.h"

/* Stores what is published and not in the tier. last: the sequence is about to release its blocks.
 */
void mr_shared_store_sequence(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                              bool last);
/* The tier's answer to a store. */
void mr_shared_store_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer);
/* Staging buffers in use by stores. */
uint32_t mr_shared_store_check(const struct mr_shared_cache *shared);

#endif
