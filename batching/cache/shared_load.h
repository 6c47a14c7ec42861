/* shared_load - loads blocks of a running sequence from the tier while the engine computes.
 *
 * When a sequence is admitted, the gate (batching/cache/load_gate.h) says which of its blocks to
 * load. The tier fills them in the sequence's own blocks, last one first, and they count as
 * computed when prefill reaches them. Prefill halts (sequence->held_at) before a block that has
 * arrived or is in flight. As long as bytes keep arriving, and items about as fast as the gate
 * expected, prefill waits there (WAIT). If an item takes too long, or nothing was heard of the
 * tier for MR_LOAD_STALL_MS, prefill stops waiting: it claims the next blocks, which the tier
 * skips at once, and the engine computes whatever does not arrive (COMPUTE). After a silence it
 * claims only one block (STEP); if the tier is heard again meanwhile, it waits once more
 * (WAIT_AGAIN).
 *
 * Pieces, entries, and blocks prefill does not wait for, are received in staging buffers and
 * imported. Whatever a tier loses, delays or breaks, only time is lost.
 *
 * States: KNOWN -> DECIDED -> WAIT ... -> KNOWN (batching/sequence/fetch.h).
 * Owner: engine thread. Memory: shared_base's; without a free slot or buffer nothing is loaded. */
#ifndef MR_BATCHING_CACHE_SHARED_LOAD_H
#define MR_BATCHING_CACHE_SHARED_LOAD_H

#include "batching/cache/shared_base.h"

#define MR_PROBE_INTERVAL_NS 10000000000u

/* Decides what to load for a sequence that was matched and is about to be admitted. Sets halts and
 * held_at when a load is worthwhile. True: the load begins at the block into which the match would
 * copy tokens, so that the copy order is of no use. */
bool mr_shared_load_decide(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool busy,
                           uint64_t now_ns);
/* Computing time that the load just decided is predicted to save; 0 without one. */
double mr_shared_load_saved_ms(const struct mr_shared_cache *shared,
                               const struct mr_sequence *sequence);
/* The sequence is admitted and has all its blocks: begins what was decided. */
void mr_shared_load_begin(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                          uint64_t now_ns);
/* Rows of the sequence were computed: counts loaded items behind them as computed. */
void mr_shared_load_join(struct mr_shared_cache *shared, struct mr_sequence *sequence);
/* The sequence was not admitted, releases its blocks, or has used its loaded logits: drops the
 * decision or the load, if there is one. */
void mr_shared_load_end(struct mr_shared_cache *shared, struct mr_sequence *sequence);
/* The tier's answer to a load. */
void mr_shared_load_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer,
                             uint64_t now_ns);
/* Ends the waiting for loads that are too slow or silent. */
void mr_shared_load_expire(struct mr_shared_cache *shared, uint64_t now_ns);
/* When waiting prefill goes on at the latest, or soon_ns while a claimed block is not released yet.
 * UINT64_MAX: neither. */
uint64_t mr_shared_load_next_ns(const struct mr_shared_cache *shared, uint64_t soon_ns);
/* Staging buffers in use by loads, with every slot checked. */
uint32_t mr_shared_load_check(const struct mr_shared_cache *shared);

#endif
