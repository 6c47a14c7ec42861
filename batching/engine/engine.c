#include "batching/engine/engine.h"

#include "batching/engine/engine_state.h"
#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct mr_engine_stats) % sizeof(uint64_t) == 0, "copied as words");

static enum mr_status check_options(const struct mr_engine_options *options, struct mr_error *err)
{
    if (options->context_tokens < 2)
        return mr_fail(err, MR_BAD_CONFIG, "a context of %u tokens has no room for an answer",
                       options->context_tokens);
    if (options->eos_count > MR_EOS_IDS_MAX)
        return mr_fail(err, MR_BAD_CONFIG, "%u end tokens, at most %u are supported",
                       options->eos_count, MR_EOS_IDS_MAX);
    if (options->model.vocab_size == 0 || options->tokenizer == NULL)
        return mr_fail(err, MR_BAD_CONFIG, "the engine needs a model and a tokenizer");
    if (options->model.steps_ahead > MR_STEPS_AHEAD_MAX)
        return mr_fail(err, MR_BAD_CONFIG,
                       "a model with %u steps in flight, at most %u are supported",
                       options->model.steps_ahead, MR_STEPS_AHEAD_MAX);
    if (options->model.steps_ahead > 1 && options->model.kv_bytes_of != NULL)
        return mr_fail(err, MR_BAD_CONFIG,
                       "other threads cannot use the KV pool of a model that runs ahead");
    return MR_OK;
}

static void limit_to_states(struct mr_engine_options *options)
{
    const uint32_t sequences = options->state_slots > 1 ? options->state_slots / 2 : 1;
    if (options->state_slots == 0) return;
    if (options->sequences_max > sequences) options->sequences_max = sequences;
    options->draft_rows_max = 0;
    options->remote = NULL;
}

static void fill_rules(struct mr_engine *engine)
{
    const struct mr_engine_options *options = &engine->options;
    for (uint32_t i = 0; i < options->eos_count; i++)
        engine->eos_ids[i] = options->eos_ids[i];
    engine->rules = (struct mr_job_rules){
        .completion = {.tokenizer = options->tokenizer,
                       .texts = engine->texts,
                       .eos_ids = engine->eos_ids,
                       .eos_count = options->eos_count},
        .vocab_size = options->model.vocab_size,
        .context_tokens = options->context_tokens,
        .block_count = options->block_count,
        .prefix_cache = options->prefix_cache,
        .speculates = options->draft_rows_max > 0,
        .scores_max = options->score_rows_max,
        .hidden_size = options->model.hidden == NULL ? 0 : options->model.hidden_size,
        .pooling = options->model.pooling,
        .heads = options->model.heads,
        .whole_prompts = options->model.whole_prompts,
        .defaults = options->defaults,
    };
    memcpy(engine->rules.fingerprint.bytes, options->fingerprint, MR_HASH_BYTES);
}

static enum mr_status create_queue(struct mr_engine *engine, struct mr_error *err)
{
    const struct mr_engine_options *options = &engine->options;
    struct mr_request_queue_options bounds = {.count_max = options->queue_count_max,
                                              .bytes_max = options->queue_bytes_max,
                                              .ageing_ns = options->ageing_ns,
                                              .blocks_max = (uint64_t)options->queue_pools_max *
                                                            options->block_count,
                                              .tenant_count = options->tenant_count,
                                              .tenant_weights = options->tenant_weights};
    return mr_request_queue_create(&engine->queue, &bounds, err);
}

/* The most tokens that one sequence may have in one step. */
static uint32_t step_tokens(const struct mr_engine_options *options)
{
    bool chunks = options->chunk_tokens > 0 && (uint32_t)options->chunk_tokens < options->rows_max;
    return chunks ? (uint32_t)options->chunk_tokens : options->rows_max;
}

