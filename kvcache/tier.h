/* tier - the interface to a slower, larger store of KV behind the KV pool of a worker, that is
 * Redis: the table of functions that the engine calls. A NULL table means that there is no such
 * store.
 *
 * An item is what the store has under one key: the KV of a full block under its chain key, a piece
 * (the first tokens of a block, fewer than the full block) under the chain key of its last token,
 * or the rest of a complete prompt's state (logits, KV; in the engine's own form) under its prompt
 * key (block_hash.h). Both sides know an item's exact length beforehand. A stored value of another
 * length, with other tokens or with bytes that do not verify counts as absent.
 *
 * Every call returns at once. Each request carries a ticket; an accepted one gets exactly one final
 * answer through poll, also after a failure or timeout. An item found by a lookup may be absent
 * when it is loaded: that is no error, and the engine computes the item. Bytes are verified before
 * their item is reported as loaded; the bytes of an item reported as absent may hold anything.
 *
 * Threads: all calls from the engine thread; the tier has threads of its own, and wakes the engine
 *          when poll has an answer.
 * Memory:  bounded by the tier; at a bound lookup and load return false, and store takes fewer
 *          items, which is no error. item.bytes is owned by the engine, often a block of the KV
 *          pool. The engine does not touch these bytes until the item is reported (load) or the
 *          final answer is polled (store). */
#ifndef MR_KVCACHE_TIER_H
#define MR_KVCACHE_TIER_H

#include "kvcache/block_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_tier_work { MR_TIER_LOOKUP, MR_TIER_LOAD, MR_TIER_STORE };

struct mr_tier_item {
    unsigned char key[MR_HASH_BYTES];
    /* tokens whose KV is in the item; stored with it, and compared when it is loaded */
    uint32_t token_count;
    /* memory of the KV data. A load writes it, a store reads it, a lookup ignores it. */
    void *bytes;
    size_t length; /* exact length of bytes */
    /* data too large for one Redis value is cut at multiples of this; 0: anywhere */
    size_t layer_bytes;
};

struct mr_tier_request {
    uint64_t ticket;
    const struct mr_tier_item
        /* [count] keys to look up, load or store, in the order of the prompt: its KV blocks, then
         * its last tokens' KV and logits; copied */
        *items;
    uint32_t count;     /* at least 1 */
    const char *tenant; /* tenant whose write budget pays for a store; copied */
};

struct mr_tier_answer {
    uint64_t ticket;
    enum mr_tier_work work;
    bool final;
    /* if not final (load only): index of the item in the request; its bytes are no longer
     * written */
    uint32_t index;
    /* if not final: true: the item's bytes are complete and verified; false: not in Redis */
    bool loaded;
    /* if final: for a lookup, the items present in Redis, counted from the first up to the first
     * absent one; for a load, the items loaded; for a store, the items that Redis has now */
    uint32_t count;
};

/* Recent measurements of Redis, for the choice between loading KV and computing it. */
struct mr_tier_rates {
    bool up; /* false: not connected, or no answer from Redis; lookups would be refused */
    double bytes_per_second; /* speed of loads; 0: not known yet */
    uint64_t round_trip_ns;  /* duration of a lookup; 0: not known yet */
    uint64_t waiting_bytes;  /* bytes of loads accepted and not finished */
    uint64_t received_ns;    /* when bytes of a load last arrived at a useful rate */
};

struct mr_tier {
    void *context;
    /* Asks Redis which items of the request it has, with one burst of commands, answered within the
     * lookup timeout. False: refused, and the engine computes the items. */
    bool (*lookup)(void *context, const struct mr_tier_request *request);
    /* Loads the items from Redis, the last one first, so that the engine can compute from the front
     * meanwhile. Each item is reported once, before the final answer, as loaded or absent. An
     * absent item does not end the load. */
    bool (*load)(void *context, const struct mr_tier_request *request);
    /* Cancels the items of a load below index: those not loaded yet are reported as absent as soon
     * as their bytes are no longer written. No effect on a finished request. */
    void (*skip)(void *context, uint64_t ticket, uint32_t index);
    /* Stores the items in Redis. Returns how many it takes, from the first one on; the others are
     * dropped (the queue is full, the write budget is spent, or Redis is not connected). 0:
     * refused, and no answer follows. */
    uint32_t (*store)(void *context, const struct mr_tier_request *request);
    /* Takes the next answer to a request; false when there is none now. */
    bool (*poll)(void *context, struct mr_tier_answer *answer);
    /* Cancels the request with this ticket. Only its final answer follows, as soon as the bytes of
     * its items are no longer read or written. */
    void (*abandon)(void *context, uint64_t ticket);
    struct mr_tier_rates (*rates)(void *context);
};

#endif
