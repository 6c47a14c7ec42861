/* fake_remote - a remote cache in memory, in virtual time, with injected faults: lost and delayed
 * items, refused calls, wrong answers.
 *
 * Stored items are found by key. An answer becomes due after a latency; the items of a load arrive
 * at a fixed rate, the last one first. poll returns what is due by the engine's clock. Faults are
 * random by seed. The bytes of an item that will not arrive are overwritten with garbage before the
 * cache reports that, as a real one may do. The remote cache asserts that bytes do not change while
 * they are being stored.
 *
 * Owner: the test; one engine each. Memory: freed by _destroy; destroy a peer before the remote
 * cache whose entries it uses. */
#ifndef MR_TESTS_FAKES_FAKE_REMOTE_H
#define MR_TESTS_FAKES_FAKE_REMOTE_H

#include "kvcache/remote_cache.h"

#define FAKE_REMOTE_ITEMS_MAX  4096u
#define FAKE_REMOTE_EVENTS_MAX 4096u

struct fake_remote_options {
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

struct fake_remote {
    struct fake_remote_options options;
    const uint64_t *now_ns;
    struct fake_remote *home;          /* the remote cache that owns the entries */
    struct fake_remote_entry *entries; /* [FAKE_TIER_ITEMS_MAX] */
    uint32_t entry_count;
    struct fake_remote_event *events; /* [FAKE_TIER_EVENTS_MAX] */
    uint32_t event_count;
    uint64_t busy_until_ns;
    uint64_t stalled_ns; /* start of the stall; 0: not stalled */
    uint64_t random;
    uint64_t lookups, loads, stores, items_loaded, items_stored;
    uint32_t taken; /* items that stores took */
    struct mr_remote_cache port;
};

/* peer: the remote cache of another engine, whose entries this one shares. NULL: it has its
 * own. */
struct fake_remote *fake_remote_create(const struct fake_remote_options *options,
                                       struct fake_remote *peer);
void fake_remote_destroy(struct fake_remote *remote);
const struct mr_remote_cache *fake_remote_port(struct fake_remote *remote);
void fake_remote_set_clock(struct fake_remote *remote, const uint64_t *now_ns);
/* When the next answer is due; UINT64_MAX: no answer is pending. */
uint64_t fake_remote_next_ns(const struct fake_remote *remote);
/* Drops all items that are being loaded. The remote cache reports that at once. */
void fake_remote_cut(struct fake_remote *remote);
/* From now on no item of a load arrives, and the remote cache does not report that. */
void fake_remote_stall(struct fake_remote *remote);
/* Makes all answers due now and ends a stall. */
void fake_remote_deliver_now(struct fake_remote *remote);
/* Removes all stored items, like FLUSHALL. */
void fake_remote_flush(struct fake_remote *remote);

#endif
