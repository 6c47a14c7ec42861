#include "worker/offsets/offset_ledger.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

/* more than the metadata's size without bitmap and entries, and more than its encoder keeps free */
#define HEAD_BYTES 32u

struct mr_offset_ledger {
    /* base: lowest unfinished offset; next: offset after the highest received; both -1: unknown */
    int64_t base, next;
    int64_t restored; /* one past the highest offset whose slot was filled from a commit */
    uint64_t version;
    uint32_t span_max;
    uint32_t unfinished; /* number of unfinished offsets in [base, next) */
    uint32_t started;    /* number of unfinished offsets with attempts, also from next on */
    /* ring: slot index is offset modulo span_max; slots of offsets from next on hold entries of a
     * commit or of recovery */
    struct mr_ledger_slot slots[];
};

enum mr_status mr_offset_ledger_create(struct mr_offset_ledger **out, uint32_t span_max,
                                       struct mr_error *err)
{
    MR_ASSERT(span_max > 0 && span_max <= MR_LEDGER_SPAN_MAX);
    *out = NULL;
    struct mr_offset_ledger *ledger =
        calloc(1, sizeof *ledger + span_max * sizeof(struct mr_ledger_slot));
    if (!ledger) return mr_fail(err, MR_NOMEM, "no memory for %u ledger slots", span_max);
    ledger->span_max = span_max;
    ledger->base = ledger->next = -1;
    *out = ledger;
    return MR_OK;
}

void mr_offset_ledger_destroy(struct mr_offset_ledger *ledger)
{
    free(ledger);
}

void mr_offset_ledger_reset(struct mr_offset_ledger *ledger, int64_t offset)
{
    memset(ledger->slots, 0, ledger->span_max * sizeof ledger->slots[0]);
    ledger->base = ledger->next = ledger->restored = offset < 0 ? -1 : offset;
    ledger->unfinished = ledger->started = 0;
    ledger->version++;
}

struct mr_ledger_slot *mr_offset_ledger_slot(struct mr_offset_ledger *ledger, int64_t offset)
{
    MR_ASSERT(offset >= ledger->base && offset - ledger->base < (int64_t)ledger->span_max);
    return &ledger->slots[offset % (int64_t)ledger->span_max];
}

uint32_t mr_offset_ledger_extent(const struct mr_offset_ledger *ledger)
{
    int64_t end = ledger->next > ledger->restored ? ledger->next : ledger->restored;
    return (uint32_t)(end - ledger->base);
}

/* Whether the metadata of a ledger with this extent and this number of started records is certain
 * to fit: its head and lengths, one bit for each offset, and for each started record a distance and
 * three bytes. A distance takes one byte below 128, else two; at most extent / 128 are larger. */
static bool fits(uint32_t extent, uint32_t started)
{
    return HEAD_BYTES + extent / 8 + started * 4 + extent / 128 <= MR_LEDGER_METADATA_RAW_MAX;
}

uint32_t mr_offset_ledger_span(const struct mr_offset_ledger *ledger)
{
    return ledger->span_max;
}

static void finish_slot(struct mr_offset_ledger *ledger, struct mr_ledger_slot *slot)
{
    if (slot->attempts > 0 && !(slot->flags & MR_LEDGER_SLOT_FINISHED)) ledger->started--;
    slot->flags = MR_LEDGER_SLOT_FINISHED;
}

bool mr_offset_ledger_restore_slot(struct mr_offset_ledger *ledger, int64_t offset,
                                   struct mr_ledger_slot slot)
{
    struct mr_ledger_slot *own = mr_offset_ledger_slot(ledger, offset);
    if (own->flags & MR_LEDGER_SLOT_FINISHED) return false;
    if (offset >= ledger->restored) ledger->restored = offset + 1;
    if (own->attempts > 0) ledger->started--;
    *own = slot;
    if (slot.attempts == 0) return true;
    if (fits(mr_offset_ledger_extent(ledger), ledger->started + 1))
        ledger->started++;
    else
        *own = (struct mr_ledger_slot){0};
    return true;
}

/* Moves base up over the finished offsets and clears their slots. */
static void advance(struct mr_offset_ledger *ledger)
{
    while (ledger->base < ledger->next) {
        struct mr_ledger_slot *slot = mr_offset_ledger_slot(ledger, ledger->base);
        if (!(slot->flags & MR_LEDGER_SLOT_FINISHED)) return;
        *slot = (struct mr_ledger_slot){0};
        ledger->base++;
    }
}

void mr_offset_ledger_pass(struct mr_offset_ledger *ledger, int64_t offset)
{
    ledger->version++;
    if (ledger->base == ledger->next && offset - ledger->base >= (int64_t)ledger->span_max) {
        /* no slot filled from a commit is at or above `offset` */
        mr_offset_ledger_reset(ledger, offset);
        return;
    }
    for (; ledger->next < offset; ledger->next++)
        finish_slot(ledger, mr_offset_ledger_slot(ledger, ledger->next));
    advance(ledger);
}

