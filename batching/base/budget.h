/* budget - memory a prefill will take, and the bound on prefills that start together.
 *
 * KV of a sequence: kv_bytes_per_token (layers x kv heads x head dim x 2 x bytes of an element) for
 * its tokens rounded up to whole blocks; activations: for the rows it has in one step. Never below
 * the real use; above it by the block rounding and what a step buffer shares only.
 *
 * Pure values. Owner: any. Memory: none. Errors: none. */
#ifndef MR_BATCHING_BASE_BUDGET_H
#define MR_BATCHING_BASE_BUDGET_H

#include "kvcache/block_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_memory_geometry {
    uint64_t kv_bytes_per_token;       /* all layers; 0: memory is not counted */
    uint64_t activation_bytes_per_row; /* step buffers / rows_max */
};

/* layers x kv heads x head dim x 2 x bytes; saturates. */
uint64_t mr_memory_kv_bytes_per_token(uint32_t layer_count, uint32_t kv_head_count,
                                      uint32_t head_dim, uint32_t element_bytes);
/* For a sequence of tokens, rows of which are in one step. Saturates at UINT64_MAX. */
uint64_t mr_memory_estimate(const struct mr_memory_geometry *geometry, uint64_t tokens,
                            uint64_t rows);

/* Prefills that start in one step: at most count_max of them and bytes_max in all. The first is
 * always let in, so a prompt larger than the whole budget runs alone and is never dropped. */
struct mr_prefill_budget {
    uint32_t count, count_max;
    uint64_t bytes, bytes_max;
};

bool mr_prefill_budget_fits(const struct mr_prefill_budget *budget, uint64_t bytes);
/* Must fit. */
void mr_prefill_budget_take(struct mr_prefill_budget *budget, uint64_t bytes);

#endif
