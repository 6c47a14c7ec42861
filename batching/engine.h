/* engine - continuous batching with chunked prefill over one model. The narrow door of batching/:
 * worker/ sees this header and nothing else of the folder but request_queue's bounds.
 *
 * A request becomes one sequence for each choice. Every step is one batch of decode rows and
 * prefill chunk rows; chunked prefill, prefix hits, preemption and resume are all "catch up
 * num_computed to num_tokens". Admission, chunk sizes and preemption are the scheduler's
 * (batching/scheduler/scheduler.h).
 *
 * In parts: batching/engine.c the doors, batching/engine_step.c the wheel, batching/engine_settle.c
 * what a step produced.
 *
 * Threads: _submit, _cancel, _close, _stats and _room any thread; everything else the engine
 * thread. Memory:  all in _create, and one block for each request in _submit; _step allocates
 * nothing of ours. Clock:   none; now_ns is monotonic and passed in. Errors:  _submit a typed
 * refusal; _step MR_BACKEND (final: the worker drains and exits). */
#ifndef MR_BATCHING_ENGINE_H
#define MR_BATCHING_ENGINE_H

#include "batching/base/budget.h"
#include "batching/base/model_port.h"
#include "batching/cache/prompt_cache.h"
#include "batching/cache/shared_cache.h"
#include "codec/records/request.h"
#include "codec/records/result.h"

struct mr_engine;

struct mr_engine_options {
    struct mr_model_port model; /* what computes: ops/model.h, or a fake in tests */
    const struct mr_tokenizer *tokenizer;
    unsigned char fingerprint[32]; /* identity of weights, tokenizer, geometry and numerics */
    uint32_t block_count;          /* KV blocks of the model */
    uint32_t window_slots, window_tokens; /* of the model, for sliding-window layers; 0: none */
    uint32_t context_tokens;              /* longest sequence */
    uint32_t sequences_max;               /* running at once; default 64 */
    uint32_t rows_max;                    /* tokens of one step; more than sequences_max */
    int32_t chunk_tokens;       /* largest prefill chunk; default 512; <= 0: no chunking */
    uint32_t prefills_max;      /* requests in chunks at one time; default 1 */
    double step_target_ms;      /* inter-token latency goal; 0: no goal */
    uint32_t prefill_batch_max; /* requests whose prefill starts in one step; default 8 */
    uint64_t prefill_bytes_max; /* KV + activations of those; default 4 GiB */
    /* What a prompt costs: kv_bytes_per_token, activation_bytes / rows_max; zero: not counted. */
    struct mr_memory_geometry geometry;
    bool prefix_cache;
    uint64_t session_keep_ns;      /* how long a conversation's blocks are evicted last */
    uint32_t session_blocks_max;   /* blocks that may be kept so; 0: none */
    uint32_t prompt_cache_entries; /* complete prompts with their logits; default 100, 0 off */
    uint64_t prompt_cache_ttl_ns;  /* counted from last access; default 300 s */
    const struct mr_tier *tier;    /* KV shared with other workers, borrowed; NULL: none */
    uint64_t tier_staging_bytes;   /* buffers for it; default 256 MiB */
    uint32_t queue_count_max;      /* default 1024 */
    uint64_t queue_bytes_max;      /* default 256 MiB */
    uint32_t queue_pools_max;      /* predicted KV of waiting requests, in pools; 0: no bound */
    uint32_t tenant_count;         /* that share the engine (batching/queue/fair_share.h); 0 is 1 */
    const uint32_t *tenant_weights; /* [tenant_count], read in _create; NULL: all the same */
    uint64_t ageing_ns;             /* default 10 s a priority step */
    float default_temperature, default_top_p;
    uint32_t default_top_k;
    const uint32_t *eos_ids;
    uint32_t eos_count;
    bool deadline_admission; /* a request that cannot be done before its deadline is not begun */
    void (*wake)(void *context); /* called by any thread after _submit and _cancel; may be NULL */
    void *wake_context;
    uint32_t force_preempt_every; /* test hook: preempt one sequence every so many steps; 0 off */
};

/* What comes out, called from within _step on the engine thread. Pointers inside are valid during
 * the call only, but for `request`, which is handed over with the result. */
