/* shared_cache - what the engine does with a tier (kvcache/tier.h): which prefixes it asks for,
 * loads and stores, and how a load meets the computing of the same prompt.
 *
 * Items. A prompt's full blocks, each under its chain key; its part-filled last block in pieces of
 *        MR_PIECE_TOKENS, each under the chain key of the tokens up to its end, so that prompts
 *        which part within a block share it up to there; and the entry of the complete prompt, its
 *        logits and the KV of what is left.
 * Ask.   Once for each request, when the scheduler first looks at it: all of these in order. Where
 *        the chain breaks in a block that is not its last, it then asks for pieces of that one:
 *        another's prompt, or an earlier turn of the conversation, may have ended there. Until the
 *        answers come the request is passed over, for MR_ASK_WAIT_NS at most; others go on.
 * Load.  When a sequence is let in, the gate (batching/cache/load_gate.h) says which of its blocks
 * to load. They are received where they belong, in blocks of the sequence's own, back first, and
 * count as computed when the front reaches them. The front is computed meanwhile and halts
 * (sequence->held_at) before a block that has come or is still coming. As long as bytes keep
 * coming, and items about as fast as the gate expected, it waits there; then it claims the blocks
 * before it, which the tier lets go of at once, and whatever is still missing is computed. After a
 * silence it claims one block and, when something was heard of the load meanwhile, waits for the
 * rest once more. Store. Blocks of the prompt after the step that wrote them, when its tokens are
 * on their way out, from the first one the tier does not have; pieces and entry after the step that
 * finished it. A session's generated blocks too, since its next turn begins with them, and at its
 * end the pieces of the last one.
 *
 * Blocks go without a copy: the tier reads and fills them where they lie in the pool, when the
 * pool's form is the stored one and in reach (model_port.h, kv_bytes_of). What is being read is
 * full and published, so nobody writes it; what is being filled nobody reads or writes until the
 * tier has verified it and said so. A sequence that goes meanwhile leaves its table here until the
 * tier is done (_take_table); if the pool needs those blocks sooner, they are asked back (_yield).
 * Pieces, entries, and blocks the front does not wait for, go by way of staging buffers.
 * So whatever a tier loses, delays or breaks, only time is lost.
 *
 * In parts: batching/cache/shared_cache.c asks, answers and figures,
 * batching/cache/shared_cache_load.c and batching/cache/shared_cache_store.c. Owner:  engine
 * thread. Memory: all in _create: staging_bytes of buffers and small tables; at a bound nothing is
 * loaded or stored. Clock: none. Errors: _create MR_NOMEM. */
#ifndef MR_BATCHING_CACHE_SHARED_CACHE_H
#define MR_BATCHING_CACHE_SHARED_CACHE_H

#include "batching/base/model_port.h"
#include "batching/cache/load_gate.h"
#include "batching/cache/prompt_cache.h"
#include "batching/sequence/job.h"

#define MR_ASK_WAIT_NS       60000000u /* the tier's own deadline comes first */
#define MR_ASK_AGAIN_NS      10000000u /* a first question that took longer is the last one */
#define MR_PIECE_TOKENS      (MR_BLOCK_TOKENS >= 128 ? MR_BLOCK_TOKENS / 8 : 16u)
#define MR_PIECES_MAX        (MR_BLOCK_TOKENS / MR_PIECE_TOKENS - 1)
#define MR_PROBE_INTERVAL_NS 10000000000u
#define MR_STAGING_BYTES     ((uint64_t)256 << 20)
#define MR_SHARED_TABLES_MAX 80u /* block tables it may have taken over at a time */

struct mr_shared_cache;

struct mr_shared_cache_options {
    const struct mr_tier *tier; /* borrowed, as all below; prompts may be NULL */
    const struct mr_model_port *model;
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    const struct mr_cost_model *cost;
    uint32_t context_tokens;
    uint32_t chunk_tokens;  /* 0: no chunking */
    uint64_t staging_bytes; /* for loads and stores together, at least two items; 0: the default */
};

