/* shared_load - loads blocks of a running sequence from the Redis cache while the engine computes.
 *
 * When a sequence is admitted, the load-or-compute decision (batching/cache/load_gate.h) says which
 * of its blocks to load. The Redis cache fills them in the sequence's own KV blocks, last block
 * first, and they count as computed when prefill reaches them. Prefill stops (sequence->held_at)
 * before a block that has arrived or is in flight. As long as bytes keep arriving, and values
 * arrive about as fast as predicted, prefill waits there (state WAIT). If a value takes too long,
 * prefill stops waiting: it claims the next blocks, which the Redis cache skips at once, and
 * computes whatever does not arrive (state COMPUTE). If Redis has sent nothing for
 * MR_LOAD_STALL_MS, prefill claims only one block (state STEP); if Redis sends again meanwhile,
 * prefill waits once more (state WAIT_AGAIN).
 *
 * Pieces, complete-prompt entries, and blocks for which prefill does not wait are received in
 * staging buffers and copied into the KV pool. If Redis loses, delays or corrupts a value, only
 * time is lost.
 *
 * States: KNOWN -> DECIDED -> WAIT ... -> KNOWN (batching/sequence/fetch.h). Owner: engine thread.
 * Memory: that of shared_base.h; without a free slot or buffer nothing is loaded. */
#ifndef MR_BATCHING_CACHE_SHARED_LOAD_H
#define MR_BATCHING_CACHE_SHARED_LOAD_H

#include "batching/cache/shared_base.h"

#define MR_PROBE_INTERVAL_NS 10000000000u

/* Decides what to load for a sequence that was matched against the local prefix cache and is about
 * to be admitted. Sets sequence->halts and held_at when prefill must wait for the load. True: the
 * load includes the block into which the prefix match would copy cached tokens, so the caller must
 * not do that copy. */
bool mr_shared_load_decide(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool busy,
                           uint64_t now_ns);
/* Computing time that the load decided for this sequence is predicted to save; 0 without a load. */
double mr_shared_load_saved_ms(const struct mr_shared_cache *shared,
                               const struct mr_sequence *sequence);
/* Call when the sequence is admitted and its block table is complete: sends the load that
 * mr_shared_load_decide() chose. */
void mr_shared_load_begin(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                          uint64_t now_ns);
/* Call after rows of the sequence were computed: KV that was loaded for the tokens behind these
 * rows now counts as computed. */
void mr_shared_load_join(struct mr_shared_cache *shared, struct mr_sequence *sequence);
/* Call when the sequence was not admitted, is about to release its blocks, or has sampled from its
 * loaded logits: drops the load that was decided for it or abandons the one in flight, if any. */
void mr_shared_load_end(struct mr_shared_cache *shared, struct mr_sequence *sequence);
/* Processes an answer of the Redis cache to a load. */
void mr_shared_load_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer,
                             uint64_t now_ns);
/* Ends the waiting of prefill for loads that are too slow or from which nothing arrives. */
void mr_shared_load_expire(struct mr_shared_cache *shared, uint64_t now_ns);
/* Time at which the next sequence stops waiting for its load, or soon_ns if a sequence needs a
 * block that the Redis cache may still write. UINT64_MAX: neither. */
uint64_t mr_shared_load_next_ns(const struct mr_shared_cache *shared, uint64_t soon_ns);
/* Checks every load slot and returns the number of staging buffers that loads use. */
uint32_t mr_shared_load_check(const struct mr_shared_cache *shared);

#endif