/* Whether the ledger can receive the offset without moving base. */
static bool spans(const struct mr_offset_ledger *ledger, int64_t offset)
{
    const int64_t extent = offset + 1 - ledger->base;
    if (extent > (int64_t)ledger->span_max) return false;
    return extent <= (int64_t)mr_offset_ledger_extent(ledger) ||
           fits((uint32_t)extent, ledger->started);
}

enum mr_ledger_verdict mr_offset_ledger_receive(struct mr_offset_ledger *ledger, int64_t offset,
                                                struct mr_ledger_history *history)
{
    MR_ASSERT(offset >= 0);
    *history = (struct mr_ledger_history){0};
    if (ledger->base < 0) mr_offset_ledger_reset(ledger, offset);
    if (offset < ledger->base) return MR_LEDGER_BACKWARD;
    if (offset < ledger->next) return MR_LEDGER_SEEN;
    if (ledger->base != ledger->next && !spans(ledger, offset)) return MR_LEDGER_FULL;
    mr_offset_ledger_pass(ledger, offset); /* offsets between next and this one never arrive */
    struct mr_ledger_slot *slot = mr_offset_ledger_slot(ledger, offset);
    ledger->next = offset + 1;
    if (slot->flags & MR_LEDGER_SLOT_FINISHED) {
        advance(ledger);
        return MR_LEDGER_FINISHED;
    }
    *history = (struct mr_ledger_history){slot->attempts, slot->crashes,
                                          slot->flags & MR_LEDGER_SLOT_CRASHED,
                                          slot->flags & MR_LEDGER_SLOT_ALONE};
    ledger->unfinished++;
    return MR_LEDGER_NEW;
}

/* The slot of a record that was received and is not finished; NULL for any other offset. */
static struct mr_ledger_slot *unfinished_slot(struct mr_offset_ledger *ledger, int64_t offset)
{
    if (offset < ledger->base || offset >= ledger->next) return NULL;
    struct mr_ledger_slot *slot = mr_offset_ledger_slot(ledger, offset);
    return slot->flags & MR_LEDGER_SLOT_FINISHED ? NULL : slot;
}

#define RUN_FLAGS (MR_LEDGER_SLOT_RUNNING | MR_LEDGER_SLOT_ACCOMPANIED | MR_LEDGER_SLOT_APART)

bool mr_offset_ledger_may_start(struct mr_offset_ledger *ledger, int64_t offset)
{
    const struct mr_ledger_slot *slot = unfinished_slot(ledger, offset);
    return !slot || slot->attempts > 0 ||
           fits(mr_offset_ledger_extent(ledger), ledger->started + 1);
}

void mr_offset_ledger_start(struct mr_offset_ledger *ledger, int64_t offset, uint8_t notes)
{
    struct mr_ledger_slot *slot = unfinished_slot(ledger, offset);
    if (!slot || slot->flags & MR_LEDGER_SLOT_RUNNING) return;
    slot->flags &= (uint8_t) ~(RUN_FLAGS | MR_LEDGER_SLOT_CRASHED);
    slot->flags |= (uint8_t)(MR_LEDGER_SLOT_RUNNING | notes);
    if (slot->attempts == 0) ledger->started++;
    if (slot->attempts < UINT8_MAX) slot->attempts++;
    ledger->version++;
}

void mr_offset_ledger_accompany(struct mr_offset_ledger *ledger, int64_t offset)
{
    struct mr_ledger_slot *slot = unfinished_slot(ledger, offset);
    if (!slot) return;
    slot->flags |= MR_LEDGER_SLOT_ACCOMPANIED;
    ledger->version++;
}

void mr_offset_ledger_learn(struct mr_offset_ledger *ledger, int64_t offset,
                            struct mr_ledger_history history)
{
    struct mr_ledger_slot *slot = unfinished_slot(ledger, offset);
    if (!slot || slot->flags & MR_LEDGER_SLOT_RUNNING) return;
    if (!mr_offset_ledger_may_start(ledger, offset)) return;
    if (slot->attempts > 0) ledger->started--;
    if (history.attempts > 0) ledger->started++;
    *slot = (struct mr_ledger_slot){.attempts = history.attempts, .crashes = history.crashes};
    if (history.crashed) slot->flags |= MR_LEDGER_SLOT_CRASHED;
    if (history.alone) slot->flags |= MR_LEDGER_SLOT_ALONE;
    ledger->version++;
}

/* The worker that ran the slot's request has crashed. */
static void mark_crashed(struct mr_ledger_slot *slot)
{
    bool alone = slot->flags & MR_LEDGER_SLOT_APART || !(slot->flags & MR_LEDGER_SLOT_ACCOMPANIED);
    if (slot->crashes < UINT8_MAX) slot->crashes++;
    slot->flags = MR_LEDGER_SLOT_CRASHED;
    if (alone) slot->flags |= MR_LEDGER_SLOT_ALONE;
}

