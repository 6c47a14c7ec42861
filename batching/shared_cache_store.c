/* Stores: blocks after the step that wrote them, entries after the step that finished a prompt. */
#include "batching/shared_cache_state.h"
#include "codec/check.h"

#include <string.h>

static struct mr_tier_keep *free_keep(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (!shared->keeps[i].in_use) return &shared->keeps[i];
    return NULL;
}

/* Half of the buffers are left to loads. */
static bool has_buffer(const struct mr_shared_cache *shared)
{
    return shared->free_count > 0 && shared->store_buffers < shared->buffer_count / 2;
}

static bool export(struct mr_shared_cache *shared, uint32_t block, uint32_t token_count,
                   unsigned char *bytes)
{
    const struct mr_model_port *model = shared->options.model;
    uint64_t begin_ns = mr_shared_clock(shared);
    enum mr_status status = model->kv_export(model->context, block, token_count, bytes);
    shared->stats.export_ns += mr_shared_clock(shared) - begin_ns;
    return status == MR_OK;
}

static void drop_keep(struct mr_shared_cache *shared, struct mr_tier_keep *keep)
{
    for (uint32_t i = 0; i < keep->count; i++)
        mr_shared_give_back(shared, keep->buffers[i]);
    shared->store_buffers -= keep->count;
    keep->count = 0;
    keep->in_use = false;
}

/* The items of the request lie in shared->items. */
static bool send(struct mr_shared_cache *shared, struct mr_tier_keep *keep, const char *tenant)
{
    const struct mr_tier *tier = shared->options.tier;
    keep->ticket = mr_shared_ticket(shared, (uint32_t)(keep - shared->keeps));
    struct mr_tier_request request = {
        .ticket = keep->ticket, .items = shared->items, .count = keep->count, .tenant = tenant};
    keep->in_use = true;
    if (tier->store(tier->context, &request)) return true;
    shared->stats.stores_refused++;
    drop_keep(shared, keep);
    return false;
}

static unsigned char *take_buffer(struct mr_shared_cache *shared, struct mr_tier_keep *keep)
{
    uint32_t buffer = mr_shared_take_buffer(shared);
    keep->buffers[keep->count++] = buffer;
    shared->store_buffers++;
    return mr_shared_buffer(shared, buffer);
}

/* Blocks from the cursor on, as many as fit one request. False: nothing more can be stored now. */
static bool store_some(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_tier_keep *keep = free_keep(shared);
    if (keep == NULL || !has_buffer(shared)) return false;
    keep->count = 0;
    while (sequence->stored_blocks < end && keep->count < MR_STORE_ITEMS_MAX &&
           has_buffer(shared)) {
        uint32_t block = sequence->table->blocks[sequence->stored_blocks];
        struct mr_tier_item *item = &shared->items[keep->count];
        *item = (struct mr_tier_item){.token_count = MR_BLOCK_TOKENS,
                                      .bytes = take_buffer(shared, keep),
                                      .length = shared->block_bytes,
                                      .layer_bytes = shared->layer_bytes};
        memcpy(item->key, mr_kv_cache_block_key(shared->options.cache, block), MR_HASH_BYTES);
        sequence->stored_blocks++;
        if (export(shared, block, MR_BLOCK_TOKENS, item->bytes)) continue;
        drop_keep(shared, keep);
        return false;
    }
    return send(shared, keep, sequence->job->tenant);
}

void mr_shared_cache_store(struct mr_shared_cache *shared, struct mr_sequence *sequence, bool last)
{
    const struct mr_job *job = sequence->job;
    const struct mr_tier_view *view = &job->tier;
    if (!job->request->cache_write || sequence->choice != 0) return;
    if (view->state == MR_TIER_ASKED && !last) return;
    uint32_t end = sequence->table->published_tokens;
    bool session = job->request->session.length > 0;
    if (!session && end > sequence->prompt_tokens) end = sequence->prompt_tokens;
    end /= MR_BLOCK_TOKENS;
    if (sequence->stored_blocks < view->there_blocks) sequence->stored_blocks = view->there_blocks;
    while (sequence->stored_blocks < end && store_some(shared, sequence, end))
        ;
}

void mr_shared_cache_store_entry(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                                 const unsigned char key[MR_HASH_BYTES], const float *logits)
{
    const struct mr_job *job = sequence->job;
    if (sequence->prompt_tokens < MR_ENTRY_TOKENS_MIN || job->tier.entry) return;
    struct mr_tier_keep *keep = free_keep(shared);
    if (keep == NULL || !has_buffer(shared)) return;
    keep->count = 0;
    uint32_t tail = mr_shared_tail(sequence);
    struct mr_tier_item *item = &shared->items[0];
    *item = (struct mr_tier_item){.token_count = tail,
                                  .bytes = take_buffer(shared, keep),
                                  .length = mr_shared_entry_bytes(shared, tail)};
    memcpy(item->key, key, MR_HASH_BYTES);
    unsigned char *bytes = item->bytes;
    uint32_t block = sequence->prompt_tokens / MR_BLOCK_TOKENS;
    if (tail > 0 && !export(shared, sequence->table->blocks[block], tail, bytes)) {
        drop_keep(shared, keep);
        return;
    }
    memcpy(bytes + item->length - shared->logits_bytes, logits, shared->logits_bytes);
    (void)send(shared, keep, job->tenant);
}

void mr_shared_store_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer)
{
    struct mr_tier_keep *keep = &shared->keeps[answer->ticket & 0xffff];
    MR_ASSERT(keep->in_use && keep->ticket == answer->ticket && answer->final);
    uint32_t stored = answer->count < keep->count ? answer->count : keep->count;
    shared->stats.stored_items += stored;
    shared->stats.stored_bytes += stored * shared->block_bytes;
    shared->stats.stores_lost += keep->count - stored;
    drop_keep(shared, keep);
}
