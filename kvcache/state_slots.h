/* state_slots - which slot of a model's state pool is whose. A slot has the states of the recurrent
 * layers of one sequence.
 *
 *     FREE       no content                                -> HELD, SNAPSHOT
 *     HELD       the state of a running sequence           -> FREE
 *     SNAPSHOT   a copy of the state after a full block of the prefix index, found by that block
 *                                                          -> FREE
 * A snapshot is immutable. It is pinned while a sequence waits for a copy of it. A slot is taken
 * from the free ones, else from the snapshot without pins that was used least recently. A table
 * holds one slot and pins at most one, so with twice as many slots as tables _take cannot fail.
 *
 * Owner:  engine thread. Memory: all in _create. Errors: _create MR_NOMEM; _keep NONE. */
#ifndef MR_KVCACHE_STATE_SLOTS_H
#define MR_KVCACHE_STATE_SLOTS_H

#include "codec/status.h"
#include "kvcache/block_pool.h"

#define MR_NO_STATE UINT32_MAX

struct mr_state_slots;

struct mr_state_slots_stats {
    uint32_t slot_count, free_count, held_count, snapshot_count;
    uint32_t pin_count; /* of all snapshots */
    uint64_t snapshots_total, evictions;
};

enum mr_status mr_state_slots_create(struct mr_state_slots **out, uint32_t slot_count,
                                     uint32_t block_count, struct mr_error *err);
/* slots may be NULL. */
void mr_state_slots_destroy(struct mr_state_slots *slots);

/* Takes a slot for a sequence; the content is undefined. Asserts that there is one. */
uint32_t mr_state_slots_take(struct mr_state_slots *slots);
void mr_state_slots_release(struct mr_state_slots *slots, uint32_t slot);

/* Returns the snapshot of a block; MR_NO_STATE: there is none. */
uint32_t mr_state_slots_find(const struct mr_state_slots *slots, mr_block_id block);
/* Takes a slot for the snapshot of a block that has none; the caller copies the state into it.
 * MR_NO_STATE: every slot is held or pinned. */
uint32_t mr_state_slots_keep(struct mr_state_slots *slots, mr_block_id block);
/* Pin a snapshot, which is used then, and unpin it. */
void mr_state_slots_pin(struct mr_state_slots *slots, uint32_t slot);
void mr_state_slots_unpin(struct mr_state_slots *slots, uint32_t slot);
/* Call when the block leaves the prefix index: frees its snapshot, if any. A pinned one is freed by
 * its last _unpin. */
void mr_state_slots_drop(struct mr_state_slots *slots, mr_block_id block);

struct mr_state_slots_stats mr_state_slots_stats(const struct mr_state_slots *slots);
/* Asserts that slots and blocks agree, and that every slot is counted once; O(slots + blocks). */
void mr_state_slots_check(const struct mr_state_slots *slots);

#endif
