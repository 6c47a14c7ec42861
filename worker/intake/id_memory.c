#include "worker/intake/id_memory.h"

#include "codec/check.h"
#include "codec/hash.h"
#include "codec/hash_table.h"

#include <stdlib.h>
#include <string.h>

/* An id and its note. The entries are in a ring in order of arrival and linked into hash chains. An
 * id that is removed or stored again leaves an empty place in the ring, which is skipped when it
 * becomes the oldest. */
struct entry {
    char id[MR_ID_BYTES_MAX];
    uint8_t length; /* length of the id in bytes; 0: this place of the ring is empty */
    uint32_t tenant_index;
    unsigned char note[MR_ID_NOTE_BYTES];
    uint64_t until_ns;
    struct mr_hash_entry link;
};

struct mr_id_memory {
    uint32_t count_max, oldest, used;
    uint64_t keep_ns;
    struct mr_hash_table table;
    struct entry entries[];
};

enum mr_status mr_id_memory_create(struct mr_id_memory **out, uint32_t count_max, uint64_t keep_ns,
                                   struct mr_error *err)
{
    MR_ASSERT(count_max > 0);
    *out = NULL;
    struct mr_id_memory *memory = calloc(1, sizeof *memory + count_max * sizeof memory->entries[0]);
    if (!memory || !mr_hash_table_create(&memory->table, count_max)) goto fail;
    memory->count_max = count_max;
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
    mr_hash_table_destroy(&memory->table);
    free(memory);
}

struct key {
    uint32_t tenant_index;
    struct mr_text id;
};

static struct entry *entry_of(const struct mr_hash_entry *link)
{
    return MR_HASH_ITEM(link, struct entry, link);
}

uint64_t mr_id_hash(uint32_t tenant_index, struct mr_text id)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, id.bytes, id.length);
    return mr_hash_bytes(hash, &tenant_index, sizeof tenant_index);
}

static bool has_key(const struct mr_hash_entry *link, const void *context)
{
    const struct entry *entry = entry_of(link);
    const struct key *key = context;
    return entry->length == key->id.length && entry->tenant_index == key->tenant_index &&
           memcmp(entry->id, key->id.bytes, key->id.length) == 0;
}

/* The entry of the id; NULL when there is none. */
static struct entry *find(const struct mr_id_memory *memory, uint32_t tenant_index,
                          struct mr_text id)
{
    struct key key = {tenant_index, id};
    struct mr_hash_entry *link =
        mr_hash_table_find(&memory->table, mr_id_hash(tenant_index, id), has_key, &key);
    return link ? entry_of(link) : NULL;
}

static void forget(struct mr_id_memory *memory, struct entry *entry)
{
    mr_hash_table_remove(&memory->table, &entry->link);
    *entry = (struct entry){0};
}

/* Removes the oldest id of the ring. */
static void remove_oldest(struct mr_id_memory *memory)
{
    struct entry *entry = &memory->entries[memory->oldest];
    if (entry->length > 0) forget(memory, entry);
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
    memcpy(entry->id, id.bytes, id.length);
    memcpy(entry->note, note, MR_ID_NOTE_BYTES);
    entry->length = (uint8_t)id.length;
    entry->tenant_index = tenant_index;
    entry->until_ns = now_ns + memory->keep_ns;
    mr_hash_table_add(&memory->table, &entry->link, mr_id_hash(tenant_index, id));
    memory->used++;
}

bool mr_id_memory_get(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id,
                      unsigned char note[MR_ID_NOTE_BYTES], uint64_t now_ns)
{
    if (!is_id(id)) return false;
    const struct entry *entry = find(memory, tenant_index, id);
    if (!entry || entry->until_ns <= now_ns) return false;
    memcpy(note, entry->note, MR_ID_NOTE_BYTES);
    return true;
}

void mr_id_memory_remove(struct mr_id_memory *memory, uint32_t tenant_index, struct mr_text id)
{
    if (!is_id(id)) return;
    struct entry *entry = find(memory, tenant_index, id);
    if (entry) forget(memory, entry);
}

uint32_t mr_id_memory_count(const struct mr_id_memory *memory)
{
    return memory->table.count;
}

void mr_id_memory_check(const struct mr_id_memory *memory)
{
    uint32_t placed = 0;
    mr_hash_table_check(&memory->table);
    for (uint32_t i = 0; i < memory->count_max; i++)
        if (memory->entries[i].length > 0) placed++;
    MR_ASSERT(placed == memory->table.count && placed <= memory->used);
    MR_ASSERT(memory->used <= memory->count_max);
}