struct mr_shared_cache_stats {
    uint64_t asks, asks_refused, hits; /* hits: something was there */
    uint64_t asked_tokens, there_tokens;
    uint64_t decisions[MR_LOAD_VERDICT_COUNT];
    uint64_t loads, loaded_tokens, loaded_bytes, loaded_entries;
    uint64_t missing_items;  /* of finished loads: said to be there, never arrived */
    uint64_t holds_given_up; /* the front went on while a load was under way */
    uint64_t unused_items;   /* arrived after the front had passed, or the sequence had gone */
    uint64_t stored_items, stored_bytes, stores_refused, stores_lost;
    uint64_t import_ns, export_ns; /* on the engine thread */
    double saved_ms;               /* predicted by the gate */
    uint64_t staging_count, staging_free;
    uint64_t lent_tables;                /* taken over, their blocks held */
    uint64_t direct_bytes, staged_bytes; /* loaded and stored in place; by way of a buffer */
};

enum mr_status mr_shared_cache_create(struct mr_shared_cache **out,
                                      const struct mr_shared_cache_options *options,
                                      struct mr_error *err);
/* The tier must not touch the staging buffers any more. shared may be NULL. */
void mr_shared_cache_destroy(struct mr_shared_cache *shared);

/* ---- ask ---- */
/* False: no room for another question now, ask again later. */
bool mr_shared_cache_ask(struct mr_shared_cache *shared, struct mr_job *job, uint64_t now_ns);
/* The answer for this job is still to come, and worth waiting for. */
bool mr_shared_cache_waits(const struct mr_shared_cache *shared, const struct mr_sequence *sequence,
                           uint64_t now_ns);
/* The job is about to go. */
void mr_shared_cache_forget(struct mr_shared_cache *shared, struct mr_job *job);

/* ---- load ---- */
/* For a matched sequence that is about to be let in: what the gate says. Sets halts and held_at
 * when a load is worth while; the copy order of the match is then of no use if the load begins at
 * its block: true. */
bool mr_shared_cache_decide(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool busy,
                            uint64_t now_ns);
/* What of the computing the load just decided for it is to save: 0 without one. */
double mr_shared_cache_saved_ms(const struct mr_shared_cache *shared,
                                const struct mr_sequence *sequence);
/* It is let in and has all its blocks: begins what was decided for it last. */
void mr_shared_cache_begin(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                           uint64_t now_ns);
/* Rows of it were computed: joins what is loaded behind them. */
void mr_shared_cache_meet(struct mr_shared_cache *shared, struct mr_sequence *sequence);
/* It gives its blocks back, or its logits are used: its load, if any, is over. */
void mr_shared_cache_leave(struct mr_shared_cache *shared, struct mr_sequence *sequence);

/* ---- tables ---- */
/* The sequence parts from its table, whose blocks the tier may still read or fill: then true, and
 * the table is destroyed here when it does not. */
bool mr_shared_cache_take_table(struct mr_shared_cache *shared, const struct mr_sequence *sequence);
/* Blocks are short: gives up what the tier does with tables taken over, so that they come back
 * within a moment. False: there are none. */
bool mr_shared_cache_yield(struct mr_shared_cache *shared);

/* ---- store ---- */
/* Stores its published full blocks the tier does not have, and its prompt's entry if that is due;
 * `last` before its table goes. */
void mr_shared_cache_store(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool last);

/* ---- the wheel ---- */
/* Collects answers; call before planning. */
void mr_shared_cache_poll(struct mr_shared_cache *shared, uint64_t now_ns);
/* When, after now_ns, something that is waited for is given up; UINT64_MAX: nothing is. */
uint64_t mr_shared_cache_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns);
struct mr_shared_cache_stats mr_shared_cache_stats(const struct mr_shared_cache *shared);
/* Asserts slots, buffers and counts. */
void mr_shared_cache_check(const struct mr_shared_cache *shared);

#endif
