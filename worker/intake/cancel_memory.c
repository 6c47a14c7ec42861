#include "worker/intake/cancel_memory.h"

#include "codec/check.h"
#include "codec/hash.h"

#include <stdlib.h>
#include <string.h>

/* One cancelled request id. The ids are in a ring in order of arrival and linked into hash chains.
 * An id that is taken or added again leaves an empty place in the ring, skipped when it becomes the
 * oldest. */
struct entry {
    char id[MR_ID_BYTES_MAX];
    uint8_t length; /* length of the id in bytes; 0: this place of the ring is empty */
    uint64_t until_ns;
    int64_t stamp_ms;
    struct entry *next;
};

struct mr_cancel_memory {
    uint32_t count_max, mask, oldest, used, count;
    uint64_t keep_ns;
    struct entry **buckets;
    struct entry entries[];
};

enum mr_status mr_cancel_memory_create(struct mr_cancel_memory **out, uint32_t count_max,
                                       uint64_t keep_ns, struct mr_error *err)
{
    MR_ASSERT(count_max > 0);
    uint32_t buckets = 16;
    *out = NULL;
    while (buckets < count_max)
        buckets *= 2;
    struct mr_cancel_memory *memory =
        calloc(1, sizeof *memory + count_max * sizeof memory->entries[0]);
    if (!memory) goto fail;
    memory->buckets = calloc(buckets, sizeof *memory->buckets);
    if (!memory->buckets) goto fail;
    memory->count_max = count_max;
    memory->mask = buckets - 1;
    memory->keep_ns = keep_ns;
    *out = memory;
    return MR_OK;
fail:
    free(memory);
    return mr_fail(err, MR_NOMEM, "no memory for %u cancelled ids", count_max);
}

void mr_cancel_memory_destroy(struct mr_cancel_memory *memory)
{
    if (!memory) return;
    free(memory->buckets);
    free(memory);
}

/* Returns the pointer that points to the id's entry, or the pointer with value NULL at the end of
 * the id's hash chain. */
static struct entry **find(struct mr_cancel_memory *memory, const char *id, size_t length)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, id, length);
    struct entry **link = &memory->buckets[hash & memory->mask];
    while (*link && ((*link)->length != length || memcmp((*link)->id, id, length) != 0))
        link = &(*link)->next;
    return link;
}

static void forget(struct mr_cancel_memory *memory, struct entry **link)
{
    struct entry *entry = *link;
    *link = entry->next;
    *entry = (struct entry){0};
    memory->count--;
}

/* Removes the oldest id of the ring. */
static void pass_oldest(struct mr_cancel_memory *memory)
{
    struct entry *entry = &memory->entries[memory->oldest];
    if (entry->length > 0) forget(memory, find(memory, entry->id, entry->length));
    memory->oldest = (memory->oldest + 1) % memory->count_max;
    memory->used--;
}

void mr_cancel_memory_add(struct mr_cancel_memory *memory, struct mr_text id, int64_t stamp_ms,
                          uint64_t now_ns)
{
    if (id.length == 0 || id.length > MR_ID_BYTES_MAX) return;
    struct entry **known = find(memory, id.bytes, id.length);
    if (*known) forget(memory, known);
    while (memory->used > 0) {
        const struct entry *oldest = &memory->entries[memory->oldest];
        if (oldest->length > 0 && oldest->until_ns > now_ns && memory->used < memory->count_max)
            break;
        pass_oldest(memory);
    }
    struct entry *entry = &memory->entries[(memory->oldest + memory->used) % memory->count_max];
    struct entry **link = find(memory, id.bytes, id.length);
    memcpy(entry->id, id.bytes, id.length);
    entry->length = (uint8_t)id.length;
    entry->stamp_ms = stamp_ms;
    entry->until_ns = now_ns + memory->keep_ns;
    entry->next = NULL;
    *link = entry;
    memory->used++;
    memory->count++;
}

bool mr_cancel_memory_take(struct mr_cancel_memory *memory, struct mr_text id, int64_t stamp_ms,
                           uint64_t now_ns)
{
    struct entry **link = find(memory, id.bytes, id.length);
    if (id.length == 0 || !*link) return false;
    int64_t cancelled_ms = (*link)->stamp_ms;
    bool fresh = (*link)->until_ns > now_ns;
    bool newer = stamp_ms > 0 && cancelled_ms > 0 && stamp_ms > cancelled_ms + MR_CANCEL_SKEW_MS;
    forget(memory, link);
    return fresh && !newer;
}

uint32_t mr_cancel_memory_count(const struct mr_cancel_memory *memory)
{
    return memory->count;
}

void mr_cancel_memory_check(const struct mr_cancel_memory *memory)
{
    uint32_t chained = 0, placed = 0;
    for (uint32_t i = 0; i <= memory->mask; i++)
        for (const struct entry *entry = memory->buckets[i]; entry; entry = entry->next)
            chained++;
    for (uint32_t i = 0; i < memory->count_max; i++)
        if (memory->entries[i].length > 0) placed++;
    MR_ASSERT(chained == memory->count && placed == memory->count);
    MR_ASSERT(memory->count <= memory->used && memory->used <= memory->count_max);
}
