/* shared_lookup - which prefix of a request's prompt the Redis cache holds.
 *
 * Each request is looked up once, when it becomes a candidate for admission. The query lists all
 * full blocks of the prompt, the pieces of its part-filled last block, and its complete-prompt
 * entry (logits and tail KV), in this order. If the first missing block is not the prompt's last
 * block, a second query looks up the pieces of this missing block: another prompt, or an earlier
 * turn of the conversation, may have ended in it. After a slow first answer there is no second
 * query. Until the answer the request is not admitted, for MR_LOOKUP_WAIT_NS at most; a later
 * answer is still used to avoid storing what Redis has.
 *
 * States: NEW -> LOOKUP -> LOOKUP_PIECES -> KNOWN (batching/sequence/fetch.h). Owner: engine
 * thread. Memory: the slots of shared_base.h; when all are in use, _start returns false. */
#ifndef MR_BATCHING_CACHE_SHARED_LOOKUP_H
#define MR_BATCHING_CACHE_SHARED_LOOKUP_H

#include "batching/cache/shared_base.h"

#define MR_LOOKUP_WAIT_NS  60000000u /* longer than the Redis cache's own deadline for a lookup */
#define MR_LOOKUP_AGAIN_NS 10000000u /* no second query when the first took longer than this */

/* Starts the lookup of the job's prompt. job->fetch.state must be MR_FETCH_NEW. False: no lookup
 * slot is free, the caller tries again later. */
bool mr_shared_lookup_start(struct mr_shared_cache *shared, struct mr_job *job, uint64_t now_ns);
/* True while the sequence should wait for the answer to its lookup: the answer is pending, has not
 * timed out, and the local cache lacks at least MR_LOAD_TOKENS_MIN tokens of the sequence. */
bool mr_shared_lookup_is_awaited(const struct mr_shared_cache *shared,
                                 const struct mr_sequence *sequence, uint64_t now_ns);
/* Abandons the job's lookup, if one is in flight; call before the job is destroyed. */
void mr_shared_lookup_abandon(struct mr_shared_cache *shared, struct mr_job *job);
/* Processes the answer of the Redis cache to a lookup. */
void mr_shared_lookup_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer);
/* When, after now_ns, the next request stops waiting for the answer to its lookup; UINT64_MAX: none
 * waits. */
uint64_t mr_shared_lookup_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns);
void mr_shared_lookup_check(const struct mr_shared_cache *shared);

#endif