struct mr_sink {
    void *context;
    /* The token at index of choice 0 was drawn; its delta follows. May be NULL. */
    void (*drawn)(void *context, uint64_t ticket, uint32_t index, const struct mr_sample *sample);
    /* New tokens of one choice. May be NULL. */
    void (*delta)(void *context, uint64_t ticket, const struct mr_request *request,
                  const struct mr_token_record *record);
    /* The end: the sink owns request from here on. result->id, text ... are the engine's. Fields
     * the engine cannot know (attempt, worker, model, source) are left zero. */
    void (*result)(void *context, uint64_t ticket, struct mr_request *request,
                   const struct mr_result *result);
    /* The request is in its first step, which has not run yet. Once for each request, before its
     * first delta; not for one that ends while it waits. The worker notes it, so that a request
     * that takes the process down is recognised. May be NULL. */
    void (*started)(void *context, uint64_t ticket);
};

struct mr_engine_stats {
    uint64_t steps, prompt_tokens, generated_tokens, cached_tokens, preemptions, recomputed_tokens;
    uint64_t finished[MR_FINISH_COUNT];
    uint32_t running, waiting, prefilling;
    uint32_t blocks_total, blocks_free, blocks_cached, blocks_held;
    uint32_t slots_total, slots_free, slots_cached; /* of sliding-window layers */
    uint64_t prefix_queries_tokens, prefix_hit_tokens, prompt_cache_hits;
    uint64_t model_ns, step_ns_total; /* inside the model port, and in all; needs its clock */
    double cost_model[4];             /* a, b, c, d of the fitted step time, ms */
    uint64_t cached_tokens_redis;
    uint64_t blocks_kept;                         /* for conversations, among the cached ones */
    uint64_t evictions, copies, oldest_cached_ns; /* of the local cache (kvcache/kv_cache.h) */
    struct mr_prompt_cache_stats prompts;
    struct mr_shared_cache_stats shared; /* zero without a tier */
};

enum mr_status mr_engine_create(struct mr_engine **out, const struct mr_engine_options *options,
                                const struct mr_sink *sink, struct mr_error *err);
/* Every request still inside is dropped without a result (the worker drains first if it wants). */
void mr_engine_destroy(struct mr_engine *engine);

/* MR_OK: the engine owns request until the sink's result. Otherwise the caller still owns it:
 * MR_FULL (try later), MR_CLOSED, or a REJECT status (can never fit, duplicate id, bad token id).
 * ticket comes back with every delta and the result. tenant: cache namespace, copied. tenant_index:
 * whose share of the engine it uses. start_by_ns: the latest start. run_limit_ns: longest run.
 * deadline_ns: monotonic, 0 none. priority: request's plus topic's. kept: what an earlier attempt
 * of one choice drew, not held: drawing goes on behind it; kept_shown of it is not handed out. */
struct mr_submission {
    struct mr_request *request;
    uint64_t ticket;
    const char *tenant;
    uint32_t tenant_index;                                       /* below tenant_count */
    uint64_t arrival_ns, deadline_ns, start_by_ns, run_limit_ns; /* 0: none */
    int32_t priority;
    uint32_t kept_count, kept_shown;
    const struct mr_sample *kept; /* [kept_count] */
};
enum mr_status mr_engine_submit(struct mr_engine *engine, const struct mr_submission *submission,
                                struct mr_error *err);
/* Cancels a waiting or running request at the next step; false when the id is not inside. */
bool mr_engine_cancel(struct mr_engine *engine, struct mr_text id);
/* What has not started gets no result: `returned` is called with each (drain). */
void mr_engine_return_waiting(struct mr_engine *engine,
                              void (*returned)(void *context, uint64_t ticket,
                                               struct mr_request *request),
                              void *context);

/* No more submissions (MR_CLOSED); what is inside goes on. Any thread. */
void mr_engine_close(struct mr_engine *engine);

/* One turn of the wheel. *wake_ns: when there may be work again: now_ns when there is more now,
 * UINT64_MAX when idle. */
enum mr_status mr_engine_step(struct mr_engine *engine, uint64_t now_ns, uint64_t *wake_ns,
                              struct mr_error *err);

/* Threads: engine thread, or any (a snapshot taken at the end of the last step). */
struct mr_engine_stats mr_engine_stats(struct mr_engine *engine);
/* Bit i: there is room for another request of tenant i by the bounds of count, bytes and predicted
 * KV, of which each tenant has its own part: intake's backpressure. Any thread. */
uint64_t mr_engine_room(struct mr_engine *engine);
/* Asserts every invariant, block accounting included. */
void mr_engine_check(struct mr_engine *engine);

#endif
