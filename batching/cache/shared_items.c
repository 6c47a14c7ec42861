#include "batching/cache/shared_items.h"

#define IMPORT_RATE 0.25 /* weight of the newest measurement in the running mean of import_ms */

bool mr_shared_items_is_entry(const struct mr_load_slot *load, uint32_t index)
{
    return index == load->block_count + load->piece_count;
}

struct mr_token_span mr_shared_items_span(const struct mr_load_slot *load, uint32_t index)
{
    uint32_t begin = (load->first_block + index) * MR_BLOCK_TOKENS;
    if (index < load->block_count) return (struct mr_token_span){begin, begin + MR_BLOCK_TOKENS};
    begin = (load->first_block + load->block_count) * MR_BLOCK_TOKENS;
    begin += (index - load->block_count) * MR_PIECE_TOKENS;
    return (struct mr_token_span){
        begin, mr_shared_items_is_entry(load, index) ? load->end : begin + MR_PIECE_TOKENS};
}

size_t mr_shared_items_length(const struct mr_shared_cache *shared, const struct mr_load_slot *load,
                              uint32_t index)
{
    if (index < load->block_count) return shared->block_bytes;
    return mr_shared_items_is_entry(load, index)
               ? mr_shared_base_entry_bytes(shared, load->sequence)
               : shared->piece_bytes;
}

bool mr_shared_items_is_direct(const struct mr_load_slot *load, uint32_t index)
{
    return index < load->block_count && load->buffers[index] == MR_NO_BUFFER;
}

/* Fills shared->items[index] with the Redis key and length of value number `index` of the load, and
 * with the address to receive the value at: its KV block or a staging buffer. */
static void fill_item(struct mr_shared_cache *shared, struct mr_load_slot *load, uint32_t index)
{
    const struct mr_sequence *sequence = load->sequence;
    struct mr_tier_item *item = &shared->items[index];
    uint32_t block = load->first_block + index, last = load->first_block + load->block_count;
    load->states[index] = MR_ITEM_PENDING;
    if (index < load->block_count) {
        *item = mr_shared_base_block_item(shared, shared->keys + (size_t)block * MR_HASH_BYTES);
        load->buffers[index] = MR_NO_BUFFER;
        if (load->table != NULL) {
            item->bytes = mr_shared_base_block_bytes(shared, load->table->blocks[block]);
            return;
        }
        load->buffers[index] = mr_staging_take(&shared->staging);
        item->bytes = mr_staging_bytes(&shared->staging, load->buffers[index]);
    } else if (mr_shared_items_is_entry(load, index)) {
        *item = mr_shared_base_entry_item(shared, sequence);
        item->bytes = mr_staging_bytes(&shared->staging, load->buffer);
    } else {
        const unsigned char *parent = mr_shared_base_parent(shared, sequence->job, last);
        *item = mr_shared_base_piece_item(shared, sequence, parent,
                                          mr_shared_items_span(load, index).end);
        item->bytes = mr_shared_base_piece_bytes(shared, load->buffer, index - load->block_count);
    }
}

void mr_shared_items_fill(struct mr_shared_cache *shared, struct mr_load_slot *load)
{
    const struct mr_sequence *sequence = load->sequence;
    uint32_t blocks = load->first_block + load->block_count;
    mr_kv_cache_keys(shared->options.cache, sequence->job->root, sequence->tokens, blocks,
                     shared->keys);
    load->buffer = MR_NO_BUFFER;
    if (load->item_count > load->block_count) load->buffer = mr_staging_take(&shared->staging);
    for (uint32_t i = 0; i < load->item_count; i++)
        fill_item(shared, load, i);
}

/* Address of the KV in value number `index` of the load, which was received in a staging buffer. */
static const unsigned char *bytes_of(const struct mr_shared_cache *shared,
                                     const struct mr_load_slot *load, uint32_t index)
{
    if (index < load->block_count) return mr_staging_bytes(&shared->staging, load->buffers[index]);
    if (mr_shared_items_is_entry(load, index))
        return mr_staging_bytes(&shared->staging, load->buffer) + shared->logits_bytes;
    return mr_shared_base_piece_bytes(shared, load->buffer, index - load->block_count);
}

bool mr_shared_items_import(struct mr_shared_cache *shared, struct mr_load_slot *load,
                            uint32_t index)
{
    const struct mr_model_port *model = shared->options.model;
    const struct mr_sequence *sequence = load->sequence;
    const struct mr_token_span span = mr_shared_items_span(load, index);
    const bool full = index < load->block_count;
    if (mr_shared_items_is_direct(load, index)) return true;
    if (span.end == span.begin) return true;
    uint32_t block = sequence->table->blocks[span.begin / MR_BLOCK_TOKENS];
    uint64_t begin_ns = mr_shared_base_clock_ns(shared);
    struct mr_kv_place place = mr_shared_base_place(shared, block, span.begin % MR_BLOCK_TOKENS);
    enum mr_status status = model->kv_import(model->context, place, span.end - span.begin,
                                             bytes_of(shared, load, index));
    uint64_t spent_ns = mr_shared_base_clock_ns(shared) - begin_ns;
    shared->stats.import_ns += spent_ns;
    if (full) shared->import_ms += IMPORT_RATE * ((double)spent_ns / 1e6 - shared->import_ms);
    return status == MR_OK;
}
