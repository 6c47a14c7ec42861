#include "batching/cache/shared_base.h"

#include <string.h>

uint64_t mr_shared_base_ticket(struct mr_shared_cache *shared, uint32_t slot)
{
    return ++shared->generation << 16 | slot;
}

uint64_t mr_shared_base_clock_ns(const struct mr_shared_cache *shared)
{
    const struct mr_model_port *model = shared->options.model;
    return model->clock_ns == NULL ? 0 : model->clock_ns(model->context);
}

void *mr_shared_base_block_bytes(const struct mr_shared_cache *shared, uint32_t block)
{
    const struct mr_model_port *model = shared->options.model;
    return model->kv_bytes_of == NULL ? NULL : model->kv_bytes_of(model->context, block);
}

struct mr_kv_place mr_shared_base_place(const struct mr_shared_cache *shared, uint32_t block,
                                        uint32_t first)
{
    return (struct mr_kv_place){
        .block = block, .slot = mr_kv_cache_slot(shared->options.cache, block), .first = first};
}

size_t mr_shared_base_kv_bytes(const struct mr_shared_cache *shared, uint32_t token_count)
{
    const struct mr_model_port *model = shared->options.model;
    return token_count == 0 ? 0 : model->kv_bytes(model->context, token_count);
}

struct mr_tier_item mr_shared_base_block_item(const struct mr_shared_cache *shared,
                                              const unsigned char *key)
{
    struct mr_tier_item item = {.token_count = MR_BLOCK_TOKENS,
                                .length = shared->block_bytes,
                                .layer_bytes = shared->layer_bytes};
    memcpy(item.key, key, MR_HASH_BYTES);
    return item;
}

struct mr_tier_item mr_shared_base_piece_item(const struct mr_shared_cache *shared,
                                              const struct mr_sequence *sequence,
                                              const unsigned char *parent, uint32_t end)
{
    struct mr_tier_item item = {.token_count = MR_PIECE_TOKENS, .length = shared->piece_bytes};
    mr_kv_cache_piece_key(shared->options.cache, parent,
                          sequence->tokens + end / MR_BLOCK_TOKENS * MR_BLOCK_TOKENS,
                          end % MR_BLOCK_TOKENS, item.key);
    return item;
}

size_t mr_shared_base_entry_bytes(const struct mr_shared_cache *shared,
                                  const struct mr_sequence *sequence)
{
    uint32_t rest = sequence->prompt_tokens % MR_PIECE_TOKENS;
    return shared->logits_bytes + mr_shared_base_kv_bytes(shared, rest);
}

struct mr_tier_item mr_shared_base_entry_item(const struct mr_shared_cache *shared,
                                              const struct mr_sequence *sequence)
{
    struct mr_tier_item item = {.token_count = sequence->prompt_tokens % MR_PIECE_TOKENS,
                                .length = mr_shared_base_entry_bytes(shared, sequence)};
    mr_kv_cache_prompt_key(shared->options.cache, sequence->job->root, sequence->tokens,
                           sequence->prompt_tokens, item.key);
    return item;
}

const unsigned char *mr_shared_base_parent(const struct mr_shared_cache *shared,
                                           const struct mr_job *job, uint32_t block)
{
    return block == 0 ? job->root : shared->keys + (size_t)(block - 1) * MR_HASH_BYTES;
}

unsigned char *mr_shared_base_piece_bytes(const struct mr_shared_cache *shared, uint32_t buffer,
                                          uint32_t piece)
{
    return mr_staging_bytes(&shared->staging, buffer) + shared->pieces_at +
           piece * shared->piece_bytes;
}