void mr_offset_ledger_take_over(struct mr_offset_ledger *ledger,
                                bool (*was_released)(void *context, int64_t offset,
                                                     uint8_t attempt),
                                void *context)
{
    for (int64_t offset = ledger->base; offset < ledger->restored; offset++) {
        struct mr_ledger_slot *slot = mr_offset_ledger_slot(ledger, offset);
        if (!(slot->flags & MR_LEDGER_SLOT_RUNNING)) continue;
        if (was_released && was_released(context, offset, slot->attempts))
            slot->flags &= (uint8_t)~RUN_FLAGS;
        else
            mark_crashed(slot);
        ledger->version++;
    }
}

void mr_offset_ledger_resume(struct mr_offset_ledger *ledger, int64_t offset)
{
    struct mr_ledger_slot *slot = unfinished_slot(ledger, offset);
    if (!slot || slot->flags & MR_LEDGER_SLOT_RUNNING) return;
    slot->flags |= MR_LEDGER_SLOT_RUNNING;
    ledger->version++;
}

void mr_offset_ledger_finish(struct mr_offset_ledger *ledger, int64_t offset)
{
    struct mr_ledger_slot *slot = unfinished_slot(ledger, offset);
    if (!slot) return;
    finish_slot(ledger, slot);
    ledger->unfinished--;
    ledger->version++;
    advance(ledger);
}

void mr_offset_ledger_found(struct mr_offset_ledger *ledger, int64_t offset)
{
    if (ledger->next < 0 || offset < ledger->next) return;
    if (!spans(ledger, offset)) return;
    struct mr_ledger_slot *slot = mr_offset_ledger_slot(ledger, offset);
    if (slot->flags & MR_LEDGER_SLOT_FINISHED) return;
    if (offset >= ledger->restored) ledger->restored = offset + 1;
    finish_slot(ledger, slot);
    ledger->version++;
}

bool mr_offset_ledger_is_listed(const struct mr_offset_ledger *ledger, int64_t offset)
{
    return offset >= ledger->next && offset < ledger->restored &&
           ledger->slots[offset % (int64_t)ledger->span_max].flags & MR_LEDGER_SLOT_FINISHED;
}

void mr_offset_ledger_forget(struct mr_offset_ledger *ledger)
{
    for (int64_t offset = ledger->next; offset < ledger->restored; offset++) {
        struct mr_ledger_slot *slot = mr_offset_ledger_slot(ledger, offset);
        finish_slot(ledger, slot); /* so that it is not treated as started */
        *slot = (struct mr_ledger_slot){0};
    }
    ledger->restored = ledger->next;
    ledger->version++;
}

void mr_offset_ledger_release(struct mr_offset_ledger *ledger, int64_t offset)
{
    struct mr_ledger_slot *slot = unfinished_slot(ledger, offset);
    if (!slot || !(slot->flags & MR_LEDGER_SLOT_RUNNING)) return;
    slot->flags &= (uint8_t)~MR_LEDGER_SLOT_RUNNING;
    ledger->version++;
}

int64_t mr_offset_ledger_base(const struct mr_offset_ledger *ledger)
{
    return ledger->base;
}

int64_t mr_offset_ledger_next(const struct mr_offset_ledger *ledger)
{
    return ledger->next;
}

bool mr_offset_ledger_has_room(const struct mr_offset_ledger *ledger)
{
    const uint32_t extent = mr_offset_ledger_extent(ledger);
    return ledger->next - ledger->base < (int64_t)(ledger->span_max - ledger->span_max / 4) &&
           (ledger->next < ledger->restored || fits(extent + 1, ledger->started));
}

uint32_t mr_offset_ledger_unfinished(const struct mr_offset_ledger *ledger)
{
    return ledger->unfinished;
}

uint64_t mr_offset_ledger_version(const struct mr_offset_ledger *ledger)
{
    return ledger->version;
}

void mr_offset_ledger_check(const struct mr_offset_ledger *ledger)
{
    MR_ASSERT(ledger->base <= ledger->next && ledger->next - ledger->base <= ledger->span_max);
    MR_ASSERT((ledger->base < 0) == (ledger->next < 0));
    uint32_t unfinished = 0;
    for (int64_t offset = ledger->base; offset < ledger->next; offset++) {
        const struct mr_ledger_slot *slot = &ledger->slots[offset % (int64_t)ledger->span_max];
        bool finished = slot->flags & MR_LEDGER_SLOT_FINISHED;
        MR_ASSERT(offset != ledger->base || !finished);
        MR_ASSERT(!(finished && slot->flags & MR_LEDGER_SLOT_RUNNING));
        if (!finished) unfinished++;
    }
    MR_ASSERT(unfinished == ledger->unfinished);
    uint32_t started = 0;
    for (uint32_t i = 0; i < ledger->span_max; i++)
        started +=
            ledger->slots[i].attempts > 0 && !(ledger->slots[i].flags & MR_LEDGER_SLOT_FINISHED);
    MR_ASSERT(started == ledger->started);
}
