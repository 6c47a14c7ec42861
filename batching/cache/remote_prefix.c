#include "batching/cache/remote_prefix_state.h"

#include "codec/check.h"

#include <stdlib.h>

#define SOON_NS                                                                                    \
    ((uint64_t)5000000) /* poll interval while the remote cache still uses blocks that are needed  \
                         */
#define BUFFERS_MIN 2u
#define BUFFERS_MAX 4096u

static bool make_loads(struct mr_remote_prefix *prefix)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        struct mr_load_slot *load = &prefix->loads[i];
        load->buffers = calloc(prefix->values_max, sizeof *load->buffers);
        load->states = calloc(prefix->values_max, sizeof *load->states);
        if (load->buffers == NULL || load->states == NULL) return false;
    }
    return true;
}

static bool make_tables(struct mr_remote_prefix *prefix)
{
    uint32_t values =
        prefix->values_max < MR_STORE_VALUES_MAX ? MR_STORE_VALUES_MAX : prefix->values_max;
    prefix->values = calloc(values, sizeof *prefix->values);
    prefix->keys = calloc(prefix->values_max, MR_HASH_BYTES);
    return prefix->values != NULL && prefix->keys != NULL && make_loads(prefix);
}

static size_t whole_cache_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Computes the sizes as values of a block, of a piece and of logits. Returns a staging buffer's
 * size in bytes. */
static size_t fill_sizes(struct mr_remote_prefix *prefix)
{
    const struct mr_model_port *model = prefix->options.model;
    prefix->block_bytes = mr_prefix_kv_bytes(prefix, MR_BLOCK_TOKENS);
    prefix->layer_bytes = prefix->block_bytes / (model->layer_count > 0 ? model->layer_count : 1);
    prefix->logits_bytes = model->vocab_size * sizeof(float);
    prefix->piece_bytes = mr_prefix_kv_bytes(prefix, MR_PIECE_TOKENS);
    prefix->pieces_at = whole_cache_lines(prefix->logits_bytes + prefix->piece_bytes);
    prefix->values_max = prefix->options.context_tokens / MR_BLOCK_TOKENS + MR_PIECES_MAX + 2;
    size_t pieces_bytes = prefix->pieces_at + MR_PIECES_MAX * prefix->piece_bytes;
    return whole_cache_lines(prefix->block_bytes > pieces_bytes ? prefix->block_bytes
                                                                : pieces_bytes);
}

static uint32_t count_buffers(uint64_t staging_bytes, size_t buffer_bytes)
{
    uint64_t count = (staging_bytes > 0 ? staging_bytes : MR_STAGING_BYTES) / buffer_bytes;
    if (count < BUFFERS_MIN) return BUFFERS_MIN;
    return count < BUFFERS_MAX ? (uint32_t)count : BUFFERS_MAX;
}

enum mr_status mr_remote_prefix_create(struct mr_remote_prefix **out,
                                       const struct mr_remote_prefix_options *options,
                                       struct mr_error *err)
{
    *out = NULL;
    struct mr_remote_prefix *prefix = calloc(1, sizeof *prefix);
    if (prefix == NULL) goto fail;
    prefix->options = *options;
    size_t buffer_bytes = fill_sizes(prefix);
    uint32_t buffers = count_buffers(options->staging_bytes, buffer_bytes);
    if (!mr_staging_open(&prefix->staging, buffers, buffer_bytes) || !make_tables(prefix))
        goto fail_shared;
    *out = prefix;
    return MR_OK;

fail_shared:
    mr_remote_prefix_destroy(prefix);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for the buffers of the remote cache");
}

void mr_remote_prefix_destroy(struct mr_remote_prefix *prefix)
{
    if (prefix == NULL) return;
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++) {
        free(prefix->loads[i].states);
        free(prefix->loads[i].buffers);
    }
    mr_staging_close(&prefix->staging);
    free(prefix->keys);
    free(prefix->values);
    free(prefix);
}

void mr_remote_prefix_poll(struct mr_remote_prefix *prefix, uint64_t now_ns)
{
    const struct mr_remote_cache *remote = prefix->options.remote;
    struct mr_remote_answer answer;
    prefix->now_ns = now_ns;
    while (remote->poll(remote->context, &answer)) {
        if (answer.kind == MR_REMOTE_LOOKUP)
            mr_prefix_lookup_answered(prefix, &answer);
        else if (answer.kind == MR_REMOTE_LOAD)
            mr_prefix_load_answered(prefix, &answer, now_ns);
        else
            mr_prefix_store_answered(prefix, &answer);
    }
    mr_prefix_expire_loads(prefix, now_ns);
}

uint64_t mr_remote_prefix_next_ns(const struct mr_remote_prefix *prefix, uint64_t now_ns)
{
    /* The remote cache wakes the engine when it releases a KV block. The engine also polls, in case
     * that wake-up is lost. */
    uint64_t soon_ns = now_ns + SOON_NS;
    uint64_t next_ns = mr_prefix_lookup_next_ns(prefix, now_ns);
    uint64_t load_ns = mr_prefix_load_next_ns(prefix, soon_ns);
    if (load_ns < next_ns) next_ns = load_ns;
    return prefix->reclaiming && soon_ns < next_ns ? soon_ns : next_ns;
}

struct mr_remote_prefix_stats mr_remote_prefix_stats(const struct mr_remote_prefix *prefix)
{
    struct mr_remote_prefix_stats stats = prefix->stats;
    stats.staging_count = prefix->staging.count;
    stats.staging_free = prefix->staging.unused_count;
    stats.lent_tables = prefix->table_count;
    return stats;
}

void mr_remote_prefix_check(const struct mr_remote_prefix *prefix)
{
    mr_prefix_check_lookups(prefix);
    mr_prefix_check_tables(prefix);
    uint32_t in_use = mr_prefix_check_loads(prefix) + mr_prefix_check_stores(prefix);
    MR_ASSERT(prefix->staging.unused_count + in_use == prefix->staging.count);
}
