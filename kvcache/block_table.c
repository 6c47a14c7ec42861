#include "kvcache/block_table.h"

#include "codec/check.h"

#include <stdlib.h>

struct mr_block_tables {
    struct mr_block_table *tables; /* [table_count] tables */
    mr_block_id *blocks;           /* [table_count * blocks_max] block ids of all tables */
    uint32_t *slots;    /* [table_count * blocks_max] sliding-window slots of all tables */
    uint32_t *order;    /* [table_count] indices of tables: the first taken_count are in use */
    uint32_t *position; /* [table_count] position of each table's index in `order` */
    uint32_t table_count, blocks_max, taken_count;
};

static void init_tables(struct mr_block_tables *tables)
{
    for (uint32_t i = 0; i < tables->table_count; i++) {
        tables->tables[i].blocks = tables->blocks + (size_t)i * tables->blocks_max;
        tables->tables[i].slots = tables->slots + (size_t)i * tables->blocks_max;
        tables->tables[i].copy_from = MR_BLOCK_NONE;
        tables->order[i] = tables->position[i] = i;
    }
}

enum mr_status mr_block_tables_create(struct mr_block_tables **out, uint32_t table_count,
                                      uint32_t blocks_max, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(table_count > 0 && blocks_max > 0);
    struct mr_block_tables *tables = calloc(1, sizeof *tables);
    if (tables == NULL) goto fail;
    tables->table_count = table_count;
    tables->blocks_max = blocks_max;
    tables->tables = calloc(table_count, sizeof *tables->tables);
    tables->blocks = calloc((size_t)table_count * blocks_max, sizeof *tables->blocks);
    tables->slots = calloc((size_t)table_count * blocks_max, sizeof *tables->slots);
    tables->order = calloc(table_count, sizeof *tables->order);
    tables->position = calloc(table_count, sizeof *tables->position);
    if (tables->tables == NULL || tables->blocks == NULL || tables->slots == NULL ||
        tables->order == NULL || tables->position == NULL)
        goto fail_tables;
    init_tables(tables);
    *out = tables;
    return MR_OK;

fail_tables:
    mr_block_tables_destroy(tables);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for %u block tables of %u blocks", table_count,
                   blocks_max);
}

void mr_block_tables_destroy(struct mr_block_tables *tables)
{
    if (tables == NULL) return;
    free(tables->position);
    free(tables->order);
    free(tables->slots);
    free(tables->blocks);
    free(tables->tables);
    free(tables);
}

struct mr_block_table *mr_block_tables_take(struct mr_block_tables *tables)
{
    if (tables->taken_count == tables->table_count) return NULL;
    return &tables->tables[tables->order[tables->taken_count++]];
}

void mr_block_tables_drop(struct mr_block_tables *tables, struct mr_block_table *table)
{
    uint32_t index = (uint32_t)(table - tables->tables);
    MR_ASSERT(index < tables->table_count && tables->position[index] < tables->taken_count);
    MR_ASSERT(table->block_count == 0 && table->copy_from == MR_BLOCK_NONE);
    uint32_t last = tables->order[--tables->taken_count];
    tables->order[tables->position[index]] = last;
    tables->position[last] = tables->position[index];
    tables->order[tables->taken_count] = index;
    tables->position[index] = tables->taken_count;
}

uint32_t mr_block_tables_blocks_max(const struct mr_block_tables *tables)
{
    return tables->blocks_max;
}

const struct mr_block_table *mr_block_tables_at(const struct mr_block_tables *tables, uint32_t i)
{
    return i < tables->taken_count ? &tables->tables[tables->order[i]] : NULL;
}

void mr_block_tables_check(const struct mr_block_tables *tables)
{
    MR_ASSERT(tables->taken_count <= tables->table_count);
    for (uint32_t i = 0; i < tables->table_count; i++) {
        const struct mr_block_table *table = &tables->tables[tables->order[i]];
        MR_ASSERT(tables->position[tables->order[i]] == i);
        MR_ASSERT(table->block_count <= tables->blocks_max);
        MR_ASSERT(i < tables->taken_count || table->block_count == 0);
    }
}
