/* fake_tier - a tier in memory, in virtual time, with injected faults: lost and delayed items,
 * refused calls, wrong answers.
 *
 * Stored items are found by key. An answer becomes due after a latency; the items of a load arrive
 * at a fixed rate, the last one first. poll returns what is due by the engine's clock. Faults are
 * random by seed. The bytes of an item that will not arrive are overwritten with garbage before the
 * tier reports that, as a real tier may do. The tier asserts that bytes do not change while they
 * are being stored.
 *
 * Owner: the test; one engine each. Memory: freed by _destroy; destroy a peer before the tier whose
 * entries it uses. */
#ifndef MR_TESTS_FAKES_FAKE_TIER_H
#define MR_TESTS_FAKES_FAKE_TIER_H

#include "kvcache/remote_cache.h"

#define FAKE_TIER_ITEMS_MAX  4096u
#define FAKE_TIER_EVENTS_MAX 4096u

struct fake_tier_options {
    uint64_t latency_ns;     /* of every answer */
    double bytes_per_second; /* of loads and stores */
    bool unmeasured;         /* rates are unknown */
    uint32_t lose_percent;   /* items of a load that do not arrive */
    uint32_t late_percent;   /* answers that take 100 times as long */
    uint32_t refuse_percent; /* calls that are refused */
    uint32_t lie_percent;    /* lookups that report every item as found */
    uint32_t takes_max;      /* total limit of items for all stores; 0: no limit */
    uint32_t items_max; /* above this count the oldest item is evicted; 0: FAKE_TIER_ITEMS_MAX */
    bool down;
    uint64_t seed;
};

struct fake_tier {
    struct fake_tier_options options;
    const uint64_t *now_ns;
    struct fake_tier *home;          /* the tier that owns the entries */
    struct fake_tier_entry *entries; /* [FAKE_TIER_ITEMS_MAX] */
    uint32_t entry_count;
    struct fake_tier_event *events; /* [FAKE_TIER_EVENTS_MAX] */
    uint32_t event_count;
    uint64_t busy_until_ns;
    uint64_t stalled_ns; /* start of the stall; 0: not stalled */
    uint64_t random;
    uint64_t lookups, loads, stores, items_loaded, items_stored;
    uint32_t taken; /* items that stores took */
    struct mr_remote_cache port;
};

/* peer: the tier of another engine, whose entries this tier shares. NULL: this tier has its own. */
struct fake_tier *fake_tier_create(const struct fake_tier_options *options, struct fake_tier *peer);
void fake_tier_destroy(struct fake_tier *tier);
const struct mr_remote_cache *fake_tier_port(struct fake_tier *tier);
void fake_tier_set_clock(struct fake_tier *tier, const uint64_t *now_ns);
/* When the next answer is due; UINT64_MAX: no answer is pending. */
uint64_t fake_tier_next_ns(const struct fake_tier *tier);
/* Drops all items that are being loaded. The tier reports that at once. */
void fake_tier_cut(struct fake_tier *tier);
/* From now on no item of a load arrives, and the tier does not report that. */
void fake_tier_stall(struct fake_tier *tier);
/* Makes all answers due now and ends a stall. */
void fake_tier_deliver_now(struct fake_tier *tier);
/* Removes all stored items, like FLUSHALL. */
void fake_tier_flush(struct fake_tier *tier);

#endif
