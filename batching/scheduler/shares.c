#include "batching/scheduler/shares.h"

bool mr_shares_is_above(const struct mr_shares *shares, uint32_t tenant)
{
    return shares->blocks[tenant] > shares->block_parts[tenant];
}

uint32_t mr_shares_block_limit(const struct mr_shares *shares, uint32_t tenant)
{
    const uint32_t part = shares->block_parts[tenant];
    return part - part / MR_WATERMARK_PART;
}

void mr_shares_release(struct mr_shares *shares, uint32_t tenant, uint32_t blocks)
{
    shares->places[tenant] -= shares->places[tenant] > 0;
    shares->blocks[tenant] -= blocks < shares->blocks[tenant] ? blocks : shares->blocks[tenant];
}
