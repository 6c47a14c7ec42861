#include "kvcache/remote/key_memory.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

#define WAYS 4u

struct entry {
    unsigned char key[MR_HASH_BYTES];
    uint64_t expires_ns; /* 0: the entry is empty */
};

struct mr_key_memory {
    uint32_t mask; /* number of buckets, a power of two, less 1 */
    uint64_t keep_ns;
    struct entry *entries; /* [(mask + 1) * WAYS] entries, WAYS in each bucket */
};

enum mr_status mr_key_memory_create(struct mr_key_memory **out, uint32_t count_max,
                                    uint64_t keep_ns, struct mr_error *err)
{
    MR_ASSERT(count_max > 0 && count_max <= 1u << 28);
    uint32_t buckets = 1;
    *out = NULL;
    while (buckets * WAYS < count_max)
        buckets *= 2;
    struct mr_key_memory *memory = calloc(1, sizeof *memory);
    struct entry *entries = calloc((size_t)buckets * WAYS, sizeof *entries);
    if (!memory || !entries) {
        free(memory);
        free(entries);
        return mr_fail(err, MR_NOMEM, "no memory for %u keys", count_max);
    }
    *memory = (struct mr_key_memory){.mask = buckets - 1, .keep_ns = keep_ns, .entries = entries};
    *out = memory;
    return MR_OK;
}

void mr_key_memory_destroy(struct mr_key_memory *memory)
{
    if (!memory) return;
    free(memory->entries);
    free(memory);
}

/* The bucket of a key. A key is a hash digest, so any of its bytes select the bucket evenly. */
static struct entry *bucket_of(const struct mr_key_memory *memory, const unsigned char *key)
{
    uint32_t number;
    memcpy(&number, key, sizeof number);
    return memory->entries + (size_t)(number & memory->mask) * WAYS;
}

static struct entry *find(const struct mr_key_memory *memory, const unsigned char *key)
{
    struct entry *bucket = bucket_of(memory, key);
    for (uint32_t i = 0; i < WAYS; i++)
        if (bucket[i].expires_ns && memcmp(bucket[i].key, key, MR_HASH_BYTES) == 0)
            return &bucket[i];
    return NULL;
}

void mr_key_memory_add(struct mr_key_memory *memory, const unsigned char key[MR_HASH_BYTES],
                       uint64_t now_ns)
{
    struct entry *entry = find(memory, key), *bucket = bucket_of(memory, key);
    if (!entry) {
        entry = bucket;
        for (uint32_t i = 1; i < WAYS; i++)
            if (bucket[i].expires_ns < entry->expires_ns) entry = &bucket[i];
        memcpy(entry->key, key, MR_HASH_BYTES);
    }
    entry->expires_ns = now_ns + memory->keep_ns;
}

bool mr_key_memory_has(const struct mr_key_memory *memory, const unsigned char key[MR_HASH_BYTES],
                       uint64_t now_ns)
{
    const struct entry *entry = find(memory, key);
    return entry && entry->expires_ns > now_ns;
}

void mr_key_memory_remove(struct mr_key_memory *memory, const unsigned char key[MR_HASH_BYTES])
{
    struct entry *entry = find(memory, key);
    if (entry) entry->expires_ns = 0;
}

void mr_key_memory_clear(struct mr_key_memory *memory)
{
    memset(memory->entries, 0, ((size_t)memory->mask + 1) * WAYS * sizeof *memory->entries);
}
