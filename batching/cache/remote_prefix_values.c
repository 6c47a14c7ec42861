#include "batching/cache/remote_prefix_state.h"

#include "codec/check.h"

#include <string.h>

#define IMPORT_RATE 0.25 /* weight of the newest measurement in the running mean of import_ms */

/* ---- blocks, pieces and entries ---- */

uint64_t mr_prefix_next_id(struct mr_remote_prefix *prefix, uint32_t slot)
{
    return ++prefix->generation << 16 | slot;
}

uint64_t mr_prefix_clock_ns(const struct mr_remote_prefix *prefix)
{
    const struct mr_model_port *model = prefix->options.model;
    return model->clock_ns == NULL ? 0 : model->clock_ns(model->context);
}

void *mr_prefix_block_bytes(const struct mr_remote_prefix *prefix, uint32_t block)
{
    const struct mr_model_port *model = prefix->options.model;
    return model->kv_bytes_of == NULL ? NULL : model->kv_bytes_of(model->context, block);
}

struct mr_kv_place mr_prefix_place(const struct mr_remote_prefix *prefix, uint32_t block,
                                   uint32_t first)
{
    return (struct mr_kv_place){
        .block = block, .slot = mr_kv_cache_slot(prefix->options.cache, block), .first = first};
}

size_t mr_prefix_kv_bytes(const struct mr_remote_prefix *prefix, uint32_t token_count)
{
    const struct mr_model_port *model = prefix->options.model;
    return token_count == 0 ? 0 : model->kv_bytes(model->context, token_count);
}

struct mr_remote_value mr_prefix_block_value(const struct mr_remote_prefix *prefix,
                                             const unsigned char *key)
{
    struct mr_remote_value value = {.token_count = MR_BLOCK_TOKENS,
                                    .length = prefix->block_bytes,
                                    .layer_bytes = prefix->layer_bytes};
    memcpy(value.key, key, MR_HASH_BYTES);
    return value;
}

struct mr_remote_value mr_prefix_piece_value(const struct mr_remote_prefix *prefix,
                                             const struct mr_sequence *sequence,
                                             const unsigned char *parent, uint32_t end)
{
    struct mr_remote_value value = {.token_count = MR_PIECE_TOKENS, .length = prefix->piece_bytes};
    mr_kv_cache_piece_key(prefix->options.cache, parent,
                          sequence->tokens + end / MR_BLOCK_TOKENS * MR_BLOCK_TOKENS,
                          end % MR_BLOCK_TOKENS, value.key);
    return value;
}

size_t mr_prefix_entry_bytes(const struct mr_remote_prefix *prefix,
                             const struct mr_sequence *sequence)
{
    uint32_t rest = sequence->prompt_tokens % MR_PIECE_TOKENS;
    return prefix->logits_bytes + mr_prefix_kv_bytes(prefix, rest);
}

struct mr_remote_value mr_prefix_entry_value(const struct mr_remote_prefix *prefix,
                                             const struct mr_sequence *sequence)
{
    struct mr_remote_value value = {.token_count = sequence->prompt_tokens % MR_PIECE_TOKENS,
                                    .length = mr_prefix_entry_bytes(prefix, sequence)};
    mr_kv_cache_prompt_key(prefix->options.cache, sequence->job->root, sequence->tokens,
                           sequence->prompt_tokens, value.key);
    return value;
}

const unsigned char *mr_prefix_parent(const struct mr_remote_prefix *prefix,
                                      const struct mr_job *job, uint32_t block)
{
    return block == 0 ? job->root : prefix->keys + (size_t)(block - 1) * MR_HASH_BYTES;
}

unsigned char *mr_prefix_piece_bytes(const struct mr_remote_prefix *prefix, uint32_t buffer,
                                     uint32_t piece)
{
    return mr_staging_bytes(&prefix->staging, buffer) + prefix->pieces_at +
           piece * prefix->piece_bytes;
}

/* ---- the values of a load ---- */

bool mr_prefix_load_is_entry(const struct mr_load_slot *load, uint32_t index)
{
    return index == load->block_count + load->piece_count;
}

struct mr_token_span mr_prefix_load_span(const struct mr_load_slot *load, uint32_t index)
{
    uint32_t begin = (load->first_block + index) * MR_BLOCK_TOKENS;
    if (index < load->block_count) return (struct mr_token_span){begin, begin + MR_BLOCK_TOKENS};
    begin = (load->first_block + load->block_count) * MR_BLOCK_TOKENS;
    begin += (index - load->block_count) * MR_PIECE_TOKENS;
    return (struct mr_token_span){
        begin, mr_prefix_load_is_entry(load, index) ? load->end : begin + MR_PIECE_TOKENS};
}

size_t mr_prefix_load_length(const struct mr_remote_prefix *prefix, const struct mr_load_slot *load,
                             uint32_t index)
{
    if (index < load->block_count) return prefix->block_bytes;
    return mr_prefix_load_is_entry(load, index) ? mr_prefix_entry_bytes(prefix, load->sequence)
                                                : prefix->piece_bytes;
}

bool mr_prefix_load_is_direct(const struct mr_load_slot *load, uint32_t index)
{
    return index < load->block_count && load->buffers[index] == MR_NO_BUFFER;
}

/* Fills prefix->values[index] for value number `index` of the load: key, length, and the address to
 * receive the value at (its KV block or a staging buffer). */
