#include "kvcache/state_slots.h"

#include "codec/check.h"

#include <stdlib.h>

enum kind { FREE, HELD, SNAPSHOT };

struct slot {
    enum kind kind;
    mr_block_id block; /* of a snapshot; MR_BLOCK_NONE: the block has left the prefix index */
    uint32_t pins;
    uint32_t before, after; /* neighbours in the list of its kind, which the HELD are not in */
};

/* Slot ids from slot_count on are the heads of the two lists. */
struct mr_state_slots {
    struct slot *slots; /* [slot_count + 2] */
    uint32_t *of_block; /* [block_count] snapshot of each block, or MR_NO_STATE */
    uint32_t slot_count, block_count;
    uint32_t counts[3]; /* by kind */
    uint32_t pin_count;
    uint64_t snapshots_total, evictions;
};

static uint32_t head_of(const struct mr_state_slots *slots, enum kind kind)
{
    return slots->slot_count + (kind == SNAPSHOT);
}

static void unlink_slot(struct mr_state_slots *slots, uint32_t id)
{
    struct slot *slot = &slots->slots[id];
    slots->counts[slot->kind]--;
    if (slot->kind == HELD) return;
    slots->slots[slot->before].after = slot->after;
    slots->slots[slot->after].before = slot->before;
}

/* Appends a slot to the list of its new kind: the first of a list was used least recently. */
static void link_slot(struct mr_state_slots *slots, uint32_t id, enum kind kind)
{
    struct slot *slot = &slots->slots[id];
    slot->kind = kind;
    slots->counts[kind]++;
    if (kind == HELD) return;
    struct slot *head = &slots->slots[head_of(slots, kind)];
    slot->before = head->before;
    slot->after = head_of(slots, kind);
    slots->slots[head->before].after = id;
    head->before = id;
}

enum mr_status mr_state_slots_create(struct mr_state_slots **out, uint32_t slot_count,
                                     uint32_t block_count, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(slot_count > 0 && slot_count < MR_NO_STATE - 2);
    struct mr_state_slots *slots = calloc(1, sizeof *slots);
    if (slots == NULL) return mr_fail(err, MR_NOMEM, "no memory for %u states", slot_count);
    slots->slot_count = slot_count;
    slots->block_count = block_count;
    slots->slots = calloc((size_t)slot_count + 2, sizeof *slots->slots);
    slots->of_block = malloc((size_t)block_count * sizeof *slots->of_block);
    if (slots->slots == NULL || slots->of_block == NULL) {
        mr_state_slots_destroy(slots);
        return mr_fail(err, MR_NOMEM, "no memory for %u states", slot_count);
    }
    for (uint32_t i = slot_count; i < slot_count + 2; i++)
        slots->slots[i].before = slots->slots[i].after = i;
    for (uint32_t i = 0; i < slot_count; i++) {
        slots->slots[i].block = MR_BLOCK_NONE;
        link_slot(slots, i, FREE);
    }
    for (uint32_t i = 0; i < block_count; i++)
        slots->of_block[i] = MR_NO_STATE;
    *out = slots;
    return MR_OK;
}

void mr_state_slots_destroy(struct mr_state_slots *slots)
{
    if (slots == NULL) return;
    free(slots->of_block);
    free(slots->slots);
    free(slots);
}

static void free_snapshot(struct mr_state_slots *slots, uint32_t id)
{
    struct slot *slot = &slots->slots[id];
    if (slot->block != MR_BLOCK_NONE) slots->of_block[slot->block] = MR_NO_STATE;
    slot->block = MR_BLOCK_NONE;
    unlink_slot(slots, id);
    link_slot(slots, id, FREE);
}

/* Returns a free slot, after freeing the oldest snapshot without pins if there is none. */
static uint32_t find_free(struct mr_state_slots *slots)
{
    const uint32_t free_head = head_of(slots, FREE), head = head_of(slots, SNAPSHOT);
    if (slots->counts[FREE] > 0) return slots->slots[free_head].after;
    uint32_t id = slots->slots[head].after;
    while (id != head && slots->slots[id].pins > 0)
        id = slots->slots[id].after;
    if (id == head) return MR_NO_STATE;
    free_snapshot(slots, id);
    slots->evictions++;
    return id;
}

uint32_t mr_state_slots_take(struct mr_state_slots *slots)
{
    const uint32_t id = find_free(slots);
    MR_ASSERT(id != MR_NO_STATE);
    unlink_slot(slots, id);
    link_slot(slots, id, HELD);
    return id;
}

