#include "worker/intake/id_memory.h"

#include "codec/check.h"
#include "codec/hash.h"

#include <stdlib.h>
#include <string.h>

/* The note of one id. The entries are in a ring in order of arrival and linked into hash chains. An
 * id that is removed or stored again leaves an empty place in the ring, which is skipped when it
 * becomes the oldest. */
struct entry {
    char id[MR_ID_BYTES_MAX];
    uint8_t length; /* length of the id in bytes; 0: this place of the ring is empty */
    uint32_t tenant_index;
    unsigned char note[MR_ID_NOTE_BYTES];
    uint64_t until_ns;
    struct entry *next;
};

struct mr_id_memory {
    uint32_t count_max, mask, oldest, used, count;
    uint64_t keep_ns;
    struct entry **buckets;
    struct entry entries[];
};

enum mr_status mr_id_memory_create(struct mr_id_memory **out, uint32_t count_max, uint64_t keep_ns,
                                   struct mr_error *err)
{
    MR_ASSERT(count_max > 0);
    uint32_t buckets = 16;
    *out = NULL;
    while (buckets < count_max)
        buckets *= 2;
    struct mr_id_memory *memory = calloc(1, sizeof *memory + count_max * sizeof memory->entries[0]);
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
    return mr_fail(err, MR_NOMEM, "no memory for %u request ids", count_max);
}

void mr_id_memory_destroy(struct mr_id_memory *memory)
{
    if (!memory) return;
    free(memory->buckets);
    free(memory);
}

static bool has_id(const struct entry *entry, uint32_t tenant_index, struct mr_text id)
{
    return entry->length == id.length && entry->tenant_index == tenant_index &&
           memcmp(entry->id, id.bytes, id.length) == 0;
}

/* Returns the pointer that points to the id's entry, or the pointer with value NULL at the end of
 * the id's hash chain. */
static struct entry **find(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, id.bytes, id.length);
    hash = mr_hash_bytes(hash, &tenant_index, sizeof tenant_index);
    struct entry **link = &memory->buckets[hash & memory->mask];
    while (*link && !has_id(*link, tenant_index, id))
        link = &(*link)->next;
    return link;
}

static void forget(struct mr_id_memory *memory, struct entry **link)
{
    struct entry *entry = *link;
    *link = entry->next;
    *entry = (struct entry){0};
    memory->count--;
}

/* Removes the oldest id of the ring. */
static void remove_oldest(struct mr_id_memory *memory)
{
    struct entry *entry = &memory->entries[memory->oldest];
    struct mr_text id = {entry->id, entry->length};
    if (entry->length > 0) forget(memory, find(memory, entry->tenant_index, id));
    memory->oldest = (memory->oldest + 1) % memory->count_max;
    memory->used--;
}

static bool is_id(struct mr_text id)
{
    return id.length > 0 && id.length <= MR_ID_BYTES_MAX;
}

void mr_id_memory_put(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                      const unsigned char note[MR_ID_NOTE_BYTES], uint64_t now_ns)
{
    if (!is_id(id)) return;
    mr_id_memory_remove(memory, tenant_index, id);
    while (memory->used > 0) {
        const struct entry *oldest = &memory->entries[memory->oldest];
        if (oldest->length > 0 && oldest->until_ns > now_ns && memory->used < memory->count_max)
            break;
        remove_oldest(memory);
    }
    struct entry *entry = &memory->entries[(memory->oldest + memory->used) % memory->count_max];
    struct entry **link = find(memory, tenant_index, id);
    memcpy(entry->id, id.bytes, id.length);
    memcpy(entry->note, note, MR_ID_NOTE_BYTES);
    entry->length = (uint8_t)id.length;
    entry->tenant_index = tenant_index;
    entry->until_ns = now_ns + memory->keep_ns;
    entry->next = NULL;
    *link = entry;
    memory->used++;
    memory->count++;
}

bool mr_id_memory_get(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                      unsigned char note[MR_ID_NOTE_BYTES], uint64_t now_ns)
{
    if (!is_id(id)) return false;
    const struct entry *entry = *find(memory, tenant_index, id);
    if (!entry || entry->until_ns <= now_ns) return false;
    memcpy(note, entry->note, MR_ID_NOTE_BYTES);
    return true;
}

void mr_id_memory_remove(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id)
{
    if (!is_id(id)) return;
    struct entry **link = find(memory, tenant_index, id);
    if (*link) forget(memory, link);
}

uint32_t mr_id_memory_count(const struct mr_id_memory *memory)
{
    return memory->count;
}

void mr_id_memory_check(const struct mr_id_memory *memory)
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
