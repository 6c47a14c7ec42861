#include "ops/decoder/kv_groups.h"

#include "codec/check.h"

#include <math.h>
#include <string.h>

/* Returns the slots that one sequence needs: for the sliding window, for the tokens of a step, and
 * for the source of a block copy. */
static uint32_t window_slots(uint32_t window, uint32_t step_tokens)
{
    return (window - 1 + step_tokens) / MR_BLOCK_TOKENS + 3;
}

static uint32_t context_blocks(const struct mr_model_config *config)
{
    return (config->context_tokens + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS;
}

static bool has_sliding_group(const struct mr_model_config *config, uint32_t step_tokens)
{
    if (config->window == 0 || config->window >= config->context_tokens) return false;
    if (config->both_ways) return false;
    return window_slots(config->window, step_tokens) < context_blocks(config);
}

/* Assigns every layer to the full-attention group or the sliding-window group; sets counts[0] and
 * counts[1] to the layers in each. */
static void place_layers(struct mr_kv_groups *groups, const struct mr_model_config *config,
                         bool sliding, uint32_t counts[2])
{
    counts[0] = counts[1] = 0;
    if (config->both_ways) { /* the layers use the same KV in turn */
        memset(groups->layers, 0, sizeof(groups->layers));
        counts[0] = 1;
        return;
    }
    for (uint32_t i = 0; i < config->layer_count; i++) {
        if (config->skips_attention[i]) continue;
        bool slides = sliding && config->windowed[i];
        groups->layers[i] = (struct mr_kv_layer){slides, counts[slides]++};
    }
}

static uint32_t bounded(double count, uint32_t min)
{
    if (count < (double)min) return min;
    return count < (double)(UINT32_MAX / 2) ? (uint32_t)count : UINT32_MAX / 2;
}

/* Block ids of a model without attention, which only count its tokens. */
#define BLOCKS_WITHOUT_KV 65536u

/* Divides `bytes` of memory into blocks of full_bytes and slots of slot_bytes. full_bytes is 0 when
 * no layer has blocks, slot_bytes is 0 when no layer has slots. */
static void divide(struct mr_kv_groups *groups, double bytes, size_t full_bytes, size_t slot_bytes,
                   double slots_per_block, uint32_t slots_min)
{
    double full = (double)full_bytes, slot = (double)slot_bytes;
    if (full_bytes == 0 && slot_bytes == 0) {
        groups->block_count = BLOCKS_WITHOUT_KV;
        return;
    }
    if (slot_bytes == 0) {
        groups->block_count = bounded(bytes / full, 1);
        return;
    }
    double blocks = bytes / (full + slots_per_block * slot);
    groups->slot_count = bounded(blocks * slots_per_block, slots_min);
    if (full_bytes > 0 && groups->slot_count == slots_min)
        blocks = (bytes - slot * slots_min) / full;
    groups->block_count = bounded(blocks, full_bytes > 0 ? 1 : groups->slot_count);
}

uint64_t mr_kv_groups_pool_bytes(uint64_t wanted, uint64_t memory_bytes, uint64_t weight_bytes)
{
    uint64_t most = memory_bytes > weight_bytes ? (memory_bytes - weight_bytes) / 2 : 0;
    return memory_bytes > 0 && most < wanted ? most : wanted;
}

uint64_t mr_kv_groups_device_pool_bytes(uint64_t free_bytes)
{
    const uint64_t tenth = free_bytes / 10, gibibyte = (uint64_t)1 << 30;
    const uint64_t reserve = tenth > gibibyte ? tenth : gibibyte;
    return free_bytes > reserve ? free_bytes - reserve : 0;
}

static struct mr_kv_spec pool_of(const struct mr_compute *compute,
                                 const struct mr_kv_groups_spec *spec)
{
    const struct mr_model_config *config = spec->config;
    const struct mr_latent_shape *latent = &config->latent;
    struct mr_kv_spec pool = {.kv_head_count = config->kv_head_count,
                              .head_dim = mr_model_config_padded_head(config),
                              .number = compute->number,
                              .int8 = spec->int8};
    if (latent->rank > 0) {
        pool.kv_head_count = 1;
        pool.head_dim = mr_latent_key(latent);
        pool.value_dim = mr_latent_value(latent);
    }
    return pool;
}

/* Plans the groups like mr_kv_groups_plan and fills counts like place_layers. */
static void plan(struct mr_kv_groups *out, const struct mr_compute *compute,
                 const struct mr_kv_groups_spec *spec, uint32_t counts[2])
{
    const struct mr_model_config *config = spec->config;
    *out = (struct mr_kv_groups){.backend = compute->backend, .int8 = spec->int8};
    bool sliding = has_sliding_group(config, spec->step_tokens);
    place_layers(out, config, sliding, counts);
    struct mr_kv_spec pool = pool_of(compute, spec);
    pool.layer_count = counts[0];
    size_t full_bytes = out->backend->kv_block_bytes(&pool);
    pool.layer_count = counts[1];
    size_t slot_bytes = out->backend->kv_block_bytes(&pool);
    out->block_bytes = full_bytes + slot_bytes;
    uint32_t slots = sliding ? window_slots(config->window, spec->step_tokens) : 0;
    double share = 2.0 * slots / context_blocks(config), bytes = (double)spec->kv_bytes;
    /* No step of an encoder uses more blocks than it has rows. */
    if (config->both_ways) bytes = fmin(bytes, (double)full_bytes * spec->step_tokens);
    divide(out, bytes, full_bytes, slot_bytes, share < 1.0 ? share : 1.0, slots);
    out->pool_bytes =
        (uint64_t)full_bytes * out->block_count + (uint64_t)slot_bytes * out->slot_count;
}

void mr_kv_groups_plan(struct mr_kv_groups *out, const struct mr_compute *compute,
                       const struct mr_kv_groups_spec *spec)
{
    uint32_t counts[2];
    plan(out, compute, spec, counts);
}

enum mr_status mr_kv_groups_create(struct mr_kv_groups *out, struct mr_compute *compute,
                                   const struct mr_kv_groups_spec *spec, struct mr_error *err)
{
    uint32_t counts[2];
    plan(out, compute, spec, counts);
    struct mr_kv_spec pool = pool_of(compute, spec);
    enum mr_status status = MR_OK;
    pool.layer_count = counts[0];
    pool.block_count = out->block_count;
    if (counts[0] > 0) status = out->backend->kv_create(compute, &out->full, &pool, err);
    pool.layer_count = counts[1];
    pool.block_count = out->slot_count;
    if (status == MR_OK && counts[1] > 0)
        status = out->backend->kv_create(compute, &out->sliding, &pool, err);
    if (status != MR_OK) mr_kv_groups_destroy(out);
    return status;
}

void mr_kv_groups_destroy(struct mr_kv_groups *groups)
{
    if (!groups->backend) return;
    groups->backend->kv_destroy(groups->sliding);
    groups->backend->kv_destroy(groups->full);
    groups->sliding = groups->full = NULL;
}

bool mr_kv_groups_populate(struct mr_kv_groups *groups)
{
    return (groups->full && groups->backend->kv_populate(groups->full)) ||
           (groups->sliding && groups->backend->kv_populate(groups->sliding));
}

void mr_kv_groups_copy(struct mr_kv_groups *groups, struct mr_kv_place from, struct mr_kv_place to,
                       uint32_t token_count)
{
    const struct mr_backend *backend = groups->backend;
    if (groups->full) backend->kv_copy(groups->full, from.block, to.block, token_count);
    if (groups->sliding) backend->kv_copy(groups->sliding, from.slot, to.slot, token_count);
}

static size_t stored_bytes(const struct mr_kv_groups *groups, const struct mr_kv *kv,
                           uint32_t token_count)
{
    return kv ? groups->backend->kv_stored_bytes(kv, token_count, groups->exports_int8) : 0;
}

size_t mr_kv_groups_export_bytes(const struct mr_kv_groups *groups, uint32_t token_count)
{
    return stored_bytes(groups, groups->full, token_count) +
           stored_bytes(groups, groups->sliding, token_count);
}

bool mr_kv_groups_export(const struct mr_kv_groups *groups, struct mr_kv_place place,
                         uint32_t token_count, unsigned char *bytes)
{
    unsigned char *rest = bytes + stored_bytes(groups, groups->full, token_count);
    const struct mr_kv_span full = {place.block, place.first, token_count, groups->exports_int8};
    const struct mr_kv_span sliding = {place.slot, place.first, token_count, groups->exports_int8};
    return (!groups->full || groups->backend->kv_export(groups->full, &full, bytes)) &&
           (!groups->sliding || groups->backend->kv_export(groups->sliding, &sliding, rest));
}

void mr_kv_groups_import(struct mr_kv_groups *groups, struct mr_kv_place place,
                         uint32_t token_count, const unsigned char *bytes)
{
    const unsigned char *rest = bytes + stored_bytes(groups, groups->full, token_count);
    const struct mr_kv_span full = {place.block, place.first, token_count, groups->exports_int8};
    const struct mr_kv_span sliding = {place.slot, place.first, token_count, groups->exports_int8};
    if (groups->full) groups->backend->kv_import(groups->full, &full, bytes);
    if (groups->sliding) groups->backend->kv_import(groups->sliding, &sliding, rest);
}
