#include "batching/shared_cache_state.h"
#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- buffers and tickets ---- */

uint64_t mr_shared_ticket(struct mr_shared_cache *shared, uint32_t slot)
{
    return ++shared->generation << 16 | slot;
}

unsigned char *mr_shared_buffer(const struct mr_shared_cache *shared, uint32_t buffer)
{
    MR_ASSERT(buffer < shared->buffer_count);
    return shared->staging + buffer * shared->buffer_bytes;
}

void mr_shared_give_back(struct mr_shared_cache *shared, uint32_t buffer)
{
    MR_ASSERT(shared->free_count < shared->buffer_count);
    shared->free_buffers[shared->free_count++] = buffer;
}

uint32_t mr_shared_take_buffer(struct mr_shared_cache *shared)
{
    MR_ASSERT(shared->free_count > 0);
    return shared->free_buffers[--shared->free_count];
}

uint32_t mr_shared_tail(const struct mr_sequence *sequence)
{
    return sequence->prompt_tokens % MR_BLOCK_TOKENS;
}

/* The KV of no token is no bytes. */
static size_t kv_bytes(const struct mr_model_port *model, uint32_t token_count)
{
    return token_count == 0 ? 0 : model->kv_bytes(model->context, token_count);
}

size_t mr_shared_entry_bytes(const struct mr_shared_cache *shared, uint32_t tail_tokens)
{
    return kv_bytes(shared->options.model, tail_tokens) + shared->logits_bytes;
}

uint64_t mr_shared_clock(const struct mr_shared_cache *shared)
{
    const struct mr_model_port *model = shared->options.model;
    return model->clock_ns == NULL ? 0 : model->clock_ns(model->context);
}

/* ---- creation ---- */

static bool make_loads(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_tier_load *load = &shared->loads[i];
        load->buffers = calloc(shared->items_max, sizeof *load->buffers);
        load->states = calloc(shared->items_max, sizeof *load->states);
        if (load->buffers == NULL || load->states == NULL) return false;
    }
    return true;
}

static bool make_tables(struct mr_shared_cache *shared)
{
    uint32_t items =
        shared->items_max < MR_STORE_ITEMS_MAX ? MR_STORE_ITEMS_MAX : shared->items_max;
    shared->items = calloc(items, sizeof *shared->items);
    shared->keys = calloc(shared->items_max, MR_HASH_BYTES);
    shared->free_buffers = calloc(shared->buffer_count, sizeof *shared->free_buffers);
    shared->staging = malloc(shared->buffer_count * shared->buffer_bytes);
    if (shared->items == NULL || shared->keys == NULL || shared->free_buffers == NULL ||
        shared->staging == NULL || !make_loads(shared))
        return false;
    for (uint32_t i = shared->buffer_count; i-- > 0;)
        mr_shared_give_back(shared, i);
    return true;
}

enum mr_status mr_shared_cache_create(struct mr_shared_cache **out,
                                      const struct mr_shared_cache_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_shared_cache *shared = calloc(1, sizeof *shared);
    if (shared == NULL) goto fail;
    const struct mr_model_port *model = options->model;
    shared->options = *options;
    shared->block_bytes = kv_bytes(model, MR_BLOCK_TOKENS);
    shared->layer_bytes = shared->block_bytes / (model->layer_count > 0 ? model->layer_count : 1);
    shared->logits_bytes = model->vocab_size * sizeof(float);
    /* Logits stand behind the KV in a buffer: whole cache lines keep them aligned. */
    shared->buffer_bytes = (shared->block_bytes + shared->logits_bytes + 63) / 64 * 64;
    uint64_t staging = options->staging_bytes > 0 ? options->staging_bytes : MR_STAGING_BYTES;
    uint64_t buffers = staging / shared->buffer_bytes;
    shared->buffer_count = buffers < 2 ? 2 : buffers < 4096 ? (uint32_t)buffers : 4096;
    shared->items_max = options->context_tokens / MR_BLOCK_TOKENS + 2;
    if (!make_tables(shared)) goto fail_shared;
    *out = shared;
    return MR_OK;

fail_shared:
    mr_shared_cache_destroy(shared);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for the buffers of the shared cache");
}

void mr_shared_cache_destroy(struct mr_shared_cache *shared)
{
    if (shared == NULL) return;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        free(shared->loads[i].states);
        free(shared->loads[i].buffers);
    }
    free(shared->staging);
    free(shared->free_buffers);
    free(shared->keys);
    free(shared->items);
    free(shared);
}

/* ---- ask ---- */

static struct mr_tier_ask *free_ask(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_ASKS_MAX; i++)
        if (!shared->asks[i].in_use) return &shared->asks[i];
    return NULL;
}

/* Fills the items of a question; returns how many. */
static uint32_t fill_question(struct mr_shared_cache *shared, const struct mr_job *job)
{
    const struct mr_sequence *sequence = &job->sequences[0];
    uint32_t count = sequence->prompt_tokens / MR_BLOCK_TOKENS;
    MR_ASSERT(count < shared->items_max);
    mr_kv_cache_keys(shared->options.cache, job->root, sequence->tokens, count, shared->keys);
    for (uint32_t i = 0; i < count; i++) {
        struct mr_tier_item *item = &shared->items[i];
        *item = (struct mr_tier_item){.token_count = MR_BLOCK_TOKENS,
                                      .length = shared->block_bytes,
                                      .layer_bytes = shared->layer_bytes};
        memcpy(item->key, shared->keys + (size_t)i * MR_HASH_BYTES, MR_HASH_BYTES);
    }
    if (sequence->prompt_tokens < MR_ENTRY_TOKENS_MIN) return count;
    uint32_t tail = mr_shared_tail(sequence);
    shared->items[count] =
        (struct mr_tier_item){.token_count = tail, .length = mr_shared_entry_bytes(shared, tail)};
    mr_kv_cache_prompt_key(shared->options.cache, job->root, sequence->tokens,
                           sequence->prompt_tokens, shared->items[count].key);
    return count + 1;
}