static enum mr_status create_caches(struct mr_engine *engine, struct mr_error *err)
{
    const struct mr_engine_options *options = &engine->options;
    uint32_t lent = options->remote == NULL ? 0 : MR_PREFIX_TABLES_MAX;
    struct mr_kv_cache_options cache = {.block_count = options->block_count,
                                        .sequence_tokens_max = options->context_tokens,
                                        .sequences_max = options->sequences_max + lent,
                                        .kept_max = options->session_blocks_max,
                                        .prefix_cache = options->prefix_cache,
                                        .window_slots = options->window_slots,
                                        .window_tokens = options->window_tokens,
                                        .step_tokens = step_tokens(options),
                                        .state_slots = options->state_slots};
    enum mr_status status = mr_kv_cache_create(&engine->cache, &cache, err);
    if (status != MR_OK || options->prompt_cache_entries == 0 || !options->prefix_cache)
        return status;
    struct mr_prompt_cache_options prompts = {.entries_max = options->prompt_cache_entries,
                                              .vocab_size = options->model.vocab_size,
                                              .ttl_ns = options->prompt_cache_ttl_ns};
    return mr_prompt_cache_create(&engine->prompts, &prompts, err);
}

static enum mr_status create_remote(struct mr_engine *engine, struct mr_error *err)
{
    const struct mr_engine_options *options = &engine->options;
    if (options->remote == NULL || !options->prefix_cache) return MR_OK;
    uint32_t chunk = options->chunk_tokens > 0 ? (uint32_t)options->chunk_tokens : 0;
    struct mr_remote_prefix_options prefix = {.remote = options->remote,
                                              .model = &options->model,
                                              .cache = engine->cache,
                                              .prompts = engine->prompts,
                                              .cost = &engine->cost,
                                              .queue = engine->queue,
                                              .context_tokens = options->context_tokens,
                                              .chunk_tokens = chunk,
                                              .staging_bytes = options->remote_staging_bytes};
    return mr_remote_prefix_create(&engine->remote, &prefix, err);
}

static enum mr_status create_scheduler(struct mr_engine *engine, struct mr_error *err)
{
    const struct mr_engine_options *options = &engine->options;
    size_t sequences = options->sequences_max;
    struct mr_scheduler_options scheduler = {
        .sequences_max = options->sequences_max,
        .tenant_count = options->tenant_count,
        .rows_max = options->rows_max,
        .draft_rows_max = options->draft_rows_max,
        .score_rows_max = options->score_rows_max,
        .block_count = options->block_count,
        .chunk_tokens = options->chunk_tokens,
        .whole_prompts = options->model.whole_prompts,
        .prefills_max = options->prefills_max,
        .prefill_batch_max = options->prefill_batch_max,
        .prefill_bytes_max = options->prefill_bytes_max,
        .geometry = options->geometry,
        .step_target_ms = options->step_target_ms,
        .ageing_ns = options->ageing_ns,
        .deadline_admission = options->deadline_admission,
        .masks = engine->rules.masks,
        .session_keep_ns = options->session_keep_ns,
        .force_preempt_every = options->force_preempt_every,
        .queue = engine->queue,
        .cache = engine->cache,
        .prompts = engine->prompts,
        .remote = engine->remote,
        .cost = &engine->cost,
        .may_start = engine->sink.may_start,
        .sink_context = engine->sink.context,
    };
    enum mr_status status = mr_scheduler_create(&engine->scheduler, &scheduler, err);
    if (status == MR_OK) status = mr_engine_create_flights(engine, err);
    if (status != MR_OK) return status;
    engine->due_max = engine->flights[0].builder->samples_max;
    engine->due = calloc(engine->due_max, sizeof *engine->due);
    engine->jobs = calloc(MR_STARTED_MAX(options->sequences_max), sizeof(struct mr_job *));
    engine->hidden = calloc(options->model.hidden_size + 1u, sizeof *engine->hidden);
    if (engine->due == NULL || engine->jobs == NULL || engine->hidden == NULL)
        return mr_fail(err, MR_NOMEM, "no memory for %zu sequences", sequences);
    return MR_OK;
}

