#include "worker/intake/ticket_table.h"

#include "codec/check.h"
#include "codec/hash.h"

#include <stdlib.h>

struct mr_ticket_table {
    uint32_t count, count_max, mask;
    struct mr_ticket *buckets[];
};

static struct mr_ticket **bucket_of(const struct mr_ticket_table *table, uint32_t tenant_index,
                                    struct mr_text id)
{
    uint64_t hash = mr_hash_bytes(MR_HASH_START, id.bytes, id.length);
    hash = mr_hash_bytes(hash, &tenant_index, sizeof tenant_index);
    return (struct mr_ticket **)&table->buckets[hash & table->mask];
}

enum mr_status mr_ticket_table_create(struct mr_ticket_table **out, uint32_t count_max,
                                      struct mr_error *err)
{
    uint32_t buckets = 16;
    *out = NULL;
    while (buckets < count_max && buckets < 1u << 20)
        buckets *= 2;
    struct mr_ticket_table *table = calloc(1, sizeof *table + buckets * sizeof table->buckets[0]);
    if (!table) return mr_fail(err, MR_NOMEM, "no memory for %u tickets", count_max);
    table->count_max = count_max;
    table->mask = buckets - 1;
    *out = table;
    return MR_OK;
}

void mr_ticket_table_destroy(struct mr_ticket_table *table)
{
    if (!table) return;
    MR_ASSERT(table->count == 0);
    free(table);
}

void mr_ticket_table_add(struct mr_ticket_table *table, struct mr_ticket *ticket)
{
    MR_ASSERT(table->count < table->count_max);
    MR_ASSERT(!mr_ticket_table_find(table, ticket->tenant_index, mr_ticket_id(ticket)));
    struct mr_ticket **bucket = bucket_of(table, ticket->tenant_index, mr_ticket_id(ticket));
    ticket->intake.next = *bucket;
    *bucket = ticket;
    table->count++;
}

struct mr_ticket *mr_ticket_table_find(const struct mr_ticket_table *table, uint32_t tenant_index,
                                       struct mr_text id)
{
    struct mr_ticket *ticket = *bucket_of(table, tenant_index, id);
    while (ticket && (ticket->tenant_index != tenant_index || !mr_text_is(id, ticket->id)))
        ticket = ticket->intake.next;
    return ticket;
}

void mr_ticket_table_remove(struct mr_ticket_table *table, struct mr_ticket *ticket)
{
    struct mr_ticket **link = bucket_of(table, ticket->tenant_index, mr_ticket_id(ticket));
    while (*link && *link != ticket)
        link = &(*link)->intake.next;
    MR_ASSERT(*link == ticket);
    *link = ticket->intake.next;
    ticket->intake.next = NULL;
    table->count--;
}

uint32_t mr_ticket_table_count(const struct mr_ticket_table *table)
{
    return table->count;
}

void mr_ticket_table_each(struct mr_ticket_table *table,
                          void (*visit)(void *context, struct mr_ticket *ticket), void *context)
{
    for (uint32_t i = 0; i <= table->mask; i++)
        for (struct mr_ticket *ticket = table->buckets[i], *next; ticket; ticket = next) {
            next = ticket->intake.next;
            visit(context, ticket);
        }
}

void mr_ticket_table_check(const struct mr_ticket_table *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i <= table->mask; i++)
        for (const struct mr_ticket *ticket = table->buckets[i]; ticket;
             ticket = ticket->intake.next) {
            MR_ASSERT(bucket_of(table, ticket->tenant_index, mr_ticket_id(ticket)) ==
                      &table->buckets[i]);
            count++;
        }
    MR_ASSERT(count == table->count && count <= table->count_max);
}
