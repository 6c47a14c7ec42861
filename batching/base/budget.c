#include "batching/base/budget.h"

#include "codec/check.h"

static uint64_t times(uint64_t left, uint64_t right)
{
    return right != 0 && left > UINT64_MAX / right ? UINT64_MAX : left * right;
}

static uint64_t plus(uint64_t left, uint64_t right)
{
    return left > UINT64_MAX - right ? UINT64_MAX : left + right;
}

uint64_t mr_memory_estimate(const struct mr_memory_geometry *geometry, uint64_t tokens,
                            uint64_t rows)
{
    uint64_t blocks = tokens / MR_BLOCK_TOKENS + (tokens % MR_BLOCK_TOKENS != 0);
    uint64_t kv = times(times(blocks, MR_BLOCK_TOKENS), geometry->kv_bytes_per_token);
    return plus(kv, times(rows, geometry->activation_bytes_per_row));
}

bool mr_prefill_budget_fits(const struct mr_prefill_budget *budget, uint64_t bytes)
{
    if (budget->count == 0) return true;
    return budget->count < budget->count_max && budget->bytes <= budget->bytes_max &&
           bytes <= budget->bytes_max - budget->bytes;
}

void mr_prefill_budget_take(struct mr_prefill_budget *budget, uint64_t bytes)
{
    MR_ASSERT(mr_prefill_budget_fits(budget, bytes));
    budget->count++;
    budget->bytes = plus(budget->bytes, bytes);
}