enum mr_status mr_engine_create(struct mr_engine **out, const struct mr_engine_options *options,
                                const struct mr_sink *sink, struct mr_error *err)
{
    *out = NULL;
    enum mr_status status = check_options(options, err);
    if (status != MR_OK) return status;
    struct mr_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) return mr_fail(err, MR_NOMEM, "no memory for the engine");
    engine->options = *options;
    engine->sink = *sink;
    limit_to_states(&engine->options);
    status = mr_token_text_create(&engine->texts, options->tokenizer, err);
    if (status != MR_OK) goto failed;
    fill_rules(engine);
    status =
        mr_token_mask_create(&engine->rules.masks, options->tokenizer, options->model.vocab_size,
                             engine->eos_ids, options->eos_count, err);
    if (status != MR_OK) goto failed;
    status = create_queue(engine, err);
    if (status == MR_OK) status = create_caches(engine, err);
    mr_cost_model_init(&engine->cost);
    if (status == MR_OK) status = create_remote(engine, err);
    if (status == MR_OK) status = create_scheduler(engine, err);
    if (status != MR_OK) goto failed;
    mr_engine_publish_stats(engine);
    *out = engine;
    return MR_OK;
failed:
    mr_engine_destroy(engine);
    return status;
}

static void destroy_job(struct mr_engine *engine, struct mr_job *job)
{
    struct mr_request *request = job->request;
    mr_request_queue_release(engine->queue, &job->waiting);
    mr_job_destroy(job);
    mr_request_destroy(request);
}

/* Destroys every job, and the scheduler, which owns the block tables of running sequences. */
static void destroy_jobs(struct mr_engine *engine)
{
    struct mr_queue_entry *entry;
    while (engine->queue != NULL && (entry = mr_request_queue_drain(engine->queue)) != NULL)
        destroy_job(engine, mr_job_of_waiting(entry));
    mr_scheduler_destroy(engine->scheduler);
    for (uint32_t i = 0; i < engine->job_count; i++)
        destroy_job(engine, engine->jobs[i]);
}

void mr_engine_destroy(struct mr_engine *engine)
{
    if (engine == NULL) return;
    mr_engine_destroy_flights(engine);
    mr_engine_drop_due(engine);
    destroy_jobs(engine);
    mr_remote_prefix_destroy(engine->remote);
    mr_request_queue_destroy(engine->queue);
    free(engine->jobs);
    free(engine->hidden);
    free(engine->due);
    mr_prompt_cache_destroy(engine->prompts);
    mr_kv_cache_destroy(engine->cache);
    mr_token_mask_destroy(engine->rules.masks);
    mr_token_text_destroy(engine->texts);
    free(engine);
}

static void wake(const struct mr_engine *engine)
{
    if (engine->options.wake) engine->options.wake(engine->options.wake_context);
}

enum mr_status mr_engine_submit(struct mr_engine *engine, const struct mr_submission *submission,
                                struct mr_error *err)
{
    struct mr_job *job;
    enum mr_status status = mr_job_create(&job, &engine->rules, submission, err);
    if (status != MR_OK) return status;
    status = mr_request_queue_enqueue(engine->queue, &job->waiting);
    if (status == MR_OK) {
        wake(engine);
        return MR_OK;
    }
    if (status == MR_INVALID_REQUEST)
        mr_fail(err, status, "a request of this tenant with this id is already in the engine");
    else
        mr_fail(err, status, "the request queue accepts no more requests now");
    mr_job_destroy(job);
    return status;
}

bool mr_engine_cancel(struct mr_engine *engine, uint32_t tenant_index, struct mr_text id)
{
    struct mr_request_key key;
    mr_request_key_set(&key, tenant_index, id);
    if (!mr_request_queue_cancel(engine->queue, mr_request_key_text(&key))) return false;
    wake(engine);
    return true;
}

