/* fake_tier - a tier in memory, in virtual time, that loses, delays and lies on request.
 *
 * What was stored is kept by key. An answer becomes due after a latency, items of a load from the
 * back on at a fixed rate; poll gives what is due by the clock of the engine that asks. Faults are
 * drawn from a seed. Into the bytes of an item that does not arrive it writes rubbish until the
 * moment it says so, as a real one may; and it sees to it that what it stores does not change.
 *
 * Owner: the test; one engine each. Memory: freed by _destroy, peers before whose entries they
 * serve. */
#ifndef MR_TESTS_FAKES_FAKE_TIER_H
#define MR_TESTS_FAKES_FAKE_TIER_H

#include "kvcache/tier.h"

#define FAKE_TIER_ITEMS_MAX  4096u
#define FAKE_TIER_EVENTS_MAX 4096u

struct fake_tier_options {
    uint64_t latency_ns;     /* of every answer */
    double bytes_per_second; /* of loads and stores */
    bool unmeasured;         /* rates say nothing yet */
    uint32_t lose_percent;   /* items of a load that do not come */
    uint32_t late_percent;   /* answers that take 100 times as long */
    uint32_t refuse_percent; /* calls that are refused */
    uint32_t lie_percent;    /* asks whose count is made up */
    uint32_t items_max;      /* more than that: the oldest goes; 0: FAKE_TIER_ITEMS_MAX */
    bool down;
    uint64_t seed;
};

struct fake_tier {
    struct fake_tier_options options;
    const uint64_t *now_ns;
    struct fake_tier *home;          /* whose entries it serves */
    struct fake_tier_entry *entries; /* [FAKE_TIER_ITEMS_MAX] */
    uint32_t entry_count;
    struct fake_tier_event *events; /* [FAKE_TIER_EVENTS_MAX] */
    uint32_t event_count;
    uint64_t busy_until_ns;
    uint64_t stalled_ns; /* since then nothing comes; 0: it does */
    uint64_t random;
    uint64_t asks, loads, stores, items_loaded, items_stored;
    struct mr_tier port;
};

/* peer: a tier that serves another engine from the same entries; NULL: one with its own. */
struct fake_tier *fake_tier_create(const struct fake_tier_options *options, struct fake_tier *peer);
void fake_tier_destroy(struct fake_tier *tier);
const struct mr_tier *fake_tier_port(struct fake_tier *tier);
void fake_tier_set_clock(struct fake_tier *tier, const uint64_t *now_ns);
/* When the next answer is due; UINT64_MAX: none is. */
uint64_t fake_tier_next_ns(const struct fake_tier *tier);
/* Nothing that is being loaded comes, which it says at once. */
void fake_tier_cut(struct fake_tier *tier);
/* From now on nothing that is loaded comes, and it does not say so. */
void fake_tier_stall(struct fake_tier *tier);
/* What is on its way is there; a stall is over. */
void fake_tier_hurry(struct fake_tier *tier);
/* Forgets everything stored, as FLUSHALL does. */
void fake_tier_flush(struct fake_tier *tier);

#endif