static void fill_value(struct mr_remote_prefix *prefix, struct mr_load_slot *load, uint32_t index)
{
    const struct mr_sequence *sequence = load->sequence;
    struct mr_remote_value *value = &prefix->values[index];
    uint32_t block = load->first_block + index, last = load->first_block + load->block_count;
    load->states[index] = MR_VALUE_PENDING;
    if (index < load->block_count) {
        *value = mr_prefix_block_value(prefix, prefix->keys + (size_t)block * MR_HASH_BYTES);
        load->buffers[index] = MR_NO_BUFFER;
        if (load->table != NULL) {
            value->bytes = mr_prefix_block_bytes(prefix, load->table->blocks[block]);
            return;
        }
        load->buffers[index] = mr_staging_take(&prefix->staging);
        value->bytes = mr_staging_bytes(&prefix->staging, load->buffers[index]);
    } else if (mr_prefix_load_is_entry(load, index)) {
        *value = mr_prefix_entry_value(prefix, sequence);
        value->bytes = mr_staging_bytes(&prefix->staging, load->buffer);
    } else {
        const unsigned char *parent = mr_prefix_parent(prefix, sequence->job, last);
        *value =
            mr_prefix_piece_value(prefix, sequence, parent, mr_prefix_load_span(load, index).end);
        value->bytes = mr_prefix_piece_bytes(prefix, load->buffer, index - load->block_count);
    }
}

void mr_prefix_load_fill(struct mr_remote_prefix *prefix, struct mr_load_slot *load)
{
    const struct mr_sequence *sequence = load->sequence;
    uint32_t blocks = load->first_block + load->block_count;
    mr_kv_cache_keys(prefix->options.cache, sequence->job->root, sequence->tokens, blocks,
                     prefix->keys);
    load->buffer = MR_NO_BUFFER;
    if (load->value_count > load->block_count) load->buffer = mr_staging_take(&prefix->staging);
    for (uint32_t i = 0; i < load->value_count; i++)
        fill_value(prefix, load, i);
}

/* Address of the KV in value number `index` of the load, which was received in a staging buffer. */
static const unsigned char *bytes_of(const struct mr_remote_prefix *prefix,
                                     const struct mr_load_slot *load, uint32_t index)
{
    if (index < load->block_count) return mr_staging_bytes(&prefix->staging, load->buffers[index]);
    if (mr_prefix_load_is_entry(load, index))
        return mr_staging_bytes(&prefix->staging, load->buffer) + prefix->logits_bytes;
    return mr_prefix_piece_bytes(prefix, load->buffer, index - load->block_count);
}

bool mr_prefix_load_import(struct mr_remote_prefix *prefix, struct mr_load_slot *load,
                           uint32_t index)
{
    const struct mr_model_port *model = prefix->options.model;
    const struct mr_sequence *sequence = load->sequence;
    const struct mr_token_span span = mr_prefix_load_span(load, index);
    const bool full = index < load->block_count;
    if (mr_prefix_load_is_direct(load, index)) return true;
    if (span.end == span.begin) return true;
    uint32_t block = sequence->table->blocks[span.begin / MR_BLOCK_TOKENS];
    uint64_t begin_ns = mr_prefix_clock_ns(prefix);
    struct mr_kv_place place = mr_prefix_place(prefix, block, span.begin % MR_BLOCK_TOKENS);
    enum mr_status status = model->kv_import(model->context, place, span.end - span.begin,
                                             bytes_of(prefix, load, index));
    uint64_t spent_ns = mr_prefix_clock_ns(prefix) - begin_ns;
    prefix->stats.import_ns += spent_ns;
    if (full) prefix->import_ms += IMPORT_RATE * ((double)spent_ns / 1e6 - prefix->import_ms);
    return status == MR_OK;
}

/* ---- tables of ended sequences ---- */

static bool is_used(const struct mr_remote_prefix *prefix, const struct mr_block_table *table)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (prefix->loads[i].in_use && prefix->loads[i].table == table) return true;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (prefix->stores[i].in_use && prefix->stores[i].table == table) return true;
    return false;
}

/* Index of the table in prefix->tables; table_count when this module does not own it. */
static uint32_t find_table(const struct mr_remote_prefix *prefix,
                           const struct mr_block_table *table)
{
    uint32_t i = 0;
    while (i < prefix->table_count && prefix->tables[i] != table)
        i++;
    return i;
}

bool mr_remote_prefix_take_table(struct mr_remote_prefix *prefix, struct mr_block_table *table)
{
    if (!is_used(prefix, table)) return false;
    MR_ASSERT(prefix->table_count < MR_PREFIX_TABLES_MAX);
    prefix->tables[prefix->table_count++] = table;
    return true;
}

bool mr_remote_prefix_reclaim(struct mr_remote_prefix *prefix)
{
    const struct mr_remote_cache *remote = prefix->options.remote;
    if (prefix->table_count == 0) return false;
    prefix->reclaiming = true;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++) {
        struct mr_store_slot *store = &prefix->stores[i];
        if (!store->in_use || store->cancelled) continue;
        if (find_table(prefix, store->table) == prefix->table_count) continue;
        store->cancelled = true;
        remote->cancel(remote->context, store->id);
    }
    return true;
}

void mr_prefix_table_done(struct mr_remote_prefix *prefix, struct mr_block_table *table)
{
    uint32_t i = find_table(prefix, table);
    if (i == prefix->table_count || is_used(prefix, table)) return;
    prefix->tables[i] = prefix->tables[--prefix->table_count];
    if (prefix->table_count == 0) prefix->reclaiming = false;
    mr_block_table_destroy(table, prefix->now_ns);
}

void mr_prefix_check_tables(const struct mr_remote_prefix *prefix)
{
    for (uint32_t i = 0; i < prefix->table_count; i++)
        MR_ASSERT(is_used(prefix, prefix->tables[i]));
}
