/* Stores: blocks after the step that wrote them, entries after the step that finished a prompt.
 * Where the tier can read a block in the pool it does; else it reads a copy in a buffer. */
#include "batching/cache/shared_cache_state.h"
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

static bool export(struct mr_shared_cache *shared, uint32_t block, uint32_t first,
                   uint32_t token_count, unsigned char *bytes)
{
    const struct mr_model_port *model = shared->options.model;
    uint64_t begin_ns = mr_shared_clock(shared);
    struct mr_kv_place place = mr_shared_place(shared, block, first);
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

static void add_item(struct mr_shared_cache *shared, struct mr_tier_keep *keep,
                     struct mr_tier_item item, void *bytes)
{
    item.bytes = bytes;
    shared->items[keep->count++] = item;
    keep->bytes += item.length;
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
    return export(shared, block, 0, MR_BLOCK_TOKENS, buffer) ? buffer : NULL;
}

/* Blocks from the cursor on, as many as fit one request. False: nothing more can be stored now. */
static bool store_some(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_tier_keep *keep = free_keep(shared);
    bool direct = mr_shared_block_bytes(shared, 0) != NULL;
    if (keep == NULL || !(direct || has_buffer(shared))) return false;
    keep->table = direct ? sequence->table : NULL;
    while (sequence->stored_tokens / MR_BLOCK_TOKENS < end && keep->count < MR_STORE_ITEMS_MAX &&
           (direct || has_buffer(shared))) {
        uint32_t index = sequence->stored_tokens / MR_BLOCK_TOKENS;
        uint32_t block = sequence->table->blocks[index];
        if (!mr_kv_cache_is_complete(shared->options.cache, block)) {
            sequence->stored_tokens = UINT32_MAX; /* the chain ends here */
            break;
        }
        sequence->stored_tokens = (index + 1) * MR_BLOCK_TOKENS;
        void *bytes = bytes_to_read(shared, keep, block);
        if (bytes == NULL) {
            drop_keep(shared, keep);
            return false;
        }
        const unsigned char *key = mr_kv_cache_block_key(shared->options.cache, block);
        add_item(shared, keep, mr_shared_block_item(shared, key), bytes);
    }
    return keep->count > 0 && send(shared, keep, sequence->job->tenant);
}

static void store_blocks(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    while (sequence->stored_tokens / MR_BLOCK_TOKENS < end && store_some(shared, sequence, end))
        ;
}

/* The pieces up to token `end` of the sequence that are not stored yet. False: they cannot be. */
static bool add_pieces(struct mr_shared_cache *shared, struct mr_tier_keep *keep,
                       struct mr_sequence *sequence, uint32_t end)
{
    const uint32_t index = end / MR_BLOCK_TOKENS, *blocks = sequence->table->blocks;
    while (sequence->stored_tokens + MR_PIECE_TOKENS <= end) {
        const uint32_t first = sequence->stored_tokens % MR_BLOCK_TOKENS;
        unsigned char *bytes =
            mr_shared_piece_bytes(shared, keep->buffers[0], first / MR_PIECE_TOKENS);
        const unsigned char *parent =
            index > 0 ? mr_kv_cache_block_key(shared->options.cache, blocks[index - 1])
                      : sequence->job->root;
        if (!export(shared, blocks[index], first, MR_PIECE_TOKENS, bytes)) {
            sequence->stored_tokens = UINT32_MAX; /* the chain ends here */
            return false;
        }
        sequence->stored_tokens += MR_PIECE_TOKENS;
        add_item(shared, keep,
                 mr_shared_piece_item(shared, sequence, parent, sequence->stored_tokens), bytes);
    }
    return true;
}

/* The entry of a prompt computed just now, if its logits are still known. False: it cannot be. */
static bool add_entry(struct mr_shared_cache *shared, struct mr_tier_keep *keep,
                      struct mr_sequence *sequence)
{
    const uint32_t end = sequence->prompt_tokens, rest = end % MR_PIECE_TOKENS;
    const struct mr_tier_item item = mr_shared_entry_item(shared, sequence);
    const float *logits =
        mr_prompt_cache_peek(shared->options.prompts, item.key, mr_shared_clock(shared));
    unsigned char *bytes = mr_shared_buffer(shared, keep->buffers[0]);
    sequence->entry_due = false;
    if (logits == NULL) return true;
    memcpy(bytes, logits, shared->logits_bytes);
    if (rest > 0 && !export(shared, sequence->table->blocks[end / MR_BLOCK_TOKENS],
                            (end - rest) % MR_BLOCK_TOKENS, rest, bytes + shared->logits_bytes))
        return false;
    add_item(shared, keep, item, bytes);
    return true;
}

/* What is behind the last full block of the first `end` tokens, once that is stored: pieces and, if
 * that is due and they are the prompt, its entry. */
static void store_tail(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    const uint32_t index = end / MR_BLOCK_TOKENS;
    const bool entry = sequence->entry_due && end == sequence->prompt_tokens &&
                       end >= MR_LOAD_TOKENS_MIN && !sequence->job->tier.entry;
    if (sequence->stored_tokens / MR_BLOCK_TOKENS != index) return;
    if (sequence->stored_tokens + MR_PIECE_TOKENS > end && !entry) return;
    if (end % MR_BLOCK_TOKENS > 0 &&
        !mr_kv_cache_is_complete(shared->options.cache, sequence->table->blocks[index]))
        return;
    struct mr_tier_keep *keep = free_keep(shared);
    if (keep == NULL || !has_buffer(shared)) return;
    (void)take_buffer(shared, keep);
    if (add_pieces(shared, keep, sequence, end) && (!entry || add_entry(shared, keep, sequence)) &&
        keep->count > 0)
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
    const uint32_t published = sequence->table->published_tokens, prompt = sequence->prompt_tokens;
    if (sequence->stored_tokens < view->there_tokens) sequence->stored_tokens = view->there_tokens;
    store_blocks(shared, sequence, (published < prompt ? published : prompt) / MR_BLOCK_TOKENS);
    if (published >= prompt) store_tail(shared, sequence, prompt);
    if (job->request->session.length == 0) return;
    store_blocks(shared, sequence, published / MR_BLOCK_TOKENS);
    if (last) store_tail(shared, sequence, published);
}

void mr_shared_store_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer)
{
    struct mr_tier_keep *keep = &shared->keeps[answer->ticket & 0xffff];
    MR_ASSERT(keep->in_use && keep->ticket == answer->ticket && answer->final);
    uint32_t stored = answer->count < keep->count ? answer->count : keep->count;
    uint64_t bytes = keep->bytes * stored / keep->count; /* which of them it does not say */
    shared->stats.stored_items += stored;
    shared->stats.stored_bytes += bytes;
    *(keep->table != NULL ? &shared->stats.direct_bytes : &shared->stats.staged_bytes) += bytes;
    shared->stats.stores_lost += keep->count - stored;
    drop_keep(shared, keep);
}
