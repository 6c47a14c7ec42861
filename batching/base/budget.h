/* budget - estimated memory of a prefill, and the bound on prefills that start together.
 *
 * KV of a sequence: kv_bytes_per_token (layers x kv heads x head dim x 2 x bytes of an element) for
 * its tokens rounded up to whole blocks. Activations: those of its rows in one step. The estimate
 * is never below the real use; it is above it by the rounding and by step buffers that rows share.
 *
 * Pure values. Threads: any. Memory: none. Errors: none. */
#ifndef MR_BATCHING_BASE_BUDGET_H
#define MR_BATCHING_BASE_BUDGET_H

#include "kvcache/block_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_memory_geometry {
    uint64_t kv_bytes_per_token;       /* all layers; 0: memory is not counted */
    uint64_t activation_bytes_per_row; /* step buffers / rows_max */
};

/* Bytes for a sequence of `tokens` tokens with `rows` rows in one step. Saturates at UINT64_MAX. */
uint64_t mr_memory_estimate(const struct mr_memory_geometry *geometry, uint64_t tokens,
                            uint64_t rows);

/* Prefills that start in one step: at most count_max of them and bytes_max in all. The first one
 * always fits, so a prompt larger than the whole budget starts alone and is never dropped. */
struct mr_prefill_budget {
    uint32_t count, count_max;
    uint64_t bytes, bytes_max;
};

bool mr_prefill_budget_fits(const struct mr_prefill_budget *budget, uint64_t bytes);
/* The prefill must fit. */
void mr_prefill_budget_take(struct mr_prefill_budget *budget, uint64_t bytes);

#endif
