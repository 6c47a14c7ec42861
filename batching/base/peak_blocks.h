/* peak_blocks - the largest number of KV blocks that a set of sequences will hold at one moment.
 *
 * Each running sequence grows by one token a step and releases all its blocks at its end. Number
 * the sequences by tokens left to generate, most first. The peak is at the end of one of them: when
 * sequence i ends, sequences 0..i are running and each has grown by the left_i tokens that sequence
 * i had left. The maximum over all i is exact for known lengths (the closed form of LightLLM's
 * "Past-Future" scheduler, Gong et al., ASPLOS 2025), here in blocks and with a block that several
 * sequences share counted once.
 *
 * Pure functions. Memory: the caller's array. Errors: none. */
#ifndef MR_BATCHING_BASE_PEAK_BLOCKS_H
#define MR_BATCHING_BASE_PEAK_BLOCKS_H

#include "kvcache/block_pool.h"

#include <stdint.h>

struct mr_peak_blocks_entry {
    uint32_t tokens; /* tokens that the sequence has now, with or without KV */
    uint32_t left;   /* tokens that the sequence is still expected to generate */
    uint32_t blocks; /* blocks in the sequence's block table now */
    uint32_t unique; /* blocks of its table that no earlier sequence of the array holds */
};

/* Inserts entry into entries[0, count), which is and stays sorted by `left`, largest first. Returns
 * the index of the inserted entry. The array must have space for one more entry. */
uint32_t mr_peak_blocks_insert(struct mr_peak_blocks_entry *entries, uint32_t count,
                               struct mr_peak_blocks_entry entry);

/* Largest number of KV blocks that the sequences will hold at one moment. The exact maximum costs
 * O(count^2) and is computed only when an upper bound in O(count) is above `enough`; so a result of
 * at most `enough` may be that upper bound. */
uint32_t mr_peak_blocks_most(const struct mr_peak_blocks_entry *entries, uint32_t count,
                             uint32_t enough);

#endif
