/* grid - runs a grid of CUDA thread blocks on the host. The threads of a block are coroutines on
 * one OS thread, so that each sees its own stack and registers and shares the block's shared
 * memory; a thread runs until it waits at a barrier or in an operation of its warp, or ends. Blocks
 * run one after the other.
 *
 * Orders:  between two barriers the threads run in an adversarial order: one thread far ahead of
 * the others, in rising or falling order, or in a random one that changes at each turn. A kernel
 *          that lacks a barrier computes a wrong result in one of these orders.
 * Errors:  a launch fails, with a sentence on stderr, when threads of a block wait at different
 * barriers, when lanes of a warp wait in different operations or with different masks, when a lane
 * reads a lane outside the mask, when a thread ends while others wait for it, and when a thread
 * ends before its copies are complete. AddressSanitizer reports accesses outside arrays, and
 * outside the launch's dynamic shared memory. Shared memory is filled with NaN before each block.
 * Limits:  dynamic shared memory only, at most GRID_SHARED_BYTES (the limit without a request to
 * the driver). x86-64. One launch at a time. Owner:   one OS thread.
 * Memory: stacks, mapped at the first launch, until the process ends. */
#ifndef MR_TESTS_CUDA_GRID_H
#define MR_TESTS_CUDA_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRID_WARP         32u
#define GRID_THREADS_MAX  1024u
#define GRID_SHARED_BYTES (48u << 10)

enum grid_order { GRID_RISING, GRID_FALLING, GRID_RANDOM, GRID_ORDERS };

struct grid_index {
    unsigned x, y, z;
};

struct grid_launch {
    struct grid_index grid, block;
    size_t shared_bytes;
    void (*kernel)(void *context); /* the body of one thread */
    void *context;
};

/* The values of threadIdx, blockIdx, blockDim and gridDim for a thread. */
struct grid_place {
    struct grid_index thread, block, block_size, grid_size;
};
extern struct grid_place grid_here;

/* Sets the order of the following launches, and the seed of the random order. */
void grid_set_order(enum grid_order order, uint64_t seed);
/* Returns NULL, or the error of the launch or of the kernel (static text). */
const char *grid_run(const struct grid_launch *launch);

/* Called by a thread. file, line: the place of the call, to distinguish barriers. */
void grid_barrier(const char *file, int line);
/* Waits until every lane of the mask has called it from the same place with the same mask. Returns
 * the values of all lanes; those outside the mask are undefined. Valid until the next call. */
const uint64_t *grid_exchange(uint32_t mask, uint64_t value, const char *file, int line);
/* Adds a copy of `bytes` bytes, and zeros up to `size` bytes, to the thread's batch. The copy takes
 * effect when the thread waits for it. */
void grid_copy_later(void *to, const void *from, size_t bytes, size_t size);
void grid_end_batch(void);
/* Executes the copies of all ended batches except the last `left`. */
void grid_copy_batches(unsigned left);
/* Fails the launch unless `lane` is in the mask. */
void grid_check_lane(uint32_t mask, unsigned lane, const char *file, int line);

#endif
