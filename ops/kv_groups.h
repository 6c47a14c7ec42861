/* kv_groups - the KV pool of a model, in one group of layers or two. Layers that see all of a
 * sequence keep their KV in blocks, one for each 256 tokens of it. Layers that see only a window
 * keep theirs in slots, of which a sequence needs no more than a window and a step take, however
 * long it is (kvcache/kv_cache.h says which block has which slot). When that saves nothing, the
 * window being nearly as long as the context, all layers are in one group.
 *
 * How bytes are divided between blocks and slots: so that both run out together for sequences half
 * as long as the context. When every layer slides, a block is a number without memory.
 *
 * Owner:  engine thread. Memory: all in _create, pages come when first used, or by _populate
 * before. Errors: _create MR_NOMEM, MR_UNSUPPORTED (ops/cpu/kernels.h). */
#ifndef MR_OPS_KV_GROUPS_H
#define MR_OPS_KV_GROUPS_H

#include "ops/batch.h"
#include "ops/cpu/kernels.h"
#include "ops/files/model_config.h"

struct mr_kv_layer {
    bool slides;
    uint32_t index; /* within its group */
};

struct mr_kv_groups {
    struct mr_cpu_kv *full;    /* block_count blocks; NULL when every layer slides */
    struct mr_cpu_kv *sliding; /* slot_count blocks; NULL when there is no such group */
    uint32_t block_count, slot_count;
    size_t block_bytes; /* of 256 tokens in all layers */
    uint64_t pool_bytes;
    bool int8; /* stored in int8 (ops/cpu/kernels.h); the owner may set it after _create */
    struct mr_kv_layer layers[MR_LAYERS_MAX];
};

/* step_tokens: most tokens of one sequence in a step. kv_bytes: rounded down to what is whole, but
 * never below one block, and one window and step. */
enum mr_status mr_kv_groups_create(struct mr_kv_groups *out, const struct mr_model_config *config,
                                   bool bf16, uint32_t step_tokens, uint64_t kv_bytes,
                                   struct mr_error *err);
void mr_kv_groups_destroy(struct mr_kv_groups *groups);
/* Some more of its memory is made resident; false when there is none left to. */
bool mr_kv_groups_populate(struct mr_kv_groups *groups);

void mr_kv_groups_copy(struct mr_kv_groups *groups, struct mr_kv_place from, struct mr_kv_place to,
                       uint32_t token_count);
/* The stored form: layers of the full group, then those of the sliding one. */
size_t mr_kv_groups_export_bytes(const struct mr_kv_groups *groups, uint32_t token_count);
/* False: stored in int8, and a number is not finite or nearly so. */
bool mr_kv_groups_export(const struct mr_kv_groups *groups, struct mr_kv_place place,
                         uint32_t token_count, unsigned char *bytes);
void mr_kv_groups_import(struct mr_kv_groups *groups, struct mr_kv_place place,
                         uint32_t token_count, const unsigned char *bytes);

#endif
