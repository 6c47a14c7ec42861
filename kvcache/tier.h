/* tier - a slower, larger store of KV behind the local pool (Redis, R1 to R4), as the table of
 * calls the engine makes on it. A NULL table means there is none.
 *
 * An item is one thing kept under one key: the KV of a full block under its chain key, a piece of a
 * part-filled one under the chain key of the tokens it ends, or what a complete prompt needs beyond
 * these (logits, KV; in a form of the engine's own) under its prompt key (block_hash.h).
 * Both sides know an item's exact length beforehand; what is stored under the key with another
 * length, other tokens or bytes that do not verify is not there.
 *
 * Every call returns at once. Work is asked for under a ticket; an accepted ticket gets exactly one
 * final answer through poll, failures and time-outs included. What a tier says it has may be gone
 * when it is loaded: then its item is reported as not there, which is no error, and the engine
 * computes it. Bytes are verified before their item is reported as there; else they may hold
 * anything.
 *
 * Threads: all calls from the engine thread; the tier has threads of its own behind mailboxes, and
 *          wakes the engine when poll has something.
 * Memory:  bounded by the tier; at a bound ask, load and store say false, which is not an error.
 *          What item.bytes points at stays the engine's: it leaves it alone until the item is
 *          reported (load) or the final answer (store). Often it is a block of the KV pool itself.
 */
#ifndef MR_KVCACHE_TIER_H
#define MR_KVCACHE_TIER_H

#include "kvcache/block_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_tier_work { MR_TIER_ASK, MR_TIER_LOAD, MR_TIER_STORE };

struct mr_tier_item {
    unsigned char key[MR_HASH_BYTES];
    uint32_t token_count; /* whose KV it holds; kept beside it and compared */
    void *bytes;          /* load: filled; store: read; ask: ignored */
    size_t length;        /* of bytes, exactly */
    size_t layer_bytes;   /* a large item is cut at multiples of this; 0: anywhere */
};

struct mr_tier_request {
    uint64_t ticket;
    const struct mr_tier_item *items; /* [count] in order of the chain, an entry last; copied */
    uint32_t count;                   /* at least 1 */
    const char *tenant;               /* whose write budget a store uses; copied */
};

struct mr_tier_answer {
    uint64_t ticket;
    enum mr_tier_work work;
    bool final;
    uint32_t index; /* not final (load only): nobody touches this item's bytes any more */
    bool there;     /* and they have arrived and are verified, or will not arrive */
    uint32_t count; /* final: ask: items there, from the first on without a gap; load: items that
                       arrived; store: items that are there now */
};

/* What the tier has measured lately, for the decision to load or to compute. */
struct mr_tier_rates {
    bool up;                 /* false: ask would be refused or answered 0: away, or silent */
    double bytes_per_second; /* of loads; 0: not known yet */
    uint64_t round_trip_ns;  /* of a small command; 0: not known yet */
    uint64_t waiting_bytes;  /* of loads accepted and not yet done */
    uint64_t heard_ns;       /* when bytes of a load came last, and not only drops of them */
};

struct mr_tier {
    void *context;
    /* Which of these are there? One burst, answered within the tier's look-up deadline. False:
     * refused, compute them. */
    bool (*ask)(void *context, const struct mr_tier_request *request);
    /* Fill the items, the last one first, so that the engine can compute from the front meanwhile.
     * Each is reported once, before the final answer: when it has arrived, or when it is known that
     * it will not; one that is missing does not end the load. */
    bool (*load)(void *context, const struct mr_tier_request *request);
    /* Of a load: items below index are not wanted any more. Those that have not arrived are
     * reported as not there as soon as nobody touches their bytes. No effect on a ticket that is
     * over. */
    void (*skip)(void *context, uint64_t ticket, uint32_t index);
    /* Keep items for later. False: dropped (no room, budget spent, breaker open). */
    bool (*store)(void *context, const struct mr_tier_request *request);
    /* Next answer, false when there is none now. */
    bool (*poll)(void *context, struct mr_tier_answer *answer);
    /* The work no longer matters; its final answer still comes, as soon as the bytes are not
     * touched any more, and nothing else before it. */
    void (*abandon)(void *context, uint64_t ticket);
    struct mr_tier_rates (*rates)(void *context);
};

#endif
