#include "worker/intake/ticket_table.h"

#include "codec/check.h"
#include "codec/hash_table.h"
#include "worker/intake/id_memory.h"

#include <stdlib.h>

struct mr_ticket_table {
    uint32_t count_max;
    struct mr_hash_table table;
};

struct key {
    uint32_t tenant_index;
    struct mr_text id;
};

static struct mr_ticket *ticket_of(const struct mr_hash_entry *entry)
{
    return MR_HASH_ITEM(entry, struct mr_ticket, intake.table_entry);
}

static bool has_key(const struct mr_hash_entry *entry, const void *context)
{
    const struct mr_ticket *ticket = ticket_of(entry);
    const struct key *key = context;
    return ticket->tenant_index == key->tenant_index && mr_text_is(key->id, ticket->id);
}

enum mr_status mr_ticket_table_create(struct mr_ticket_table **out, uint32_t count_max,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_ticket_table *table = calloc(1, sizeof *table);
    if (!table || !mr_hash_table_create(&table->table, count_max)) {
        free(table);
        return mr_fail(err, MR_NOMEM, "no memory for %u tickets", count_max);
    }
    table->count_max = count_max;
    *out = table;
    return MR_OK;
}

void mr_ticket_table_destroy(struct mr_ticket_table *table)
{
    if (!table) return;
    MR_ASSERT(table->table.count == 0);
    mr_hash_table_destroy(&table->table);
    free(table);
}

void mr_ticket_table_add(struct mr_ticket_table *table, struct mr_ticket *ticket)
{
    struct key key = {ticket->tenant_index, mr_ticket_id(ticket)};
    MR_ASSERT(table->table.count < table->count_max);
    MR_ASSERT(!mr_ticket_table_find(table, key.tenant_index, key.id));
    mr_hash_table_add(&table->table, &ticket->intake.table_entry,
                      mr_id_hash(key.tenant_index, key.id));
}

struct mr_ticket *mr_ticket_table_find(const struct mr_ticket_table *table, uint32_t tenant_index,
                                       struct mr_text id)
{
    struct key key = {tenant_index, id};
    struct mr_hash_entry *entry =
        mr_hash_table_find(&table->table, mr_id_hash(key.tenant_index, key.id), has_key, &key);
    return entry ? ticket_of(entry) : NULL;
}

void mr_ticket_table_remove(struct mr_ticket_table *table, struct mr_ticket *ticket)
{
    mr_hash_table_remove(&table->table, &ticket->intake.table_entry);
}

uint32_t mr_ticket_table_count(const struct mr_ticket_table *table)
{
    return table->table.count;
}

struct visitor {
    void (*visit)(void *context, struct mr_ticket *ticket);
    void *context;
};

static void visit_entry(void *context, struct mr_hash_entry *entry)
{
    const struct visitor *visitor = context;
    visitor->visit(visitor->context, ticket_of(entry));
}

void mr_ticket_table_each(struct mr_ticket_table *table,
                          void (*visit)(void *context, struct mr_ticket *ticket), void *context)
{
    mr_hash_table_each(&table->table, visit_entry, &(struct visitor){visit, context});
}

void mr_ticket_table_check(const struct mr_ticket_table *table)
{
    mr_hash_table_check(&table->table);
    MR_ASSERT(table->table.count <= table->count_max);
}
