/* block_table - storage of the block tables: a fixed number of struct mr_block_table (kv_cache.h),
 * each with room for the blocks of the longest sequence. What the blocks mean is kv_cache.c's.
 *
 * Owner: engine thread. Memory: all in _create. Errors: _create MR_NOMEM; _take NULL when all are
 * out. */
#ifndef MR_KVCACHE_BLOCK_TABLE_H
#define MR_KVCACHE_BLOCK_TABLE_H

#include "kvcache/kv_cache.h"

struct mr_block_tables;

enum mr_status mr_block_tables_create(struct mr_block_tables **out, uint32_t table_count,
                                      uint32_t blocks_max, struct mr_error *err);
/* tables may be NULL. */
void mr_block_tables_destroy(struct mr_block_tables *tables);

/* An empty table: block_count 0, copy_from none. */
struct mr_block_table *mr_block_tables_take(struct mr_block_tables *tables);
/* Must be empty. */
void mr_block_tables_drop(struct mr_block_tables *tables, struct mr_block_table *table);

/* Blocks a table has room for. */
uint32_t mr_block_tables_blocks_max(const struct mr_block_tables *tables);
/* The i-th table that is out, in no particular order; NULL behind the last. */
const struct mr_block_table *mr_block_tables_at(const struct mr_block_tables *tables, uint32_t i);
/* Asserts the book-keeping; O(tables). */
void mr_block_tables_check(const struct mr_block_tables *tables);

#endif
