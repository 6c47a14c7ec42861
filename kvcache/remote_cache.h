/* remote_cache - the interface to the remote cache: the larger, slower store of KV in Redis that
 * the workers share. It is a table of functions that the engine calls; a NULL table means that the
 * worker has no remote cache.
 *
 * block -> value -> command. A *block* is a block of the KV pool. A *value* is the data under one
 * key of the remote cache: the KV of a full block under its chain key; a piece (the first tokens of
 * a block, fewer than the full block) under the chain key of its last token; or the rest of a
 * complete prompt's state (logits, KV; in the engine's own form) under its prompt key
 * (block_hash.h). In Redis a value is one or more slices (kvcache/remote/block_frame.h), and each
 * slice is read or written by one Redis *command*. The engine and the remote cache both know a
 * value's exact length beforehand. A stored value of another length, with other tokens or with
 * bytes that do not verify is treated as absent.
 *
 * An *operation* looks up, loads or stores several values. Every function returns at once, without
 * waiting for Redis. An accepted operation gets exactly one final answer through poll, also after a
 * failure or timeout. A value that a lookup found may be absent when it is loaded: this is not an
 * error, and the engine computes it. Bytes are verified before their value is reported as loaded;
 * the bytes of a value reported as absent are undefined.
 *
 * Threads: all functions are called by the engine thread. The remote cache has its own threads, and
 *          wakes the engine when poll has an answer.
 * Memory:  bounded by the remote cache. At a bound, lookup and load return false and store takes
 *          fewer values; neither is an error. The engine owns value.bytes, which are often a block
 *          of the KV pool, and does not touch them until the value is reported (load) or the final
 *          answer is polled (store). */
#ifndef MR_KVCACHE_REMOTE_CACHE_H
#define MR_KVCACHE_REMOTE_CACHE_H

#include "kvcache/block_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_remote_kind { MR_REMOTE_LOOKUP, MR_REMOTE_LOAD, MR_REMOTE_STORE };

struct mr_remote_value {
    unsigned char key[MR_HASH_BYTES];
    /* tokens whose KV is in the value; stored with it, and compared when it is loaded */
    uint32_t token_count;
    /* memory of the KV data. A load writes it, a store reads it, a lookup ignores it. */
    void *bytes;
    size_t length; /* exact length of bytes */
    /* a value too large for one slice is cut at multiples of this; 0: anywhere */
    size_t layer_bytes;
};

struct mr_remote_operation {
    uint64_t id; /* chosen by the engine, unique among its operations in flight */
    /* [count] values to look up, load or store, in the order of the prompt: its KV blocks, then the
     * KV and logits of its last tokens; copied */
    const struct mr_remote_value *values;
    uint32_t count;     /* at least 1 */
    const char *tenant; /* tenant whose write budget is charged for a store; copied */
};

struct mr_remote_answer {
    uint64_t id;
    enum mr_remote_kind kind;
    bool final;
    /* if not final (load only): index of the value in the operation; its bytes are no longer
     * written */
    uint32_t index;
    /* if not final: true: the value's bytes are complete and verified; false: not in Redis */
    bool loaded;
    /* if final: for a lookup, the values present in Redis, counted from the first up to the first
     * absent one; for a load, the values loaded; for a store, the values that Redis has now */
    uint32_t count;
};

/* Recent measurements of Redis, for the choice between loading KV and computing it. */
struct mr_remote_rates {
    bool up; /* false: not connected, or no answer from Redis; lookups would be refused */
    double bytes_per_second; /* speed of loads; 0: not known yet */
    uint64_t round_trip_ns;  /* duration of a lookup; 0: not known yet */
    uint64_t waiting_bytes;  /* bytes of loads accepted and not finished */
    uint64_t received_ns;    /* when bytes of a load last arrived at a useful rate */
};

struct mr_remote_cache {
    void *context;
    /* Looks up which of the values Redis has, with one burst of commands, answered within the
     * lookup timeout. False: refused, and the engine computes the values. */
    bool (*lookup)(void *context, const struct mr_remote_operation *operation);
    /* Loads the values from Redis, the last one first, so that the engine can compute from the
     * front meanwhile. Each value is reported once, before the final answer, as loaded or absent.
     * An absent value does not end the load. False: refused. */
    bool (*load)(void *context, const struct mr_remote_operation *operation);
    /* Cancels the values of a load below index: those not loaded yet are reported as absent as soon
     * as their bytes are no longer written. No effect on a finished load. */
    void (*skip)(void *context, uint64_t id, uint32_t index);
    /* Stores the values in Redis. Returns how many it takes, from the first one on; the others are
     * dropped (the queue is full, the write budget is spent, or Redis is not connected). 0:
     * refused, and no answer follows. */
    uint32_t (*store)(void *context, const struct mr_remote_operation *operation);
    /* Takes the next answer; false when there is none now. */
    bool (*poll)(void *context, struct mr_remote_answer *answer);
    /* Cancels the operation with this id. Only its final answer follows, as soon as the bytes of
     * its values are no longer read or written. */
    void (*cancel)(void *context, uint64_t id);
    struct mr_remote_rates (*rates)(void *context);
};

#endif