void mr_state_slots_release(struct mr_state_slots *slots, uint32_t slot)
{
    MR_ASSERT(slot < slots->slot_count && slots->slots[slot].kind == HELD);
    unlink_slot(slots, slot);
    link_slot(slots, slot, FREE);
}

uint32_t mr_state_slots_find(const struct mr_state_slots *slots, mr_block_id block)
{
    MR_ASSERT(block < slots->block_count);
    return slots->of_block[block];
}

uint32_t mr_state_slots_keep(struct mr_state_slots *slots, mr_block_id block)
{
    MR_ASSERT(mr_state_slots_find(slots, block) == MR_NO_STATE);
    const uint32_t id = find_free(slots);
    if (id == MR_NO_STATE) return id;
    unlink_slot(slots, id);
    link_slot(slots, id, SNAPSHOT);
    slots->slots[id].block = block;
    slots->of_block[block] = id;
    slots->snapshots_total++;
    return id;
}

void mr_state_slots_pin(struct mr_state_slots *slots, uint32_t slot)
{
    MR_ASSERT(slot < slots->slot_count && slots->slots[slot].kind == SNAPSHOT);
    unlink_slot(slots, slot);
    link_slot(slots, slot, SNAPSHOT);
    slots->slots[slot].pins++;
    slots->pin_count++;
}

void mr_state_slots_unpin(struct mr_state_slots *slots, uint32_t slot)
{
    MR_ASSERT(slot < slots->slot_count && slots->slots[slot].kind == SNAPSHOT);
    MR_ASSERT(slots->slots[slot].pins > 0);
    slots->slots[slot].pins--;
    slots->pin_count--;
    if (slots->slots[slot].pins == 0 && slots->slots[slot].block == MR_BLOCK_NONE)
        free_snapshot(slots, slot);
}

void mr_state_slots_drop(struct mr_state_slots *slots, mr_block_id block)
{
    const uint32_t id = mr_state_slots_find(slots, block);
    if (id == MR_NO_STATE) return;
    if (slots->slots[id].pins == 0) {
        free_snapshot(slots, id);
        return;
    }
    slots->slots[id].block = MR_BLOCK_NONE;
    slots->of_block[block] = MR_NO_STATE;
}

struct mr_state_slots_stats mr_state_slots_stats(const struct mr_state_slots *slots)
{
    if (slots == NULL) return (struct mr_state_slots_stats){0};
    return (struct mr_state_slots_stats){.slot_count = slots->slot_count,
                                         .free_count = slots->counts[FREE],
                                         .held_count = slots->counts[HELD],
                                         .snapshot_count = slots->counts[SNAPSHOT],
                                         .pin_count = slots->pin_count,
                                         .snapshots_total = slots->snapshots_total,
                                         .evictions = slots->evictions};
}

static uint32_t length_of(const struct mr_state_slots *slots, enum kind kind)
{
    const uint32_t head = head_of(slots, kind);
    uint32_t count = 0;
    for (uint32_t id = slots->slots[head].after; id != head; id = slots->slots[id].after) {
        MR_ASSERT(slots->slots[id].kind == kind && count < slots->slot_count);
        MR_ASSERT(slots->slots[slots->slots[id].after].before == id);
        count++;
    }
    return count;
}

void mr_state_slots_check(const struct mr_state_slots *slots)
{
    if (slots == NULL) return;
    uint32_t found = 0, lost = 0;
    MR_ASSERT(slots->counts[FREE] + slots->counts[HELD] + slots->counts[SNAPSHOT] ==
              slots->slot_count);
    MR_ASSERT(length_of(slots, FREE) == slots->counts[FREE]);
    MR_ASSERT(length_of(slots, SNAPSHOT) == slots->counts[SNAPSHOT]);
    for (uint32_t i = 0; i < slots->slot_count; i++) {
        const struct slot *slot = &slots->slots[i];
        MR_ASSERT(slot->kind == SNAPSHOT || (slot->pins == 0 && slot->block == MR_BLOCK_NONE));
        MR_ASSERT(slot->block == MR_BLOCK_NONE || slots->of_block[slot->block] == i);
        lost += slot->kind == SNAPSHOT && slot->block == MR_BLOCK_NONE;
        MR_ASSERT(slot->kind != SNAPSHOT || slot->block != MR_BLOCK_NONE || slot->pins > 0);
    }
    for (uint32_t block = 0; block < slots->block_count; block++)
        found += slots->of_block[block] != MR_NO_STATE;
    MR_ASSERT(found + lost == slots->counts[SNAPSHOT]);
}
