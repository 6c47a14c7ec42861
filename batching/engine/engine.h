/* engine - continuous batching with chunked prefill over one model. worker/ calls only the
 * functions of this header.
 *
 * A request becomes one sequence for each choice. Every step is one batch of decode rows and
 * prefill chunk rows. In chunked prefill, prefix hits, preemption and resume alike, a sequence's
 * num_computed (tokens with KV) catches up with its num_tokens. The scheduler decides admission,
 * chunk sizes and preemption (batching/scheduler/scheduler.h).
 *
 * A call of mr_engine_step() launches a step. It collects that step too if the model computes in
 * `launch`; otherwise a later call does (batching/engine/engine_step.c,
 * batching/engine/engine_flights.c), which passes the tokens on after its own launch.
 * batching/engine/engine_results.c applies a step's results, batching/engine/engine_output.c passes
 * output to the sink.
 *
 * Threads: _submit, _cancel, _stats, _room any; everything else the engine thread.
 * Memory:  all in _create, and two memory blocks or more for each request in _submit. _step
 * allocates nothing; a function of the sink may.
 * Clock:   none; now_ns is monotonic and passed in.
 * Errors:  _submit returns a typed refusal; _step MR_BACKEND (the worker then exits). */
#ifndef MR_BATCHING_ENGINE_ENGINE_H
#define MR_BATCHING_ENGINE_ENGINE_H

#include "batching/base/budget.h"
#include "batching/base/model_port.h"
#include "batching/engine/engine_stats.h"
#include "batching/sequence/submission.h"

struct mr_engine;

struct mr_engine_options {
    struct mr_model_port model; /* the model's functions, or those of a fake in tests */
    const struct mr_tokenizer *tokenizer;
    unsigned char fingerprint[32]; /* hash of weights, tokenizer, geometry and numerics */
    uint32_t block_count;          /* KV blocks of the model's pool */
    /* sliding-window layers: number of KV slots, tokens of a window; 0: no such layers */
    uint32_t window_slots, window_tokens;
    /* Slots of the model's state pool, for recurrent layers; 0: no such layers. With such layers as
     * many sequences run as half of the slots, the others are for snapshots; drafts and the remote
     * cache are not used, because a state cannot go back, and Redis has no states. */
    uint32_t state_slots;
    uint32_t context_tokens; /* longest sequence */
    uint32_t sequences_max;  /* sequences that run at a time; default 64 */
    uint32_t rows_max;       /* tokens of one step; more than sequences_max */
    /* Most drafts checked in one step; 0: no speculation. The model must have room for this many
     * rows and rows of logits in addition to rows_max and sequences_max. */
    uint32_t draft_rows_max;
    /* Most given tokens that one step scores (prompt_logprobs and task score); a score request has
     * at most this many continuations. 0: these requests are refused. The model must have room for
     * this many additional rows of logits. */
    uint32_t score_rows_max;
    int32_t chunk_tokens;       /* largest prefill chunk; default 512; <= 0: no chunking */
    uint32_t prefills_max;      /* unfinished prefills at a time; default 1 */
    double step_target_ms;      /* target of steps with decodes; 0: none; MR_STEP_TARGET_AUTO */
    uint32_t prefill_batch_max; /* requests whose prefill starts in one step; default 8 */
    /* KV and activation bytes of the prefills that start in one step; default 4 GiB */
    uint64_t prefill_bytes_max;
    /* Memory that a token of a prompt takes: KV bytes, and activation bytes / rows_max. All zero:
     * the memory of prefills is not counted. */
    struct mr_memory_geometry geometry;
    bool prefix_cache;
    uint64_t session_keep_ns;    /* how long the blocks of a session are protected from eviction */
    uint32_t session_blocks_max; /* most blocks protected for sessions at a time; 0: none */
    uint32_t prompt_cache_entries; /* complete prompts cached with logits; default 100; 0: off */
    uint64_t prompt_cache_ttl_ns;  /* how long an unused prompt stays cached; default 300 s */
    /* the KV cache in Redis that workers share, borrowed; NULL: none */
    const struct mr_remote_cache *remote;
    uint64_t remote_staging_bytes; /* buffers for loads and stores in Redis; default 256 MiB */
    uint32_t queue_count_max;      /* most waiting requests; default 1024 */
    uint64_t queue_bytes_max; /* most bytes of memory that waiting requests take; default 256 MiB */
    /* most KV predicted for waiting requests, in multiples of block_count blocks; 0: no bound */
    uint32_t queue_pools_max;
    uint32_t tenant_count;          /* tenants that share the engine; 0 means 1 */
    const uint32_t *tenant_weights; /* [tenant_count], read in _create; NULL: all weights equal */
    uint64_t ageing_ns; /* waiting time that raises a request's priority by 1; default 10 s */
    struct mr_sampling_defaults
        defaults; /* sampling parameters of a request without a temperature */
    const uint32_t *eos_ids;
    uint32_t eos_count;
    bool deadline_admission; /* do not start a request predicted to end after its deadline */
    /* wakes the engine thread: any thread calls it after _submit and _cancel; may be NULL */
    void (*wake)(void *context);
    void *wake_context;
    uint32_t force_preempt_every; /* test hook: steps between forced preemptions; 0: off */
};

