/* kv_groups - the KV pool of a model, in one or two groups of layers. A model with both_ways keeps
 * no KV after a layer: all its layers use the same part of the pool in turn. The full group has the
 * full-attention layers; their KV is in blocks, one for each MR_BLOCK_TOKENS tokens of a sequence.
 * The sliding group has the sliding-window layers; their KV is in slots, which are block-sized. A
 * sequence needs only the slots that a window and a step span, however long the sequence is
 * (kvcache/kv_cache.h maps blocks to slots). When the window is nearly as long as the context,
 * slots would save no memory, and all layers are in the full group.
 *
 * Memory is divided so that blocks and slots run out together for sequences half as long as the
 * context. In a model without full-attention layers a block id has no KV storage behind it.
 *
 * Owner:  engine thread.
 * Memory: reserved in _create; pages become resident on first use, or earlier by _populate.
 * Errors: _create: those of the backend. */
#ifndef MR_OPS_DECODER_KV_GROUPS_H
#define MR_OPS_DECODER_KV_GROUPS_H

#include "ops/backend/backend.h"
#include "ops/decoder/batch.h"
#include "ops/families/model_config.h"

struct mr_kv_layer {
    bool slides;    /* true: the layer is in the sliding group; false: in the full group */
    uint32_t index; /* index of the layer within its layer group */
};

struct mr_kv_groups_spec {
    const struct mr_model_config *config;
    uint32_t step_tokens; /* most tokens of one sequence in a step */
    uint64_t kv_bytes;    /* size of the pool, rounded down to whole blocks and slots */
    bool int8;            /* K and V are kept in int8 (struct mr_kv_spec of ops/backend/step.h) */
};

struct mr_kv_groups {
    const struct mr_backend *backend;
    struct mr_kv *full;    /* block_count blocks; NULL if no layer is in the full group */
    struct mr_kv *sliding; /* slot_count slots; NULL if no layer is in the sliding group */
    uint32_t block_count, slot_count;
    size_t block_bytes; /* bytes of the KV of MR_BLOCK_TOKENS tokens in all layers */
    uint64_t pool_bytes;
    bool int8; /* the pool keeps int8; false: the numbers of the device */
    /* Blocks of a pool of numbers are exported as int8 (ops/backend/step.h); may be set after
     * _create. */
    bool exports_int8;
    struct mr_kv_layer layers[MR_LAYERS_MAX];
};

/* Returns the size of the pool in bytes: `wanted`, limited to half of the memory of the process
 * that remains after the weights. The other half is for requests, buffers and files. memory_bytes
 * 0: no limit. */
uint64_t mr_kv_groups_pool_bytes(uint64_t wanted, uint64_t memory_bytes, uint64_t weight_bytes);
/* Returns the limit for a device with its own memory, of which free_bytes remain after the weights.
 * A tenth, at least 1 GiB, is left for the intermediate results of steps. */
uint64_t mr_kv_groups_device_pool_bytes(uint64_t free_bytes);
/* The pool has at least one block, and the slots that one sequence needs. */
enum mr_status mr_kv_groups_create(struct mr_kv_groups *out, struct mr_compute *compute,
                                   const struct mr_kv_groups_spec *spec, struct mr_error *err);
void mr_kv_groups_destroy(struct mr_kv_groups *groups);
/* Fills in *out as _create would, but leaves the pools NULL. compute: only its fields `backend` and
 * `number` are read; the device need not be open. */
void mr_kv_groups_plan(struct mr_kv_groups *out, const struct mr_compute *compute,
                       const struct mr_kv_groups_spec *spec);
/* Makes the next 2 MiB of the pool resident in memory; false when the whole pool is resident. */
bool mr_kv_groups_populate(struct mr_kv_groups *groups);

void mr_kv_groups_copy(struct mr_kv_groups *groups, struct mr_kv_place from, struct mr_kv_place to,
                       uint32_t token_count);
/* Returns the size in bytes of token_count exported tokens of a block: the layers of the full
 * group, then those of the sliding group. */
size_t mr_kv_groups_export_bytes(const struct mr_kv_groups *groups, uint32_t token_count);
/* Returns false when a number cannot be stored in int8 (infinite, NaN, or 2^127 or more). */
bool mr_kv_groups_export(const struct mr_kv_groups *groups, struct mr_kv_place place,
                         uint32_t token_count, unsigned char *bytes);
void mr_kv_groups_import(struct mr_kv_groups *groups, struct mr_kv_place place,
                         uint32_t token_count, const unsigned char *bytes);

#endif
