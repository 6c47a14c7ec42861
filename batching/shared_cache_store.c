/* Stores: blocks after the step that wrote them, entries after the step that finished a prompt.
 * Where the tier can read a block in the pool it does; else it reads a copy in a buffer. */
#include "batching/shared_cache_state.h"
#include "codec/check.h"

#include <string.h>

static struct mr_tier_keep *free_keep(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_STORES_MAX; i++) {
        if (shared->keeps[i].in_use) continue;
        shared->keeps[i] = (struct mr_tier_keep){0};
        return &shared->keeps[i];
    }
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
    struct mr_kv_place place = {block, mr_kv_window_slot(shared->options.cache, block)};
    enum mr_status status = model->kv_export(model->context, place, token_count, bytes);
    shared->stats.export_ns += mr_shared_clock(shared) - begin_ns;
    return status == MR_OK;
}

static void drop_keep(struct mr_shared_cache *shared, struct mr_tier_keep *keep)
{
    struct mr_block_table *table = keep->table;
    for (uint32_t i = 0; i < keep->buffer_count; i++)
        mr_shared_give_back(shared, keep->buffers[i]);
    shared->store_buffers -= keep->buffer_count;
    *keep = (struct mr_tier_keep){0};
    mr_shared_table_done(shared, table);
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
    keep->buffers[keep->buffer_count++] = buffer;
    shared->store_buffers++;
    return mr_shared_buffer(shared, buffer);
}

/* The bytes of a published block for the tier to read; NULL: not now. */
static void *bytes_to_read(struct mr_shared_cache *shared, struct mr_tier_keep *keep,
                           uint32_t block)
{
    void *bytes = mr_shared_block_bytes(shared, block);
    if (bytes != NULL) return bytes;
    unsigned char *buffer = take_buffer(shared, keep);
    return export(shared, block, MR_BLOCK_TOKENS, buffer) ? buffer : NULL;
}

/* Blocks from the cursor on, as many as fit one request. False: nothing more can be stored now. */
static bool store_some(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_tier_keep *keep = free_keep(shared);
    bool direct = mr_shared_block_bytes(shared, 0) != NULL;
    if (keep == NULL || !(direct || has_buffer(shared))) return false;
    keep->table = direct ? sequence->table : NULL;
    while (sequence->stored_blocks < end && keep->count < MR_STORE_ITEMS_MAX &&
           (direct || has_buffer(shared))) {
        uint32_t block = sequence->table->blocks[sequence->stored_blocks];
        if (!mr_kv_window_is_complete(shared->options.cache, block)) {
            sequence->stored_blocks = UINT32_MAX; /* the chain ends here */
            break;
        }
        sequence->stored_blocks++;
        struct mr_tier_item *item = &shared->items[keep->count++];
        *item = (struct mr_tier_item){.token_count = MR_BLOCK_TOKENS,
                                      .bytes = bytes_to_read(shared, keep, block),
                                      .length = shared->block_bytes,
                                      .layer_bytes = shared->layer_bytes};
        memcpy(item->key, mr_kv_cache_block_key(shared->options.cache, block), MR_HASH_BYTES);
        if (item->bytes != NULL) continue;
        drop_keep(shared, keep);
        return false;
    }
    return keep->count > 0 && send(shared, keep, sequence->job->tenant);
}

/* The entry of a prompt computed just now. */
static void store_entry(struct mr_shared_cache *shared, struct mr_sequence *sequence)
{
    const struct mr_job *job = sequence->job;
    if (sequence->prompt_tokens < MR_ENTRY_TOKENS_MIN || job->tier.entry) return;
    unsigned char key[MR_HASH_BYTES];
    mr_kv_cache_prompt_key(shared->options.cache, job->root, sequence->tokens,
                           sequence->prompt_tokens, key);
    const float *logits =
        mr_prompt_cache_peek(shared->options.prompts, key, mr_shared_clock(shared));
    if (logits == NULL) return;
    struct mr_tier_keep *keep = free_keep(shared);
    if (keep == NULL || !has_buffer(shared)) return;
    uint32_t tail = mr_shared_tail(sequence);
    struct mr_tier_item *item = &shared->items[0];
    *item = (struct mr_tier_item){.token_count = tail,
                                  .bytes = take_buffer(shared, keep),
                                  .length = mr_shared_entry_bytes(shared, tail)};
    keep->count = 1;
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

/* The conversation so far ends within a block: its first tokens, for whoever has the next turn. */
static void store_tail(struct mr_shared_cache *shared, const struct mr_sequence *sequence)
{
    const struct mr_block_table *table = sequence->table;
    uint32_t full = table->published_tokens / MR_BLOCK_TOKENS;
    uint32_t tail = table->published_tokens % MR_BLOCK_TOKENS / MR_TAIL_STEP * MR_TAIL_STEP;
    struct mr_tier_keep *keep = free_keep(shared);
    if (tail == 0 || keep == NULL || !has_buffer(shared) ||
        !mr_kv_window_is_complete(shared->options.cache, table->blocks[full]))
        return;
    struct mr_tier_item *item = &shared->items[0];
    keep->count = 1;
    *item = (struct mr_tier_item){.token_count = tail,
                                  .bytes = take_buffer(shared, keep),
                                  .length = mr_shared_kv_bytes(shared, tail)};
    mr_kv_cache_tail_key(shared->options.cache, table->tail,
                         sequence->tokens + (size_t)full * MR_BLOCK_TOKENS, tail, item->key);
    if (export(shared, table->blocks[full], tail, item->bytes))
        (void)send(shared, keep, sequence->job->tenant);
    else
        drop_keep(shared, keep);
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
    if (session && last) store_tail(shared, sequence);
    if (!sequence->entry_due) return;
    sequence->entry_due = false;
    store_entry(shared, sequence);
}

void mr_shared_store_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer)
{
    struct mr_tier_keep *keep = &shared->keeps[answer->ticket & 0xffff];
    MR_ASSERT(keep->in_use && keep->ticket == answer->ticket && answer->final);
    uint32_t stored = answer->count < keep->count ? answer->count : keep->count;
    shared->stats.stored_items += stored;
    shared->stats.stored_bytes += stored * shared->block_bytes;
    *(keep->table != NULL ? &shared->stats.direct_bytes : &shared->stats.staged_bytes) +=
        stored * shared->block_bytes;
    shared->stats.stores_lost += keep->count - stored;
    drop_keep(shared, keep);
}
