#include "batching/cache/remote_prefix_state.h"

#include "codec/check.h"

#include <string.h>

static struct mr_store_slot *find_free_slot(struct mr_remote_prefix *prefix)
{
    for (uint32_t i = 0; i < MR_STORES_MAX; i++) {
        if (prefix->stores[i].in_use) continue;
        prefix->stores[i] = (struct mr_store_slot){0};
        return &prefix->stores[i];
    }
    return NULL;
}

/* True when a staging buffer is free for a store. Stores use at most half of all staging buffers,
 * so that loads find free ones. */
static bool has_buffer(const struct mr_remote_prefix *prefix)
{
    return prefix->staging.unused_count > 0 && prefix->store_buffers < prefix->staging.count / 2;
}

static bool export_kv(struct mr_remote_prefix *prefix, uint32_t block, uint32_t first,
                      uint32_t token_count, unsigned char *bytes)
{
    const struct mr_model_port *model = prefix->options.model;
    uint64_t begin_ns = mr_prefix_clock_ns(prefix);
    struct mr_kv_place place = mr_prefix_place(prefix, block, first);
    enum mr_status status = model->kv_export(model->context, place, token_count, bytes);
    prefix->stats.export_ns += mr_prefix_clock_ns(prefix) - begin_ns;
    return status == MR_OK;
}

static void release_slot(struct mr_remote_prefix *prefix, struct mr_store_slot *store)
{
    struct mr_block_table *table = store->table;
    for (uint32_t i = 0; i < store->buffer_count; i++)
        mr_staging_release(&prefix->staging, store->buffers[i]);
    prefix->store_buffers -= store->buffer_count;
    *store = (struct mr_store_slot){0};
    mr_prefix_table_done(prefix, table);
}

static void add_value(struct mr_remote_prefix *prefix, struct mr_store_slot *store,
                      struct mr_remote_value value, void *bytes)
{
    value.bytes = bytes;
    prefix->values[store->count++] = value;
    store->bytes += value.length;
}

/* A lookup ends at the first missing value, so no value after it is stored. */
static void stop_storing(struct mr_sequence *sequence)
{
    sequence->stored_tokens = UINT32_MAX;
}

/* Sends prefix->values[0, store->count) to the remote cache. False: it did not take all of them,
 * and no later value of the sequence is stored. If it took none, the slot is released. */
static bool send_values(struct mr_remote_prefix *prefix, struct mr_store_slot *store,
                        struct mr_sequence *sequence)
{
    const struct mr_remote_cache *remote = prefix->options.remote;
    store->id = mr_prefix_next_id(prefix, (uint32_t)(store - prefix->stores));
    struct mr_remote_operation operation = {.id = store->id,
                                            .values = prefix->values,
                                            .count = store->count,
                                            .tenant = sequence->job->tenant};
    store->in_use = true;
    const uint32_t taken = remote->store(remote->context, &operation);
    if (taken == operation.count) return true;
    stop_storing(sequence);
    if (taken > 0) return false;
    prefix->stats.stores_refused++;
    release_slot(prefix, store);
    return false;
}

static unsigned char *take_buffer(struct mr_remote_prefix *prefix, struct mr_store_slot *store)
{
    uint32_t buffer = mr_staging_take(&prefix->staging);
    store->buffers[store->buffer_count++] = buffer;
    prefix->store_buffers++;
    return mr_staging_bytes(&prefix->staging, buffer);
}

/* Address from which the remote cache can read a full block: in the KV pool, or a copy in a staging
 * buffer. NULL: copying the KV out of the pool failed. */
static void *readable_bytes(struct mr_remote_prefix *prefix, struct mr_store_slot *store,
                            uint32_t block)
{
    void *bytes = mr_prefix_block_bytes(prefix, block);
    if (bytes != NULL) return bytes;
    unsigned char *buffer = take_buffer(prefix, store);
    return export_kv(prefix, block, 0, MR_BLOCK_TOKENS, buffer) ? buffer : NULL;
}

/* Stores the sequence's full blocks up to block number `end`, starting at token stored_tokens, as
 * many as fit one operation. False: nothing more can be stored now. */
static bool store_some(struct mr_remote_prefix *prefix, struct mr_sequence *sequence, uint32_t end)
{
    struct mr_store_slot *store = find_free_slot(prefix);
    bool direct = mr_prefix_block_bytes(prefix, 0) != NULL;
    if (store == NULL || !(direct || has_buffer(prefix))) return false;
    store->table = direct ? sequence->table : NULL;
    while (sequence->stored_tokens / MR_BLOCK_TOKENS < end && store->count < MR_STORE_VALUES_MAX &&
           (direct || has_buffer(prefix))) {
        uint32_t index = sequence->stored_tokens / MR_BLOCK_TOKENS;
        uint32_t block = sequence->table->blocks[index];
        if (!mr_kv_cache_is_complete(prefix->options.cache, block)) {
            stop_storing(sequence);
            break;
        }
        sequence->stored_tokens = (index + 1) * MR_BLOCK_TOKENS;
        void *bytes = readable_bytes(prefix, store, block);
        if (bytes == NULL) {
            stop_storing(sequence);
            release_slot(prefix, store);
            return false;
        }
        const unsigned char *key = mr_kv_cache_block_key(prefix->options.cache, block);
        add_value(prefix, store, mr_prefix_block_value(prefix, key), bytes);
    }
    return store->count > 0 && send_values(prefix, store, sequence);
}

static void store_blocks(struct mr_remote_prefix *prefix, struct mr_sequence *sequence,
                         uint32_t end)
{
    while (sequence->stored_tokens / MR_BLOCK_TOKENS < end && store_some(prefix, sequence, end))
        ;
}

