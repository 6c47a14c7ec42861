#include "ops/decoder/state_pool.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

static uint32_t mixing_layers(const struct mr_model_config *config)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->layer_count; i++)
        count += config->mixes[i];
    return count;
}

size_t mr_state_pool_slot_bytes(const struct mr_model_config *config)
{
    return mixing_layers(config) * mr_mixer_state_floats(&config->mixer) * sizeof(float);
}

#define SNAPSHOT_PERCENT 15u
#define SLOTS_MAX        65536u

uint32_t mr_state_pool_divide(const struct mr_model_config *config, uint32_t running,
                              uint64_t *kv_bytes)
{
    const uint64_t bytes = mr_state_pool_slot_bytes(config);
    if (bytes == 0) return 0;
    const uint64_t share = *kv_bytes / 100 * SNAPSHOT_PERCENT / bytes;
    const uint64_t wanted = running + (share > running ? share : running);
    uint64_t slots = *kv_bytes / 2 / bytes;
    if (slots > wanted) slots = wanted;
    if (slots > SLOTS_MAX) slots = SLOTS_MAX;
    if (slots == 0) slots = 1;
    *kv_bytes -= slots * bytes < *kv_bytes ? slots * bytes : *kv_bytes;
    return (uint32_t)slots;
}

enum mr_status mr_state_pool_create(struct mr_state_pool *out, struct mr_compute *compute,
                                    const struct mr_model_config *config, uint32_t slot_count,
                                    struct mr_error *err)
{
    *out = (struct mr_state_pool){.backend = compute->backend,
                                  .slot_count = slot_count,
                                  .layer_count = mixing_layers(config),
                                  .slot_bytes = mr_state_pool_slot_bytes(config)};
    if (slot_count == 0) return MR_OK;
    out->tokens = malloc(slot_count * sizeof(*out->tokens));
    out->steps = calloc(slot_count, sizeof(*out->steps));
    enum mr_status status = MR_OK;
    if (!out->tokens || !out->steps)
        status = mr_fail(err, MR_NOMEM, "no memory for %u states", slot_count);
    if (out->tokens) memset(out->tokens, 0xff, slot_count * sizeof(*out->tokens));
    if (status == MR_OK)
        status = out->backend->mixers->states_create(compute, &out->states, &config->mixer,
                                                     out->layer_count, slot_count, err);
    if (status != MR_OK) mr_state_pool_destroy(out);
    return status;
}

void mr_state_pool_destroy(struct mr_state_pool *pool)
{
    if (pool->states) pool->backend->mixers->states_destroy(pool->states);
    free(pool->steps);
    free(pool->tokens);
    *pool = (struct mr_state_pool){0};
}

void mr_state_pool_begin(struct mr_state_pool *pool)
{
    pool->step++;
}

void mr_state_pool_advance(struct mr_state_pool *pool, uint32_t slot, uint32_t context,
                           uint32_t rows)
{
    MR_ASSERT(slot < pool->slot_count);
    MR_ASSERT(context == 0 || pool->tokens[slot] == context);
    MR_ASSERT(pool->steps[slot] != pool->step);
    pool->steps[slot] = pool->step;
    pool->tokens[slot] = context + rows;
}

void mr_state_pool_copy(struct mr_state_pool *pool, uint32_t from, uint32_t to)
{
    MR_ASSERT(from < pool->slot_count && to < pool->slot_count && from != to);
    pool->backend->mixers->states_copy(pool->states, from, to);
    pool->tokens[to] = pool->tokens[from];
}

void mr_state_pool_export(const struct mr_state_pool *pool, uint32_t slot, void *bytes)
{
    MR_ASSERT(slot < pool->slot_count && pool->tokens[slot] != UINT32_MAX);
    pool->backend->mixers->states_export(pool->states, slot, bytes);
}

void mr_state_pool_import(struct mr_state_pool *pool, uint32_t slot, uint32_t tokens,
                          const void *bytes)
{
    MR_ASSERT(slot < pool->slot_count);
    pool->backend->mixers->states_import(pool->states, slot, bytes);
    pool->tokens[slot] = tokens;
}
