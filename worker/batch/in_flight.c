#include "worker/batch/in_flight.h"

#include "codec/check.h"
#include "codec/hash.h"

#include <stdlib.h>
#include <string.h>

static struct mr_batch_flight_entry *item_of(struct mr_hash_entry *entry)
{
    return MR_HASH_ITEM(entry, struct mr_batch_flight_entry, hash);
}

static uint64_t hash_of(uint64_t line)
{
    return mr_hash_bytes(MR_HASH_START, &line, sizeof line);
}

static bool is_line(const struct mr_hash_entry *entry, const void *key)
{
    return ((const struct mr_batch_flight_entry *)(const void *)entry)->line ==
           *(const uint64_t *)key;
}

bool mr_batch_flight_create(struct mr_batch_flight *flight, uint32_t expected)
{
    _Static_assert(offsetof(struct mr_batch_flight_entry, hash) == 0, "is_line casts the entry");
    *flight = (struct mr_batch_flight){0};
    return mr_hash_table_create(&flight->table, expected);
}

static void remove_visited(void *context, struct mr_hash_entry *entry)
{
    mr_batch_flight_remove(context, item_of(entry));
}

void mr_batch_flight_destroy(struct mr_batch_flight *flight)
{
    if (flight->table.chains) mr_hash_table_each(&flight->table, remove_visited, flight);
    mr_hash_table_destroy(&flight->table);
    *flight = (struct mr_batch_flight){0};
}

struct mr_batch_flight_entry *mr_batch_flight_find(const struct mr_batch_flight *flight,
                                                   uint64_t line)
{
    struct mr_hash_entry *entry = mr_hash_table_find(&flight->table, hash_of(line), is_line, &line);
    return entry ? item_of(entry) : NULL;
}

struct mr_batch_flight_entry *mr_batch_flight_add(struct mr_batch_flight *flight, uint64_t line)
{
    struct mr_batch_flight_entry *entry = calloc(1, sizeof *entry);
    if (!entry) return NULL;
    entry->line = line;
    entry->offset = entry->result_offset = -1;
    mr_hash_table_add(&flight->table, &entry->hash, hash_of(line));
    flight->count++;
    return entry;
}

bool mr_batch_flight_load(struct mr_batch_flight *flight, struct mr_batch_flight_entry *entry,
                          struct mr_text text)
{
    MR_ASSERT(!entry->text);
    entry->text = malloc(text.length + 1);
    if (!entry->text) return false;
    memcpy(entry->text, text.bytes, text.length);
    entry->length = text.length;
    flight->bytes += text.length;
    return true;
}

void mr_batch_flight_wait(struct mr_batch_flight *flight, struct mr_batch_flight_entry *entry,
                          uint64_t due_ns)
{
    const bool is_listed = entry->due_ns > 0;
    entry->due_ns = due_ns;
    if (is_listed == (due_ns > 0)) return;
    if (due_ns > 0) {
        entry->previous = NULL;
        entry->next = flight->waiting;
        if (entry->next) entry->next->previous = entry;
        flight->waiting = entry;
        return;
    }
    if (entry->previous)
        entry->previous->next = entry->next;
    else
        flight->waiting = entry->next;
    if (entry->next) entry->next->previous = entry->previous;
}

void mr_batch_flight_remove(struct mr_batch_flight *flight, struct mr_batch_flight_entry *entry)
{
    mr_batch_flight_wait(flight, entry, 0);
    mr_hash_table_remove(&flight->table, &entry->hash);
    flight->count--;
    flight->bytes -= entry->length;
    free(entry->text);
    free(entry);
}

struct visitor {
    void (*visit)(void *context, struct mr_batch_flight_entry *entry);
    void *context;
};

static void visit_one(void *context, struct mr_hash_entry *entry)
{
    const struct visitor *visitor = context;
    visitor->visit(visitor->context, item_of(entry));
}

void mr_batch_flight_each(struct mr_batch_flight *flight,
                          void (*visit)(void *context, struct mr_batch_flight_entry *entry),
                          void *context)
{
    struct visitor visitor = {visit, context};
    mr_hash_table_each(&flight->table, visit_one, &visitor);
}

static void add_up(void *context, struct mr_batch_flight_entry *entry)
{
    struct mr_batch_flight *sum = context;
    sum->count++;
    sum->bytes += entry->length;
}

void mr_batch_flight_check(struct mr_batch_flight *flight)
{
    struct mr_batch_flight sum = {0};
    mr_hash_table_check(&flight->table);
    mr_batch_flight_each(flight, add_up, &sum);
    MR_ASSERT(sum.count == flight->count && sum.bytes == flight->bytes);
    for (const struct mr_batch_flight_entry *entry = flight->waiting; entry; entry = entry->next) {
        MR_ASSERT(entry->due_ns > 0);
        MR_ASSERT(!entry->next || entry->next->previous == entry);
    }
}
