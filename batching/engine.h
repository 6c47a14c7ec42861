/* engine - continuous batching with chunked prefill over one model. worker/ includes this header
 * and no other of batching/.
 *
 * A request becomes one sequence for each choice. Every step is one batch of decode rows and
 * prefill chunk rows; in chunked prefill, prefix hits, preemption and resume alike, num_computed
 * catches up with num_tokens. The scheduler decides admission, chunk sizes and preemption
 * (batching/scheduler/scheduler.h).
 *
 * In parts: batching/engine.c the functions for other threads and statistics,
 * batching/engine_step.c one step, batching/engine_results.c what a step produced.
 *
 * Threads: _submit, _cancel, _close, _stats and _room any thread; everything else the engine
 *          thread.
 * Memory:  all in _create, and two blocks or more for each request in _submit; _step allocates
 *          nothing of ours.
 * Clock:   none; now_ns is monotonic and passed in.
 * Errors:  _submit a typed refusal; _step MR_BACKEND (final: the worker drains and exits). */
#ifndef MR_BATCHING_ENGINE_H
#define MR_BATCHING_ENGINE_H

#include "batching/base/budget.h"
#include "batching/base/model_port.h"
#include "batching/cache/prompt_cache.h"
#include "batching/cache/shared_stats.h"
#include "batching/sequence/submission.h"
#include "codec/records/result.h"

struct mr_engine;

struct mr_engine_options {
    struct mr_model_port model; /* ops/model.h, or a fake in tests */
    const struct mr_tokenizer *tokenizer;
    unsigned char fingerprint[32];        /* hash of weights, tokenizer, geometry and numerics */
    uint32_t block_count;                 /* KV blocks of the model */
    uint32_t window_slots, window_tokens; /* of the model, for sliding-window layers; 0: none */
    uint32_t context_tokens;              /* longest sequence */
    uint32_t sequences_max;               /* running at a time; default 64 */
    uint32_t rows_max;                    /* tokens of one step; more than sequences_max */
    int32_t chunk_tokens;       /* largest prefill chunk; default 512; <= 0: no chunking */
    uint32_t prefills_max;      /* unfinished prefills at a time; default 1 */
    double step_target_ms;      /* target for the time between tokens; 0: none */
    uint32_t prefill_batch_max; /* requests whose prefill starts in one step; default 8 */
    uint64_t prefill_bytes_max; /* KV + activations of those; default 4 GiB */
    /* Memory of a prompt: kv_bytes_per_token, activation_bytes / rows_max; zero: not counted. */
    struct mr_memory_geometry geometry;
    bool prefix_cache;
    uint64_t session_keep_ns;      /* how long other cached blocks are evicted before a session's */
    uint32_t session_blocks_max;   /* blocks kept so at a time; 0: none */
    uint32_t prompt_cache_entries; /* complete prompts with their logits; default 100; 0: off */
    uint64_t prompt_cache_ttl_ns;  /* since the last access; default 300 s */
    const struct mr_tier *tier;    /* KV shared with other workers, borrowed; NULL: none */
    uint64_t tier_staging_bytes;   /* buffers for the tier; default 256 MiB */
    uint32_t queue_count_max;      /* default 1024 */
    uint64_t queue_bytes_max;      /* default 256 MiB */
    uint32_t queue_pools_max;      /* predicted KV of waiting requests, in KV pools; 0: no bound */
    uint32_t tenant_count;         /* that share the engine (batching/queue/fair_share.h); 0: 1 */
    const uint32_t *tenant_weights; /* [tenant_count], read in _create; NULL: all equal */
    uint64_t ageing_ns;             /* wait worth one priority step; default 10 s */
    float default_temperature, default_top_p;
    uint32_t default_top_k;
    const uint32_t *eos_ids;
    uint32_t eos_count;
    bool deadline_admission;     /* do not start a request predicted to end after its deadline */
    void (*wake)(void *context); /* called by any thread after _submit and _cancel; may be NULL */
    void *wake_context;
    uint32_t force_preempt_every; /* test hook: steps between forced preemptions; 0: off */
};

/* Where output goes: called from within _step on the engine thread. Pointers are valid during the
 * call only, except `request`, which the result hands over. */
struct mr_sink {
    void *context;
    /* The token at this index of choice 0 was sampled; its delta follows. May be NULL. */
    void (*drawn)(void *context, uint64_t ticket, uint32_t index, const struct mr_sample *sample);
    /* New tokens of one choice. May be NULL. */
    void (*delta)(void *context, uint64_t ticket, const struct mr_request *request,
                  const struct mr_token_record *record);
    /* The request has ended and belongs to the sink from now on. result's pointers are the
     * engine's. Fields that the engine does not know (attempt, worker, model, source) are zero. */
    void (*result)(void *context, uint64_t ticket, struct mr_request *request,
                   const struct mr_result *result);
    /* The request is in its first step, which has not run yet. Called once for each request, before
     * its first delta, and not for a request that ends while it waits. The worker records it, to
     * recognise a request that crashes the process. May be NULL. */
    void (*started)(void *context, uint64_t ticket);
};

struct mr_engine_stats {
    uint64_t steps, prompt_tokens, generated_tokens, cached_tokens, preemptions, recomputed_tokens;
    uint64_t finished[MR_FINISH_COUNT];
    uint32_t running, waiting, prefilling;
    uint64_t prompt_cache_hits;
    uint64_t model_ns, step_ns_total; /* in the model port, and in total; needs the port's clock */
    double cost_model[4];             /* a, b, c, d of the fitted step time, ms */
    uint64_t cached_tokens_redis;
    struct mr_kv_cache_stats cache; /* the local KV cache */
    struct mr_prompt_cache_stats prompts;
    struct mr_shared_cache_stats shared; /* zero without a tier */
};

enum mr_status mr_engine_create(struct mr_engine **out, const struct mr_engine_options *options,
                                const struct mr_sink *sink, struct mr_error *err);
/* Requests still inside are destroyed without a result. */
void mr_engine_destroy(struct mr_engine *engine);

/* MR_OK: the engine owns submission->request until the sink's result. Otherwise the caller still
 * owns it: MR_FULL (try later), MR_CLOSED, or a REJECT status (can never fit, duplicate id, bad
 * token id). */
enum mr_status mr_engine_submit(struct mr_engine *engine, const struct mr_submission *submission,
                                struct mr_error *err);
/* Cancels a waiting or running request at the next step; false when the id is not in the engine. */
bool mr_engine_cancel(struct mr_engine *engine, struct mr_text id);
/* Removes requests that have not started: each goes to `returned` and gets no result. For draining.
 */
void mr_engine_return_waiting(struct mr_engine *engine,
                              void (*returned)(void *context, uint64_t ticket,
                                               struct mr_request *request),
                              void *context);

/* Refuses further submissions with MR_CLOSED. Requests inside continue. */
void mr_engine_close(struct mr_engine *engine);

/* Runs one step. *wake_ns: when to call again; now_ns when there is more work now, UINT64_MAX when
 * idle. */
enum mr_status mr_engine_step(struct mr_engine *engine, uint64_t now_ns, uint64_t *wake_ns,
                              struct mr_error *err);

/* A snapshot taken at the end of the last step. Threads: any. */
struct mr_engine_stats mr_engine_stats(struct mr_engine *engine);
/* Bit i: the queue has room for another request of tenant i by its parts of the bounds of count,
 * bytes and predicted KV. Intake reads it for backpressure. Threads: any. */
uint64_t mr_engine_room(struct mr_engine *engine);
/* Asserts every invariant, block accounting included. */
void mr_engine_check(struct mr_engine *engine);

#endif
