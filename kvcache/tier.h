/* tier - a slower, larger store of KV blocks behind the local pool (Redis, R1 to R4), as the table
 * of calls the engine makes on it. There is no tier yet: a NULL table means none, and nothing in
 * the engine depends on there being one.
 *
 * Every call returns at once. Work is asked for under a ticket; each accepted ticket gets exactly
 * one answer through poll, failures and time-outs included. What a tier says it has may be gone
 * when it is loaded: that is a smaller `count`, never an error, and the engine computes the rest.
 * Blocks are named by their chain key (block_hash.h) and are full; a tier verifies bytes before it
 * hands them over.
 *
 * Threads: all calls from the engine thread; the tier has threads of its own behind mailboxes.
 * Memory:  bounded by the tier; at a bound ask, load and store say false, which is not an error. */
#ifndef MR_KVCACHE_TIER_H
#define MR_KVCACHE_TIER_H

#include "kvcache/block_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_tier_work { MR_TIER_ASK, MR_TIER_LOAD, MR_TIER_STORE };

struct mr_tier_answer {
    uint64_t ticket;
    enum mr_tier_work work;
    uint32_t count; /* of the keys given, from the first on: there, loaded or stored */
};

/* keys: [count][MR_HASH_BYTES] of consecutive blocks of one chain, copied by the call.
 * blocks: [count] payloads of block_bytes each, left alone by the engine until the answer. */
struct mr_tier {
    void *context;
    /* How many of these blocks are there, without a gap? False: refused, compute them. */
    bool (*ask)(void *context, uint64_t ticket, const unsigned char *keys, uint32_t count);
    /* Fill blocks. The last ones first, so that the engine can compute from the front meanwhile. */
    bool (*load)(void *context, uint64_t ticket, const unsigned char *keys, uint32_t count,
                 void *const *blocks, size_t block_bytes);
    /* Keep blocks for later. False: dropped. */
    bool (*store)(void *context, uint64_t ticket, const unsigned char *keys, uint32_t count,
                  const void *const *blocks, size_t block_bytes);
    /* Next answer, false when there is none now. */
    bool (*poll)(void *context, struct mr_tier_answer *answer);
    /* Its answer no longer matters; it still comes, as soon as the blocks are not touched any
     * more. */
    void (*abandon)(void *context, uint64_t ticket);
};

#endif
