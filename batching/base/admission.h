/* admission - will these sequences ever need more blocks at one moment than there are?
 *
 * Each running sequence grows by one token a step and gives everything back at its end. Sorted by
 * tokens left, most first, the worst moments are the ends: when entry i ends, entries 0..i are
 * alive and each has grown by left_i tokens. The peak over all i is exact for known lengths (the
 * closed form of LightLLM's "Past-Future" scheduler, Gong et al., ASPLOS 2025), here in blocks and
 * with shared blocks counted once.
 *
 * Pure functions. Memory: the caller's array. Errors: none. */
#ifndef MR_BATCHING_BASE_ADMISSION_H
#define MR_BATCHING_BASE_ADMISSION_H

#include "kvcache/block_pool.h"

#include <stdint.h>

struct mr_peak_entry {
    uint32_t tokens; /* the sequence has now, computed or not */
    uint32_t left;   /* expected to come */
    uint32_t blocks; /* in its table now */
    uint32_t unique; /* of those, the ones no entry before this one holds */
};

/* Puts entry into entries[0..count), which stays sorted by left, most first; returns its index.
 * There must be room for one more. */
uint32_t mr_peak_insert(struct mr_peak_entry *entries, uint32_t count, struct mr_peak_entry entry);

/* Blocks in use at the worst future moment. The exact sum is O(count^2); it is only made when the
 * O(count) upper bound is above `enough`, so a result <= enough may be the bound. */
uint32_t mr_peak_blocks(const struct mr_peak_entry *entries, uint32_t count, uint32_t enough);

#endif
