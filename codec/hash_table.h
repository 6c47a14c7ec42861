/* hash_table - an intrusive hash table with a fixed number of chains. Modules that find their
 * entries by an id, a key or a name use it.
 *
 * An entry is a struct of the caller with a struct mr_hash_entry in it; the table links entries and
 * never copies or frees them. The caller computes the hash (codec/hash.h) and compares the keys, so
 * the table is independent of both. _create chooses the number of chains for the expected number of
 * entries, rounded up to a power of two. More entries only make the chains longer; the caller
 * limits how many there are.
 *
 * Owner:  one thread at a time, or the caller's lock. Every call except _each and _check is O(1) on
 *         average.
 * Memory: 8 bytes for each chain, allocated by _create. Errors: only _create can fail. */
#ifndef MR_CODEC_HASH_TABLE_H
#define MR_CODEC_HASH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct mr_hash_entry {
    struct mr_hash_entry *next; /* in the same chain */
    uint64_t hash;
};

struct mr_hash_table {
    struct mr_hash_entry **chains; /* [mask + 1] first entry of each chain */
    uint32_t mask, count;
};

/* The struct of type `type` whose member `member` is the entry. */
#define MR_HASH_ITEM(entry, type, member)                                                          \
    ((type *)(void *)((char *)(entry) - __builtin_offsetof(type, member)))

/* Makes an empty table for about `expected` entries; false when memory is out. */
bool mr_hash_table_create(struct mr_hash_table *table, uint32_t expected);
/* Frees the chains. The caller still owns entries that are in the table. A zeroed table may be
 * destroyed. */
void mr_hash_table_destroy(struct mr_hash_table *table);

/* The entry with this hash for which `is` returns true; NULL when there is none. key is passed on
 * to `is`. */
struct mr_hash_entry *
mr_hash_table_find(const struct mr_hash_table *table, uint64_t hash,
                   bool (*is)(const struct mr_hash_entry *entry, const void *key), const void *key);
/* Adds an entry. The caller ensures that no entry has the same key. */
void mr_hash_table_add(struct mr_hash_table *table, struct mr_hash_entry *entry, uint64_t hash);
/* Removes an entry, which must be in the table. */
void mr_hash_table_remove(struct mr_hash_table *table, struct mr_hash_entry *entry);
/* Calls visit for every entry, in no particular order. visit may remove the entry that it gets. */
void mr_hash_table_each(struct mr_hash_table *table,
                        void (*visit)(void *context, struct mr_hash_entry *entry), void *context);

/* Asserts that every entry is in the chain of its hash and that count is right. */
void mr_hash_table_check(const struct mr_hash_table *table);

#endif
