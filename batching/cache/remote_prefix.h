/* remote_prefix - KV shared with other workers through the remote cache (kvcache/remote_cache.h):
 * decides which prefixes of prompts the engine looks up, loads and stores there.
 *
 * A prompt is stored as three kinds of values:
 *     block: a full KV block, under its chain key (a hash of all tokens up to its end);
 *     piece: MR_PIECE_TOKENS tokens of the part-filled last block, under the chain key of the
 *     tokens up to the end of the piece, so that prompts that differ within a block share it up to
 *     there;
 *     entry: the complete-prompt entry, with the logits of the last token and the KV of the tokens
 *     after the last piece.
 *
 * Lookup. Each request is looked up once, when it becomes a candidate for admission. The query
 * lists all full blocks of the prompt, the pieces of its part-filled last block, and its entry, in
 * this order. If the first missing block is not the prompt's last block, a second query looks up
 * the pieces of this missing block: another prompt, or an earlier turn of the conversation, may
 * have ended in it. After a slow first answer there is no second query. The request is not admitted
 * until the answer, for 60 ms at most. A later answer still prevents storing values that Redis has.
 *
 * Load. When a sequence is admitted, the load gate (load_gate.h) decides which of its blocks to
 * load. The remote cache fills them in the sequence's own KV blocks, last block first, and they
 * are treated as computed when prefill reaches them. Prefill stops (sequence->held_at) before a
 * block that has arrived or is in flight. While bytes arrive, and values arrive about as fast as
 * predicted, prefill waits there (state WAIT). If a value takes too long, prefill stops waiting: it
 * claims the next blocks, which the remote cache skips at once, and computes every block that does
 * not arrive (COMPUTE). If Redis has sent nothing for MR_LOAD_STALL_MS, prefill claims only one
 * block (STEP); if Redis sends again meanwhile, prefill waits once more (WAIT_AGAIN). If Redis
 * loses, delays or corrupts a value, only time is lost.
 *
 * Store. Full blocks of the prompt are stored after the step that wrote them; pieces of the last
 * block and the entry after the step that finished the prompt. The next turn of a session begins
 * with this turn's answer, so the blocks of the answer are stored too, and at its end the pieces of
 * its last block. When the remote cache does not take a value, no later value is stored, because a
 * lookup would not find it.
 *
 * The remote cache reads and fills full blocks in the KV pool without a copy when kv_bytes_of
 * (batching/base/model_port.h) gives their address. A block being read is full and in the prefix
 * index, so no step writes it. A block being filled is not touched by the engine until the remote
 * cache has verified and reported it. All other values pass through staging buffers. A sequence
 * that ends while the remote cache uses its blocks hands its block table over to this module.
 *
 * States of each request: batching/sequence/fetch.h. Sources: batching/cache/remote_prefix.c,
 * batching/cache/remote_prefix_lookup.c, batching/cache/remote_prefix_load.c,
 * batching/cache/remote_prefix_store.c, batching/cache/remote_prefix_values.c.
 * Owner: engine thread. Memory: all in _create: staging_bytes of buffers and small tables. When
 * these are used up, nothing is loaded, and stores wait for a later step. Clock: none. Errors:
 * _create MR_NOMEM. */
#ifndef MR_BATCHING_CACHE_REMOTE_PREFIX_H
#define MR_BATCHING_CACHE_REMOTE_PREFIX_H

#include "batching/base/model_port.h"
#include "batching/cache/load_gate.h"
#include "batching/cache/prompt_cache.h"
#include "batching/sequence/job.h"

#define MR_PIECE_TOKENS      (MR_BLOCK_TOKENS >= 128 ? MR_BLOCK_TOKENS / 8 : 16u)
#define MR_STAGING_BYTES     ((uint64_t)256 << 20)
#define MR_PROBE_INTERVAL_NS 10000000000u
#define MR_PREFIX_TABLES_MAX 80u /* block tables of ended sequences used by a load or store */

struct mr_remote_prefix;

struct mr_remote_prefix_options {
    const struct mr_remote_cache
        *remote; /* this pointer and those below are borrowed; prompts may be NULL */
    const struct mr_model_port *model;
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    const struct mr_cost_model *cost;
    struct mr_request_queue *queue; /* refunds the cost of prompt tokens that were loaded */
    uint32_t context_tokens;
    uint32_t chunk_tokens;  /* largest prefill chunk; 0: no chunking */
    uint64_t staging_bytes; /* of all staging buffers, at least two; 0: MR_STAGING_BYTES */
};

