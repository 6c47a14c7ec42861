#include "batching/cache/shared_store.h"

#include "batching/cache/shared_tables.h"
#include "codec/check.h"

#include <string.h>

static struct mr_store_slot *find_free_slot(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_STORES_MAX; i++) {
        if (shared->stores[i].in_use) continue;
        shared->stores[i] = (struct mr_store_slot){0};
        return &shared->stores[i];
    }
    return NULL;
}

/* True when a staging buffer is free for a store. Stores use at most half of all staging buffers,
 * so that loads find free ones. */
static bool has_buffer(const struct mr_shared_cache *shared)
{
    return shared->staging.unused_count > 0 && shared->store_buffers < shared->staging.count / 2;
}

static bool export_kv(struct mr_shared_cache *shared, uint32_t block, uint32_t first,
                      uint32_t token_count, unsigned char *bytes)
{
    const struct mr_model_port *model = shared->options.model;
    uint64_t begin_ns = mr_shared_base_clock_ns(shared);
    struct mr_kv_place place = mr_shared_base_place(shared, block, first);
    enum mr_status status = model->kv_export(model->context, place, token_count, bytes);
    shared->stats.export_ns += mr_shared_base_clock_ns(shared) - begin_ns;
    return status == MR_OK;
}

static void release_slot(struct mr_shared_cache *shared, struct mr_store_slot *store)
{
    struct mr_block_table *table = store->table;
    for (uint32_t i = 0; i < store->buffer_count; i++)
        mr_staging_release(&shared->staging, store->buffers[i]);
    shared->store_buffers -= store->buffer_count;
    *store = (struct mr_store_slot){0};
    mr_shared_tables_done(shared, table);
}

static void add_item(struct mr_shared_cache *shared, struct mr_store_slot *store,
                     struct mr_tier_item item, void *bytes)
{
    item.bytes = bytes;
    shared->items[store->count++] = item;
    store->bytes += item.length;
}

/* A lookup ends at the first missing value, so what lies behind one is not stored. */
static void stop_storing(struct mr_sequence *sequence)
{
    sequence->stored_tokens = UINT32_MAX;
}

/* Sends shared->items[0, store->count) to the Redis cache. False: it did not take all of them, and
 * nothing more of the sequence is stored. If it took none the slot is released. */
static bool send_items(struct mr_shared_cache *shared, struct mr_store_slot *store,
                       struct mr_sequence *sequence)
{
    const struct mr_tier *tier = shared->options.tier;
    store->ticket = mr_shared_base_ticket(shared, (uint32_t)(store - shared->stores));
    struct mr_tier_request request = {.ticket = store->ticket,
                                      .items = shared->items,
                                      .count = store->count,
                                      .tenant = sequence->job->tenant};
    store->in_use = true;
    const uint32_t taken = tier->store(tier->context, &request);
    if (taken == request.count) return true;
    stop_storing(sequence);
    if (taken > 0) return false;
    shared->stats.stores_refused++;
    release_slot(shared, store);
    return false;
}

static unsigned char *take_buffer(struct mr_shared_cache *shared, struct mr_store_slot *store)
{
    uint32_t buffer = mr_staging_take(&shared->staging);
    store->buffers[store->buffer_count++] = buffer;
    shared->store_buffers++;
    return mr_staging_bytes(&shared->staging, buffer);
}

/* Address from which the Redis cache can read a full block: in the KV pool, or a copy in a staging
 * buffer. NULL: copying the KV out of the pool failed. */
static void *readable_bytes(struct mr_shared_cache *shared, struct mr_store_slot *store,
                            uint32_t block)
{
    void *bytes = mr_shared_base_block_bytes(shared, block);
    if (bytes != NULL) return bytes;
    unsigned char *buffer = take_buffer(shared, store);
    return export_kv(shared, block, 0, MR_BLOCK_TOKENS, buffer) ? buffer : NULL;
}

/* Stores the sequence's full blocks up to block number `end`, starting at token stored_tokens, as
 * many as fit one request to the Redis cache. False: nothing more can be stored now. */
static bool store_some(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_store_slot *store = find_free_slot(shared);
    bool direct = mr_shared_base_block_bytes(shared, 0) != NULL;
    if (store == NULL || !(direct || has_buffer(shared))) return false;
    store->table = direct ? sequence->table : NULL;
    while (sequence->stored_tokens / MR_BLOCK_TOKENS < end && store->count < MR_STORE_ITEMS_MAX &&
           (direct || has_buffer(shared))) {
        uint32_t index = sequence->stored_tokens / MR_BLOCK_TOKENS;
        uint32_t block = sequence->table->blocks[index];
        if (!mr_kv_cache_is_complete(shared->options.cache, block)) {
            stop_storing(sequence);
            break;
        }
        sequence->stored_tokens = (index + 1) * MR_BLOCK_TOKENS;
        void *bytes = readable_bytes(shared, store, block);
        if (bytes == NULL) {
            stop_storing(sequence);
            release_slot(shared, store);
            return false;
        }
        const unsigned char *key = mr_kv_cache_block_key(shared->options.cache, block);
        add_item(shared, store, mr_shared_base_block_item(shared, key), bytes);
    }
    return store->count > 0 && send_items(shared, store, sequence);
}

static void store_blocks(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    while (sequence->stored_tokens / MR_BLOCK_TOKENS < end && store_some(shared, sequence, end))
        ;
}

/* Adds to the store the pieces (MR_PIECE_TOKENS tokens each) up to token `end` of the sequence that
 * are not stored yet. False: the KV could not be copied out of the pool. */
