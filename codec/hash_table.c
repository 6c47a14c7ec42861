#include "codec/hash_table.h"

#include "codec/check.h"

#include <stdlib.h>

/* Chains of a larger table would take more memory than they save time. */
#define CHAINS_MAX ((uint32_t)1 << 20)

static struct mr_hash_entry **chain_of(const struct mr_hash_table *table, uint64_t hash)
{
    return &table->chains[(hash ^ hash >> 32) & table->mask];
}

bool mr_hash_table_create(struct mr_hash_table *table, uint32_t expected)
{
    uint32_t chains = 16;
    while (chains < expected && chains < CHAINS_MAX)
        chains *= 2;
    *table = (struct mr_hash_table){.mask = chains - 1};
    table->chains = calloc(chains, sizeof(struct mr_hash_entry *));
    return table->chains != NULL;
}

void mr_hash_table_destroy(struct mr_hash_table *table)
{
    free(table->chains);
    *table = (struct mr_hash_table){0};
}

struct mr_hash_entry *
mr_hash_table_find(const struct mr_hash_table *table, uint64_t hash,
                   bool (*is)(const struct mr_hash_entry *entry, const void *key), const void *key)
{
    struct mr_hash_entry *entry = *chain_of(table, hash);
    while (entry && (entry->hash != hash || !is(entry, key)))
        entry = entry->next;
    return entry;
}

void mr_hash_table_add(struct mr_hash_table *table, struct mr_hash_entry *entry, uint64_t hash)
{
    struct mr_hash_entry **chain = chain_of(table, hash);
    *entry = (struct mr_hash_entry){.next = *chain, .hash = hash};
    *chain = entry;
    table->count++;
}

void mr_hash_table_remove(struct mr_hash_table *table, struct mr_hash_entry *entry)
{
    struct mr_hash_entry **link = chain_of(table, entry->hash);
    while (*link && *link != entry)
        link = &(*link)->next;
    MR_ASSERT(*link == entry);
    *link = entry->next;
    entry->next = NULL;
    table->count--;
}

void mr_hash_table_each(struct mr_hash_table *table,
                        void (*visit)(void *context, struct mr_hash_entry *entry), void *context)
{
    for (uint32_t i = 0; i <= table->mask; i++)
        for (struct mr_hash_entry *entry = table->chains[i], *next; entry; entry = next) {
            next = entry->next;
            visit(context, entry);
        }
}

void mr_hash_table_check(const struct mr_hash_table *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i <= table->mask; i++)
        for (const struct mr_hash_entry *entry = table->chains[i]; entry; entry = entry->next) {
            MR_ASSERT(chain_of(table, entry->hash) == &table->chains[i]);
            count++;
        }
    MR_ASSERT(count == table->count);
}
