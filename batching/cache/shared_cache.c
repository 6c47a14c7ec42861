#include "batching/cache/shared_cache.h"

#include "batching/cache/shared_load.h"
#include "batching/cache/shared_lookup.h"
#include "batching/cache/shared_store.h"
#include "batching/cache/shared_tables.h"
#include "codec/check.h"

#include <stdlib.h>

#define SOON_NS     ((uint64_t)5000000) /* poll interval while Redis is to release blocks */
#define BUFFERS_MIN 2u
#define BUFFERS_MAX 4096u

static bool make_loads(struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_load_slot *load = &shared->loads[i];
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
    return shared->items != NULL && shared->keys != NULL && make_loads(shared);
}

static size_t whole_cache_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Computes the sizes in Redis of a block, of a piece (MR_PIECE_TOKENS tokens) and of logits.
 * Returns a staging buffer's size in bytes. */
static size_t fill_sizes(struct mr_shared_cache *shared)
{
    const struct mr_model_port *model = shared->options.model;
    shared->block_bytes = mr_shared_base_kv_bytes(shared, MR_BLOCK_TOKENS);
    shared->layer_bytes = shared->block_bytes / (model->layer_count > 0 ? model->layer_count : 1);
    shared->logits_bytes = model->vocab_size * sizeof(float);
    shared->piece_bytes = mr_shared_base_kv_bytes(shared, MR_PIECE_TOKENS);
    shared->pieces_at = whole_cache_lines(shared->logits_bytes + shared->piece_bytes);
    shared->items_max = shared->options.context_tokens / MR_BLOCK_TOKENS + MR_PIECES_MAX + 2;
    size_t pieces_bytes = shared->pieces_at + MR_PIECES_MAX * shared->piece_bytes;
    return whole_cache_lines(shared->block_bytes > pieces_bytes ? shared->block_bytes
                                                                : pieces_bytes);
}

static uint32_t count_buffers(uint64_t staging_bytes, size_t buffer_bytes)
{
    uint64_t count = (staging_bytes > 0 ? staging_bytes : MR_STAGING_BYTES) / buffer_bytes;
    if (count < BUFFERS_MIN) return BUFFERS_MIN;
    return count < BUFFERS_MAX ? (uint32_t)count : BUFFERS_MAX;
}

enum mr_status mr_shared_cache_create(struct mr_shared_cache **out,
                                      const struct mr_shared_cache_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_shared_cache *shared = calloc(1, sizeof *shared);
    if (shared == NULL) goto fail;
    shared->options = *options;
    size_t buffer_bytes = fill_sizes(shared);
    uint32_t buffers = count_buffers(options->staging_bytes, buffer_bytes);
    if (!mr_staging_open(&shared->staging, buffers, buffer_bytes) || !make_tables(shared))
        goto fail_shared;
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
    mr_staging_close(&shared->staging);
    free(shared->keys);
    free(shared->items);
    free(shared);
}

void mr_shared_cache_poll(struct mr_shared_cache *shared, uint64_t now_ns)
{
    const struct mr_tier *tier = shared->options.tier;
    struct mr_tier_answer answer;
    shared->now_ns = now_ns;
    while (tier->poll(tier->context, &answer)) {
        if (answer.work == MR_TIER_LOOKUP)
            mr_shared_lookup_answered(shared, &answer);
        else if (answer.work == MR_TIER_LOAD)
            mr_shared_load_answered(shared, &answer, now_ns);
        else
            mr_shared_store_answered(shared, &answer);
    }
    mr_shared_load_expire(shared, now_ns);
}

uint64_t mr_shared_cache_next_ns(const struct mr_shared_cache *shared, uint64_t now_ns)
{
    /* The Redis cache wakes the engine when it releases a KV block; the engine also polls, in case
     * that wake-up is lost. */
    uint64_t soon_ns = now_ns + SOON_NS;
    uint64_t next_ns = mr_shared_lookup_next_ns(shared, now_ns);
    uint64_t load_ns = mr_shared_load_next_ns(shared, soon_ns);
    if (load_ns < next_ns) next_ns = load_ns;
    return shared->reclaiming && soon_ns < next_ns ? soon_ns : next_ns;
}

struct mr_shared_cache_stats mr_shared_cache_stats(const struct mr_shared_cache *shared)
{
    struct mr_shared_cache_stats stats = shared->stats;
    stats.staging_count = shared->staging.count;
    stats.staging_free = shared->staging.unused_count;
    stats.lent_tables = shared->table_count;
    return stats;
}

void mr_shared_cache_check(const struct mr_shared_cache *shared)
{
    mr_shared_lookup_check(shared);
    mr_shared_tables_check(shared);
    uint32_t in_use = mr_shared_load_check(shared) + mr_shared_store_check(shared);
    MR_ASSERT(shared->staging.unused_count + in_use == shared->staging.count);
}