/* Adds the pieces up to token `end` of the sequence that are not stored yet. False: the KV could
 * not be copied out of the pool. */
static bool add_pieces(struct mr_remote_prefix *prefix, struct mr_store_slot *store,
                       struct mr_sequence *sequence, uint32_t end)
{
    const uint32_t index = end / MR_BLOCK_TOKENS, *blocks = sequence->table->blocks;
    while (sequence->stored_tokens + MR_PIECE_TOKENS <= end) {
        const uint32_t first = sequence->stored_tokens % MR_BLOCK_TOKENS;
        unsigned char *bytes =
            mr_prefix_piece_bytes(prefix, store->buffers[0], first / MR_PIECE_TOKENS);
        const unsigned char *parent =
            index > 0 ? mr_kv_cache_block_key(prefix->options.cache, blocks[index - 1])
                      : sequence->job->root;
        if (!export_kv(prefix, blocks[index], first, MR_PIECE_TOKENS, bytes)) {
            stop_storing(sequence);
            return false;
        }
        sequence->stored_tokens += MR_PIECE_TOKENS;
        add_value(prefix, store,
                  mr_prefix_piece_value(prefix, sequence, parent, sequence->stored_tokens), bytes);
    }
    return true;
}

/* Adds the entry of a prompt that was just computed, if its logits are still in the prompt cache.
 * False: the KV could not be copied out of the pool. */
static bool add_entry(struct mr_remote_prefix *prefix, struct mr_store_slot *store,
                      struct mr_sequence *sequence)
{
    const uint32_t end = sequence->prompt_tokens, rest = end % MR_PIECE_TOKENS;
    const struct mr_remote_value value = mr_prefix_entry_value(prefix, sequence);
    const float *logits =
        mr_prompt_cache_peek(prefix->options.prompts, value.key, mr_prefix_clock_ns(prefix));
    unsigned char *bytes = mr_staging_bytes(&prefix->staging, store->buffers[0]);
    sequence->entry_due = false;
    if (logits == NULL) return true;
    memcpy(bytes, logits, prefix->logits_bytes);
    if (rest > 0 && !export_kv(prefix, sequence->table->blocks[end / MR_BLOCK_TOKENS],
                               (end - rest) % MR_BLOCK_TOKENS, rest, bytes + prefix->logits_bytes))
        return false;
    add_value(prefix, store, value, bytes);
    return true;
}

/* Once the last full block of the first `end` tokens is stored, stores the pieces after it and, if
 * these tokens are the whole prompt and entry_due is set, the entry. */
static void store_tail(struct mr_remote_prefix *prefix, struct mr_sequence *sequence, uint32_t end)
{
    const uint32_t index = end / MR_BLOCK_TOKENS;
    const bool entry = sequence->entry_due && end == sequence->prompt_tokens &&
                       end >= MR_LOAD_TOKENS_MIN && !sequence->job->fetch.entry;
    if (sequence->stored_tokens / MR_BLOCK_TOKENS != index) return;
    if (sequence->stored_tokens + MR_PIECE_TOKENS > end && !entry) return;
    if (end % MR_BLOCK_TOKENS > 0 &&
        !mr_kv_cache_is_complete(prefix->options.cache, sequence->table->blocks[index]))
        return;
    struct mr_store_slot *store = find_free_slot(prefix);
    if (store == NULL || !has_buffer(prefix)) return;
    (void)take_buffer(prefix, store);
    if (add_pieces(prefix, store, sequence, end) &&
        (!entry || add_entry(prefix, store, sequence)) && store->count > 0)
        (void)send_values(prefix, store, sequence);
    else
        release_slot(prefix, store);
}

void mr_remote_prefix_store(struct mr_remote_prefix *prefix, struct mr_sequence *sequence,
                            bool last)
{
    const struct mr_job *job = sequence->job;
    const struct mr_fetch *fetch = &job->fetch;
    if (!job->writes_cache || sequence->choice != 0) return;
    if (mr_fetch_is_looking_up(fetch) && !last) return;
    const uint32_t published = sequence->table->published_tokens, prompt = sequence->prompt_tokens;
    if (sequence->stored_tokens < fetch->found_tokens)
        sequence->stored_tokens = fetch->found_tokens;
    store_blocks(prefix, sequence, (published < prompt ? published : prompt) / MR_BLOCK_TOKENS);
    if (published >= prompt) store_tail(prefix, sequence, prompt);
    if (job->request->session.length == 0) return;
    store_blocks(prefix, sequence, published / MR_BLOCK_TOKENS);
    if (last) store_tail(prefix, sequence, published);
}

void mr_prefix_store_answered(struct mr_remote_prefix *prefix,
                              const struct mr_remote_answer *answer)
{
    struct mr_store_slot *store = &prefix->stores[answer->id & 0xffff];
    MR_ASSERT(store->in_use && store->id == answer->id && answer->final);
    uint32_t stored = answer->count < store->count ? answer->count : store->count;
    uint64_t bytes =
        /* an estimate, because the answer does not say which values were stored */
        store->bytes * stored / store->count;
    prefix->stats.stored_values += stored;
    prefix->stats.stored_bytes += bytes;
    *(store->table != NULL ? &prefix->stats.direct_bytes : &prefix->stats.staged_bytes) += bytes;
    prefix->stats.stores_lost += store->count - stored;
    release_slot(prefix, store);
}

uint32_t mr_prefix_check_stores(const struct mr_remote_prefix *prefix)
{
    uint32_t buffers = 0;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (prefix->stores[i].in_use) buffers += prefix->stores[i].buffer_count;
    MR_ASSERT(buffers == prefix->store_buffers);
    return buffers;
}
