/* philox - random bits as a function of a key and a counter: Philox-4x32-10 (Salmon, Moraes,
 * Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011). No state.
 * Threads: any. Memory: none. */
#ifndef MR_OPS_SAMPLING_PHILOX_H
#define MR_OPS_SAMPLING_PHILOX_H

#include <stdint.h>

void mr_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

#endif