struct mr_remote_prefix_stats {
    /* lookups: accepted by the remote cache; refused by it; those that found something */
    uint64_t lookups, lookups_refused, hits;
    uint64_t lookup_tokens, found_tokens;
    uint64_t decisions[MR_LOAD_VERDICT_COUNT];
    uint64_t loads, loaded_tokens, loaded_bytes, loaded_entries;
    uint64_t missing_values; /* found by the lookup and not delivered by the load */
    uint64_t waits_ended;    /* times prefill stopped waiting for a load in flight */
    /* loaded after prefill had computed their tokens, or after the load was cancelled */
    uint64_t unused_values;
    uint64_t stored_values, stored_bytes, stores_refused, stores_lost;
    uint64_t import_ns, export_ns; /* engine thread's time for copying KV into, out of the pool */
    double saved_ms;               /* computing time that loads were predicted to save */
    uint64_t staging_count, staging_free;
    uint64_t lent_tables; /* block tables of ended sequences that the remote cache still uses */
    /* loaded and stored bytes: straight in the KV pool; through a staging buffer */
    uint64_t direct_bytes, staged_bytes;
};

enum mr_status mr_remote_prefix_create(struct mr_remote_prefix **out,
                                       const struct mr_remote_prefix_options *options,
                                       struct mr_error *err);
/* prefix may be NULL. The remote cache must no longer use the staging buffers. */
void mr_remote_prefix_destroy(struct mr_remote_prefix *prefix);

/* Processes the answers that have arrived; call before planning a step. */
void mr_remote_prefix_poll(struct mr_remote_prefix *prefix, uint64_t now_ns);
/* When, after now_ns, the next wait for the remote cache times out; UINT64_MAX: nothing waits. */
uint64_t mr_remote_prefix_next_ns(const struct mr_remote_prefix *prefix, uint64_t now_ns);
struct mr_remote_prefix_stats mr_remote_prefix_stats(const struct mr_remote_prefix *prefix);
/* Asserts that slots, staging buffers, block tables and the fetch states of requests agree. */
void mr_remote_prefix_check(const struct mr_remote_prefix *prefix);

/* Starts the lookup of the job's prompt. job->fetch.state must be MR_FETCH_NEW. False: no lookup
 * slot is free, the caller tries again later. */
bool mr_remote_prefix_start_lookup(struct mr_remote_prefix *prefix, struct mr_job *job,
                                   uint64_t now_ns);
/* True while the sequence should wait for the answer to its lookup: the answer is pending, has not
 * timed out, and the local cache lacks at least MR_LOAD_TOKENS_MIN tokens of the sequence. */
bool mr_remote_prefix_awaits_lookup(const struct mr_remote_prefix *prefix,
                                    const struct mr_sequence *sequence, uint64_t now_ns);
/* Cancels the job's lookup, if one is in flight; call before the job is destroyed. */
void mr_remote_prefix_cancel_lookup(struct mr_remote_prefix *prefix, struct mr_job *job);

/* Decides what to load for a sequence that was matched against the local prefix cache and is about
 * to be admitted. Sets sequence->halts and held_at when prefill must wait for the load. True: the
 * load includes the block into which the prefix match would copy cached tokens, so the caller must
 * not do that copy. */
bool mr_remote_prefix_decide_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence,
                                  bool busy, uint64_t now_ns);
/* Computing time that the load decided for this sequence is predicted to save; 0 without a load. */
double mr_remote_prefix_saved_ms(const struct mr_remote_prefix *prefix,
                                 const struct mr_sequence *sequence);
/* Call when the sequence is admitted and its block table is complete: sends the decided load. */
void mr_remote_prefix_begin_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence,
                                 uint64_t now_ns);
/* Call after rows of the sequence were computed: from then on, KV loaded for the tokens after these
 * rows is treated as computed. */
void mr_remote_prefix_join_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence);
/* Call when the sequence was not admitted, is about to release its blocks, or has sampled from its
 * loaded logits: drops the decided load, or cancels the one in flight. */
void mr_remote_prefix_end_load(struct mr_remote_prefix *prefix, struct mr_sequence *sequence);

/* Stores the blocks of the sequence that are in the local prefix index and not yet in the remote
 * cache. last: the sequence is about to release its blocks. */
void mr_remote_prefix_store(struct mr_remote_prefix *prefix, struct mr_sequence *sequence,
                            bool last);

/* Call when a sequence releases its blocks. True: a load or store still uses the table's blocks,
 * and this module owns the table from now on. False: the caller still owns the table. */
bool mr_remote_prefix_take_table(struct mr_remote_prefix *prefix, struct mr_block_table *table);
/* Call when the KV pool is short of blocks: cancels the stores that use blocks of ended sequences,
 * so that these blocks are released soon. False: no blocks of ended sequences are in use. */
bool mr_remote_prefix_reclaim(struct mr_remote_prefix *prefix);

#endif
