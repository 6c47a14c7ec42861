/* shared_lookup - which prefix of a request's prompt the tier holds.
 *
 * One lookup for each request, when it becomes a candidate for admission: all full blocks of the
 * prompt, the pieces of its part-filled last block, and the entry of the complete prompt, in this
 * order. Where the chain breaks in a block that is not the last one, a second query looks up
 * the pieces of that block: another prompt, or an earlier turn of the conversation, may have ended
 * in it. A slow tier gets no second query. Until the answer the request is passed over, for
 * MR_LOOKUP_WAIT_NS at most; an answer that comes later still counts for what is stored.
 *
 * States: NEW -> LOOKUP -> LOOKUP_PIECES -> KNOWN (batching/sequence/fetch.h).
 * Owner: engine thread. Memory: shared_base's slots; when all are taken, _start says false. */
#ifndef MR_BATCHING_CACHE_SHARED_LOOKUP_H
#define MR_BATCHING_CACHE_SHARED_LOOKUP_H

#include "batching/cache/shared_base.h"

#define MR_LOOKUP_WAIT_NS  60000000u /* longer than the tier's own lookup deadline */
#define MR_LOOKUP_AGAIN_NS 10000000u /* no second query after a first one that took longer */

/* The job's fetch must be NEW. False: no slot is free, try again later. */
bool mr_shared_lookup_start(struct mr_shared_cache *shared, struct mr_job *job, uint64_t now_ns);
/* The answer is pending and worth waiting for: the local cache has less than the prompt. */
bool mr_shared_lookup_is_awaited(const struct mr_shared_cache *shared,
                                 const struct mr_sequence *sequence, uint64_t now_ns);
/* The job is about to be destroyed: abandons its lookup, if one is in flight. */
void mr_shared_lookup_abandon(struct mr_shared_cache *shared, struct mr_job *job);
/* The tier's answer to a lookup. */
void mr_shared_lookup_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer);
/* When, after now_ns, a candidate stops waiting for its answer; UINT64_MAX: none waits. */
uint64_t mr_shared_lookup_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns);
void mr_shared_lookup_check(const struct mr_shared_cache *shared);

#endif
