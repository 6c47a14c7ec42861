/* budget - estimated memory of a prefill, and the bound on prefills that start together.
 *
 * The KV of a sequence takes kv_bytes_per_token (layers x kv heads x head dim x 2 x bytes of an
 * element) for each of its tokens, rounded up to whole blocks. Its activations take
 * activation_bytes_per_row for each of its rows in one step. The estimate is never below the real
 * use; it can be above it, by the rounding and because rows share step buffers.
 *
 * Pure values. Threads: any. Memory: none. Errors: none. */
#ifndef MR_BATCHING_BASE_BUDGET_H
#define MR_BATCHING_BASE_BUDGET_H

#include "kvcache/block_pool.h"

#include <stdbool.h>
#include <stdint.h>

struct mr_memory_geometry {
    uint64_t kv_bytes_per_token; /* KV bytes of one token in all layers; 0: memory is not counted */
    uint64_t activation_bytes_per_row; /* bytes of the step buffers divided by rows_max */
};

/* Estimated bytes for a sequence of `tokens` tokens that has `rows` rows in one step. UINT64_MAX
 * when the estimate overflows. */
uint64_t mr_memory_estimate(const struct mr_memory_geometry *geometry, uint64_t tokens,
                            uint64_t rows);

/* Budget of the prefills that start in one step: at most count_max prefills and bytes_max bytes
 * together. The first prefill always fits, so a prompt larger than the whole budget starts alone
 * and is never dropped. */
struct mr_prefill_budget {
    uint32_t count, count_max;
    uint64_t bytes, bytes_max;
};

bool mr_prefill_budget_fits(const struct mr_prefill_budget *budget, uint64_t bytes);
/* Charges a prefill of `bytes` bytes to the budget. mr_prefill_budget_fits() must have returned
 * true for the same `bytes`. */
void mr_prefill_budget_take(struct mr_prefill_budget *budget, uint64_t bytes);

#endif