static bool add_pieces(struct mr_shared_cache *shared, struct mr_store_slot *store,
                       struct mr_sequence *sequence, uint32_t end)
{
    const uint32_t index = end / MR_BLOCK_TOKENS, *blocks = sequence->table->blocks;
    while (sequence->stored_tokens + MR_PIECE_TOKENS <= end) {
        const uint32_t first = sequence->stored_tokens % MR_BLOCK_TOKENS;
        unsigned char *bytes =
            mr_shared_base_piece_bytes(shared, store->buffers[0], first / MR_PIECE_TOKENS);
        const unsigned char *parent =
            index > 0 ? mr_kv_cache_block_key(shared->options.cache, blocks[index - 1])
                      : sequence->job->root;
        if (!export_kv(shared, blocks[index], first, MR_PIECE_TOKENS, bytes)) {
            stop_storing(sequence);
            return false;
        }
        sequence->stored_tokens += MR_PIECE_TOKENS;
        add_item(shared, store,
                 mr_shared_base_piece_item(shared, sequence, parent, sequence->stored_tokens),
                 bytes);
    }
    return true;
}

/* Adds to the store the complete-prompt entry (logits and tail KV) of a prompt that was just
 * computed, if its logits are still in the prompt cache. False: the KV could not be copied out of
 * the pool. */
static bool add_entry(struct mr_shared_cache *shared, struct mr_store_slot *store,
                      struct mr_sequence *sequence)
{
    const uint32_t end = sequence->prompt_tokens, rest = end % MR_PIECE_TOKENS;
    const struct mr_tier_item item = mr_shared_base_entry_item(shared, sequence);
    const float *logits =
        mr_prompt_cache_peek(shared->options.prompts, item.key, mr_shared_base_clock_ns(shared));
    unsigned char *bytes = mr_staging_bytes(&shared->staging, store->buffers[0]);
    sequence->entry_due = false;
    if (logits == NULL) return true;
    memcpy(bytes, logits, shared->logits_bytes);
    if (rest > 0 && !export_kv(shared, sequence->table->blocks[end / MR_BLOCK_TOKENS],
                               (end - rest) % MR_BLOCK_TOKENS, rest, bytes + shared->logits_bytes))
        return false;
    add_item(shared, store, item, bytes);
    return true;
}

/* Stores what lies behind the last full block of the first `end` tokens, once that block is stored:
 * the pieces (MR_PIECE_TOKENS tokens each) and, if these tokens are the whole prompt and entry_due
 * is set, the complete-prompt entry (logits and tail KV). */
static void store_tail(struct mr_shared_cache *shared, struct mr_sequence *sequence, uint32_t end)
{
    const uint32_t index = end / MR_BLOCK_TOKENS;
    const bool entry = sequence->entry_due && end == sequence->prompt_tokens &&
                       end >= MR_LOAD_TOKENS_MIN && !sequence->job->fetch.entry;
    if (sequence->stored_tokens / MR_BLOCK_TOKENS != index) return;
    if (sequence->stored_tokens + MR_PIECE_TOKENS > end && !entry) return;
    if (end % MR_BLOCK_TOKENS > 0 &&
        !mr_kv_cache_is_complete(shared->options.cache, sequence->table->blocks[index]))
        return;
    struct mr_store_slot *store = find_free_slot(shared);
    if (store == NULL || !has_buffer(shared)) return;
    (void)take_buffer(shared, store);
    if (add_pieces(shared, store, sequence, end) &&
        (!entry || add_entry(shared, store, sequence)) && store->count > 0)
        (void)send_items(shared, store, sequence);
    else
        release_slot(shared, store);
}

void mr_shared_store_sequence(struct mr_shared_cache *shared, struct mr_sequence *sequence,
                              bool last)
{
    const struct mr_job *job = sequence->job;
    const struct mr_fetch *fetch = &job->fetch;
    if (!job->writes_cache || sequence->choice != 0) return;
    if (mr_fetch_is_looking_up(fetch) && !last) return;
    const uint32_t published = sequence->table->published_tokens, prompt = sequence->prompt_tokens;
    if (sequence->stored_tokens < fetch->found_tokens)
        sequence->stored_tokens = fetch->found_tokens;
    store_blocks(shared, sequence, (published < prompt ? published : prompt) / MR_BLOCK_TOKENS);
    if (published >= prompt) store_tail(shared, sequence, prompt);
    if (job->request->session.length == 0) return;
    store_blocks(shared, sequence, published / MR_BLOCK_TOKENS);
    if (last) store_tail(shared, sequence, published);
}

void mr_shared_store_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer)
{
    struct mr_store_slot *store = &shared->stores[answer->ticket & 0xffff];
    MR_ASSERT(store->in_use && store->ticket == answer->ticket && answer->final);
    uint32_t stored = answer->count < store->count ? answer->count : store->count;
    uint64_t bytes =
        /* an estimate: the answer has the number of values stored, not which */
        store->bytes * stored / store->count;
    shared->stats.stored_items += stored;
    shared->stats.stored_bytes += bytes;
    *(store->table != NULL ? &shared->stats.direct_bytes : &shared->stats.staged_bytes) += bytes;
    shared->stats.stores_lost += store->count - stored;
    release_slot(shared, store);
}

uint32_t mr_shared_store_check(const struct mr_shared_cache *shared)
{
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (shared->stores[i].in_use) buffers += shared->stores[i].buffer_count;
    MR_ASSERT(buffers == shared->store_buffers);
    return buffers;
}
