/* tier - the interface to a slower, larger store of KV behind the local pool (Redis, R1 to R4): the
 * table of calls that the engine makes. A NULL table means that there is no such store.
 *
 * An item is the value of one key: the KV of a full block under its chain key, a piece (the first
 * tokens of a block) under the chain key of its last token, or the rest of a complete prompt's
 * state (logits, KV; in the engine's own form) under its prompt key (block_hash.h). Both sides know
 * an item's exact length beforehand. A stored value of another length, with other tokens or with
 * bytes that do not verify counts as absent.
 *
 * Every call returns at once. Each request carries a ticket; an accepted one gets exactly one final
 * answer through poll, also after a failure or timeout. An item found by a lookup may be absent
 * when it is loaded: that is no error, and the engine computes the item. Bytes are verified before
 * their item is reported as loaded; the bytes of an item reported as absent may hold anything.
 *
 * Threads: all calls from the engine thread; the tier has threads of its own, and wakes the engine
 *          when poll has an answer.
 * Memory:  bounded by the tier; at a bound lookup, load and store return false, which is no error.
 *          item.bytes is owned by the engine, often a block of the KV pool. The engine does not
 *          touch these bytes until the item is reported (load) or the final answer is polled
 * (store). */
#ifndef MR_KVCACHE_TIER_H
#define MR_KVCACHE_TIER_H

#include "kvcache/block_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_tier_work { MR_TIER_LOOKUP, MR_TIER_LOAD, MR_TIER_STORE };

struct mr_tier_item {
    unsigned char key[MR_HASH_BYTES];
    uint32_t token_count; /* tokens whose KV the item holds; stored with it and compared */
    void *bytes;          /* load: filled; store: read; lookup: ignored */
    size_t length;        /* exact, in bytes */
    size_t layer_bytes;   /* a large item is cut into slices at multiples of this; 0: anywhere */
};

struct mr_tier_request {
    uint64_t ticket;
    const struct mr_tier_item
        *items;         /* [count] in order of the chain, a prompt entry last; copied */
    uint32_t count;     /* at least 1 */
    const char *tenant; /* charged for the bytes of a store; copied */
};

struct mr_tier_answer {
    uint64_t ticket;
    enum mr_tier_work work;
    bool final;
    uint32_t index; /* not final (load only): the tier no longer touches this item's bytes */
    bool loaded;    /* not final: true: the bytes are complete and verified; false: absent */
    uint32_t count; /* final: lookup: items present, counted from the first up to the first gap;
                       load: items loaded; store: items that are stored now */
};

/* Recent measurements, for the choice between loading and computing. */
struct mr_tier_rates {
    bool up;                 /* false: not connected or silent; lookups would be refused */
    double bytes_per_second; /* of loads; 0: not known yet */
    uint64_t round_trip_ns;  /* of a lookup; 0: not known yet */
    uint64_t waiting_bytes;  /* of loads accepted and not finished */
    uint64_t received_ns;    /* when bytes of a load last arrived at a useful rate */
};

struct mr_tier {
    void *context;
    /* Which items are present? One burst of commands, answered within the lookup timeout. False:
     * refused, the engine computes them. */
    bool (*lookup)(void *context, const struct mr_tier_request *request);
    /* Fills the items, the last one first, so that the engine can compute from the front meanwhile.
     * Each item is reported once, before the final answer, as loaded or absent. An absent item does
     * not end the load. */
    bool (*load)(void *context, const struct mr_tier_request *request);
    /* Cancels the items of a load below index: those not loaded yet are reported as absent as soon
     * as the tier no longer touches their bytes. No effect on a finished ticket. */
    void (*skip)(void *context, uint64_t ticket, uint32_t index);
    /* Stores the items. False: dropped (no room, write budget spent, not connected). */
    bool (*store)(void *context, const struct mr_tier_request *request);
    /* Next answer; false when there is none now. */
    bool (*poll)(void *context, struct mr_tier_answer *answer);
    /* Cancels the request. Only its final answer follows, as soon as the tier no longer touches the
     * bytes of its items. */
    void (*abandon)(void *context, uint64_t ticket);
    struct mr_tier_rates (*rates)(void *context);
};

#endif