/* Where the engine's output goes. The functions are called from within mr_engine_step() on the
 * engine thread. Pointer arguments are valid during the call only, except `request`, which `result`
 * hands over to the sink. */
struct mr_sink {
    void *context;
    /* Choice 0 has sampled token number `index`; the delta with this token follows. May be NULL. */
    void (*drawn)(void *context, uint64_t ticket, uint32_t index, const struct mr_sample *sample);
    /* One choice has new tokens, which `record` holds. May be NULL. */
    void (*delta)(void *context, uint64_t ticket, const struct mr_request *request,
                  const struct mr_token_record *record);
    /* The request has ended, and the sink owns `request` from now on. The pointers in `result`
     * belong to the engine. Fields that the engine does not fill (attempt, worker, model, source)
     * are zero. */
    void (*result)(void *context, uint64_t ticket, struct mr_request *request,
                   const struct mr_result *result);
    void (*chunk)(void *context, uint64_t ticket, const struct mr_chunk *chunk); /* may be NULL */
    /* Whether the request may start. Called when the request could run in the next step, and again
     * in later steps until the answer is true; the request stays in the queue meanwhile. When the
     * answer has become true, wake the engine thread. So the worker can record the start before the
     * first step with the request, to recognise a request that crashes the process. NULL: always
     * true. */
    bool (*may_start)(void *context, uint64_t ticket);
};

enum mr_status mr_engine_create(struct mr_engine **out, const struct mr_engine_options *options,
                                const struct mr_sink *sink, struct mr_error *err);
/* Requests that have not ended are destroyed without a result. engine may be NULL. */
void mr_engine_destroy(struct mr_engine *engine);

/* MR_OK: the engine owns submission->request until it passes the request to the sink's `result`.
 * Otherwise the caller still owns the request: MR_FULL (try later), or a REJECT status
 * (the request can never fit, duplicate id, bad token id). */
enum mr_status mr_engine_submit(struct mr_engine *engine, const struct mr_submission *submission,
                                struct mr_error *err);
/* Cancels a waiting or running request at the next step; false when the engine has no request of
 * this tenant with this id. */
bool mr_engine_cancel(struct mr_engine *engine, uint32_t tenant_index, struct mr_text id);
/* Removes requests that have not started, for draining: each is passed to `returned`, which owns it
 * from then on, and gets no result. */
void mr_engine_return_waiting(struct mr_engine *engine,
                              void (*returned)(void *context, uint64_t ticket,
                                               struct mr_request *request),
                              void *context);

/* Runs one step. *wake_ns: when to call again: now_ns when there is more work now, a later time
 * when every request waits (for the remote cache), UINT64_MAX when the engine is idle. */
enum mr_status mr_engine_step(struct mr_engine *engine, uint64_t now_ns, uint64_t *wake_ns,
                              struct mr_error *err);

/* A copy of the statistics made at the end of the last step. Threads: any. */
struct mr_engine_stats mr_engine_stats(struct mr_engine *engine);
/* Bit i of the result: the queue can accept another request of tenant i, by the tenant's parts of
 * the bounds of count, bytes and predicted KV. The worker's intake stops reading requests of a
 * tenant whose bit is 0. Threads: any. */
uint64_t mr_engine_room(struct mr_engine *engine);
/* Asserts every invariant of the engine; so does an idle _step, at most once a second. */
void mr_engine_check(struct mr_engine *engine);

#endif
