/* adapter - a LoRA adapter on a device: the low-rank changes of a model's linear layers, made from
 * the adapter's files and the layers of the model that adapters can change.
 *
 * The changes follow the packed layers of the base: q, k and v are one layer, gate and up another,
 * and heads are padded. The ranks of the parts of a layer are stacked: A has the rows of all parts,
 * and a row of B has zeros outside the ranks of its part. An adapter of a fused module (qkv_proj,
 * gate_up_proj) has one A for all parts. Rows of B in GGUF's order are put into that of Hugging
 * Face, as the base's rows are (ops/weights/weight_rows.h).
 *
 * Every tensor of the files must have its place in the model: an adapter that is ignored would
 * silently give the answers of the base.
 *
 * Threads: any, also while steps run with other adapters. Memory: copies of all numbers.
 * Errors:  MR_BAD_FILE names the tensor and the reason; MR_NOMEM; those of the backend. */
#ifndef MR_OPS_WEIGHTS_ADAPTER_H
#define MR_OPS_WEIGHTS_ADAPTER_H

#include "ops/files/adapter_files.h"
#include "ops/weights/weight_loader.h"

/* The most ranks of a layer, those of three parts: rank_max of a step (ops/backend/step.h). */
#define MR_ADAPTER_LAYER_RANKS (3u * MR_ADAPTER_RANK_MAX)

/* The model that adapters change. */
struct mr_adapter_base {
    const struct mr_model_config *config;
    const struct mr_layer_sites *sites;
    struct mr_compute *compute; /* NULL: adapters are only checked */
};

struct mr_adapter_weights {
    struct mr_adapter adapter; /* argument of a step */
    const struct mr_backend *backend;
    uint64_t bytes, parameter_count;
    uint32_t layer_count, rank; /* layers that the adapter changes; the largest rank of a module */
};

/* base without compute: only checks the files; adapter.sites is then empty. */
enum mr_status mr_adapter_weights_create(struct mr_adapter_weights **out,
                                         const struct mr_adapter_base *base,
                                         const struct mr_adapter_files *files,
                                         struct mr_error *err);
/* weights may be NULL. */
void mr_adapter_weights_destroy(struct mr_adapter_weights *weights);

#endif