void mr_engine_return_waiting(struct mr_engine *engine,
                              void (*returned)(void *context, uint64_t ticket,
                                               struct mr_request *request),
                              void *context)
{
    struct mr_queue_entry *entry;
    while ((entry = mr_request_queue_drain(engine->queue)) != NULL) {
        struct mr_job *job = mr_job_of_waiting(entry);
        struct mr_request *request = job->request;
        uint64_t ticket = job->ticket;
        mr_engine_unregister(engine, job);
        mr_job_destroy(job);
        returned(context, ticket, request);
    }
}

uint64_t mr_engine_room(struct mr_engine *engine)
{
    return mr_request_queue_room(engine->queue);
}

static void fill_stats(struct mr_engine *engine)
{
    struct mr_engine_stats *stats = &engine->stats;
    stats->running = mr_scheduler_running(engine->scheduler);
    stats->prefilling = mr_scheduler_prefilling(engine->scheduler);
    stats->waiting = mr_request_queue_count(engine->queue) + mr_scheduler_parked(engine->scheduler);
    stats->cache = mr_kv_cache_stats(engine->cache);
    if (engine->prompts != NULL) stats->prompts = mr_prompt_cache_stats(engine->prompts);
    mr_cost_model_coefficients(&engine->cost, stats->cost_model);
    if (engine->remote != NULL) stats->remote = mr_remote_prefix_stats(engine->remote);
}

/* A sequence lock (seqlock). The words of the statistics are stored with release order after the
 * odd version and loaded with acquire order before the version is read again. So a reader that sees
 * a word of this write also sees its version. */
void mr_engine_publish_stats(struct mr_engine *engine)
{
    uint64_t words[MR_STATS_WORDS];
    struct mr_stats_snapshot *snapshot = &engine->snapshot;
    fill_stats(engine);
    memcpy(words, &engine->stats, sizeof words);
    uint64_t version = atomic_load_explicit(&snapshot->version, memory_order_relaxed);
    atomic_store_explicit(&snapshot->version, version + 1, memory_order_relaxed);
    for (size_t i = 0; i < MR_STATS_WORDS; i++)
        atomic_store_explicit(&snapshot->words[i], words[i], memory_order_release);
    atomic_store_explicit(&snapshot->version, version + 2, memory_order_release);
}

struct mr_engine_stats mr_engine_stats(struct mr_engine *engine)
{
    uint64_t words[MR_STATS_WORDS], before, after;
    struct mr_stats_snapshot *snapshot = &engine->snapshot;
    do {
        before = atomic_load_explicit(&snapshot->version, memory_order_acquire);
        for (size_t i = 0; i < MR_STATS_WORDS; i++)
            words[i] = atomic_load_explicit(&snapshot->words[i], memory_order_acquire);
        after = atomic_load_explicit(&snapshot->version, memory_order_relaxed);
    } while (before != after || before % 2 != 0);
    struct mr_engine_stats stats;
    memcpy(&stats, words, sizeof stats);
    return stats;
}

void mr_engine_check(struct mr_engine *engine)
{
    mr_kv_cache_check(engine->cache);
    if (engine->prompts != NULL) mr_prompt_cache_check(engine->prompts);
    mr_request_queue_check(engine->queue);
    if (engine->remote != NULL) mr_remote_prefix_check(engine->remote);
    mr_scheduler_check(engine->scheduler);
    struct mr_kv_cache_stats cache = mr_kv_cache_stats(engine->cache);
    MR_ASSERT(cache.free_count + cache.cached_count + cache.held_count == cache.block_count);
    bool lent = engine->remote != NULL && mr_remote_prefix_stats(engine->remote).lent_tables > 0;
    if (mr_scheduler_running(engine->scheduler) == 0 && !lent) MR_ASSERT(cache.held_count == 0);
    for (uint32_t i = 0; i < engine->job_count; i++) {
        const struct mr_job *job = engine->jobs[i];
        MR_ASSERT(job->started && job->finished_count < job->choice_count);
        for (uint32_t choice = 0; choice < job->choice_count; choice++) {
            mr_sequence_check(&job->sequences[choice]);
            mr_completion_check(job->sequences[choice].completion);
        }
    }
}