bool mr_shared_cache_ask(struct mr_shared_cache *shared, struct mr_job *job, uint64_t now_ns)
{
    struct mr_tier_view *view = &job->tier;
    MR_ASSERT(view->state == MR_TIER_UNASKED);
    const struct mr_tier *tier = shared->options.tier;
    view->state = MR_TIER_ANSWERED;
    if (!job->request->cache_read) return true;
    struct mr_tier_ask *ask = free_ask(shared);
    if (ask == NULL) {
        view->state = MR_TIER_UNASKED;
        return false;
    }
    struct mr_tier_request request = {.items = shared->items, .tenant = job->tenant};
    request.count = fill_question(shared, job);
    if (request.count == 0) return true;
    request.ticket = mr_shared_ticket(shared, (uint32_t)(ask - shared->asks));
    if (!tier->ask(tier->context, &request)) {
        shared->stats.asks_refused++;
        return true;
    }
    *ask = (struct mr_tier_ask){.job = job, .ticket = request.ticket, .in_use = true};
    shared->stats.asks++;
    view->state = MR_TIER_ASKED;
    view->ticket = request.ticket;
    view->asked_ns = now_ns;
    return true;
}

bool mr_shared_cache_waits(const struct mr_shared_cache *shared, const struct mr_sequence *sequence,
                           uint64_t now_ns)
{
    const struct mr_job *job = sequence->job;
    if (job->tier.state != MR_TIER_ASKED || now_ns >= job->tier.asked_ns + MR_ASK_WAIT_NS)
        return false;
    uint32_t here =
        mr_kv_cache_probe(shared->options.cache, job->root, sequence->tokens, sequence->num_tokens);
    return here + MR_ENTRY_TOKENS_MIN < sequence->num_tokens;
}

void mr_shared_cache_forget(struct mr_shared_cache *shared, struct mr_job *job)
{
    if (job->tier.state != MR_TIER_ASKED) return;
    const struct mr_tier *tier = shared->options.tier;
    shared->asks[job->tier.ticket & 0xffff].job = NULL;
    tier->abandon(tier->context, job->tier.ticket);
    job->tier.state = MR_TIER_ANSWERED;
}

static void ask_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer)
{
    struct mr_tier_ask *ask = &shared->asks[answer->ticket & 0xffff];
    MR_ASSERT(ask->in_use && ask->ticket == answer->ticket && answer->final);
    struct mr_job *job = ask->job;
    *ask = (struct mr_tier_ask){0};
    if (job == NULL) return;
    struct mr_tier_view *view = &job->tier;
    uint32_t prompt = job->sequences[0].prompt_tokens, blocks = prompt / MR_BLOCK_TOKENS;
    view->state = MR_TIER_ANSWERED;
    view->entry = answer->count > blocks;
    view->there_blocks = answer->count < blocks ? answer->count : blocks;
    shared->stats.asked_tokens += prompt;
    shared->stats.there_tokens += view->entry ? prompt : view->there_blocks * MR_BLOCK_TOKENS;
    shared->stats.hits += answer->count > 0;
}

/* ---- the wheel ---- */

void mr_shared_cache_poll(struct mr_shared_cache *shared, uint64_t now_ns)
{
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_answer answer;
    while (tier->poll(tier->context, &answer)) {
        if (answer.work == MR_TIER_ASK)
            ask_answered(shared, &answer);
        else if (answer.work == MR_TIER_LOAD)
            mr_shared_load_answered(shared, &answer, now_ns);
        else
            mr_shared_store_answered(shared, &answer);
    }
    mr_shared_load_expire(shared, now_ns);
}

uint64_t mr_shared_cache_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < MR_ASKS_MAX; i++) {
        const struct mr_job *job = shared->asks[i].job;
        if (job == NULL) continue;
        uint64_t until_ns = job->tier.asked_ns + MR_ASK_WAIT_NS;
        if (until_ns > now_ns && until_ns < next_ns) next_ns = until_ns;
    }
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (shared->loads[i].holds && shared->loads[i].until_ns < next_ns)
            next_ns = shared->loads[i].until_ns;
    return next_ns;
}

struct mr_shared_cache_stats mr_shared_cache_stats(const struct mr_shared_cache *shared)
{
    struct mr_shared_cache_stats stats = shared->stats;
    stats.staging_count = shared->buffer_count;
    stats.staging_free = shared->free_count;
    return stats;
}

void mr_shared_cache_check(const struct mr_shared_cache *shared)
{
    uint32_t loading = 0, storing = 0;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        const struct mr_tier_load *load = &shared->loads[i];
        if (!load->in_use) continue;
        loading += load->item_count;
        MR_ASSERT(load->sequence == NULL || load->sequence->load == load);
        MR_ASSERT(!load->holds || (load->sequence != NULL && !load->over));
    }
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (shared->keeps[i].in_use) storing += shared->keeps[i].count;
    for (uint32_t i = 0; i < MR_ASKS_MAX; i++) {
        const struct mr_job *job = shared->asks[i].job;
        MR_ASSERT(job == NULL || job->tier.ticket == shared->asks[i].ticket);
    }
    MR_ASSERT(storing == shared->store_buffers);
    MR_ASSERT(shared->free_count + loading + storing == shared->buffer_count);
}
