/* admission - the largest number of KV blocks that a set of sequences will hold at one moment.
 *
 * Each running sequence grows by one token a step and releases all its blocks at its end. Sorted by
 * tokens left, most first, the peak is at one of the ends: when entry i ends, entries 0..i are
 * running and each has grown by left_i tokens. The maximum over all i is exact for known lengths
 * (the closed form of LightLLM's "Past-Future" scheduler, Gong et al., ASPLOS 2025), here in blocks
 * and with shared blocks counted once.
 *
 * Pure functions. Memory: the caller's array. Errors: none. */
#ifndef MR_BATCHING_BASE_ADMISSION_H
#define MR_BATCHING_BASE_ADMISSION_H

#include "kvcache/block_pool.h"

#include <stdint.h>

struct mr_peak_entry {
    uint32_t tokens; /* the sequence has now, computed or not */
    uint32_t left;   /* tokens it is expected to generate */
    uint32_t blocks; /* blocks in its table now */
    uint32_t unique; /* of these blocks, those that no earlier entry holds */
};

/* Inserts entry into entries[0, count), which stays sorted by left, most first; returns its index.
 * The array must have room for one more. */
uint32_t mr_peak_insert(struct mr_peak_entry *entries, uint32_t count, struct mr_peak_entry entry);

/* Peak number of blocks. The exact sum is O(count^2) and is computed only when the O(count) upper
 * bound is above `enough`, so a result <= enough may be that bound. */
uint32_t mr_peak_blocks(const struct mr_peak_entry *entries, uint32_t count, uint32_t enough);

#endif
