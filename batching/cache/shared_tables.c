#include "batching/cache/shared_tables.h"

#include "codec/check.h"

static bool is_used(const struct mr_shared_cache *shared, const struct mr_block_table *table)
{
    for (uint32_t i = 0; i < MR_LOADS_MAX; i++)
        if (shared->loads[i].in_use && shared->loads[i].table == table) return true;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++)
        if (shared->stores[i].in_use && shared->stores[i].table == table) return true;
    return false;
}

/* Index of the table in shared->tables; table_count when the shared cache does not own it. */
static uint32_t find_table(const struct mr_shared_cache *shared, const struct mr_block_table *table)
{
    uint32_t i = 0;
    while (i < shared->table_count && shared->tables[i] != table)
        i++;
    return i;
}

bool mr_shared_tables_take_over(struct mr_shared_cache *shared, struct mr_block_table *table)
{
    if (!is_used(shared, table)) return false;
    MR_ASSERT(shared->table_count < MR_SHARED_TABLES_MAX);
    shared->tables[shared->table_count++] = table;
    return true;
}

bool mr_shared_tables_reclaim(struct mr_shared_cache *shared)
{
    const struct mr_tier *tier = shared->options.tier;
    if (shared->table_count == 0) return false;
    shared->reclaiming = true;
    for (uint32_t i = 0; i < MR_STORES_MAX; i++) {
        struct mr_store_slot *store = &shared->stores[i];
        if (!store->in_use || store->abandoned) continue;
        if (find_table(shared, store->table) == shared->table_count) continue;
        store->abandoned = true;
        tier->abandon(tier->context, store->ticket);
    }
    return true;
}

void mr_shared_tables_done(struct mr_shared_cache *shared, struct mr_block_table *table)
{
    uint32_t i = find_table(shared, table);
    if (i == shared->table_count || is_used(shared, table)) return;
    shared->tables[i] = shared->tables[--shared->table_count];
    if (shared->table_count == 0) shared->reclaiming = false;
    mr_block_table_destroy(table, shared->now_ns);
}

void mr_shared_tables_check(const struct mr_shared_cache *shared)
{
    for (uint32_t i = 0; i < shared->table_count; i++)
        MR_ASSERT(is_used(shared, shared->tables[i]));
}
