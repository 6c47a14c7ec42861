/* block_table - the blocks of one sequence in order, and a fixed set of such tables, each with room
 * for the blocks of the longest sequence. kv_cache.c and kv_window.c fill the tables.
 *
 * Owner: engine thread. Memory: all in _create. Errors: _create MR_NOMEM; _take NULL when every
 * table is taken. */
#ifndef MR_KVCACHE_BLOCK_TABLE_H
#define MR_KVCACHE_BLOCK_TABLE_H

#include "codec/status.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"

struct mr_block_tables;
struct mr_kv_cache;
struct mr_kv_window;

/* The blocks of a sequence. Outside kvcache/ the fields are read-only. */
struct mr_block_table {
    struct mr_kv_cache *cache;
    struct mr_kv_window *window; /* NULL: no layer has a sliding window */
    mr_block_id *blocks;         /* [block_count], with room for the longest sequence */
    uint32_t *slots; /* [block_count] window slots; valid in [window_begin, window_end) */
    uint32_t block_count, window_begin, window_end;
    uint32_t published_tokens;         /* tokens [0, published_tokens) are in the prefix index */
    unsigned char root[MR_HASH_BYTES]; /* h_{-1}: fingerprint and tenant namespace */
    unsigned char tail[MR_HASH_BYTES]; /* chain key of the last full published block */
    /* private to kvcache/ */
    mr_block_id copy_from; /* source of an open copy order; MR_BLOCK_NONE: none is open */
    uint32_t query_tokens, matched_tokens; /* as counted for the last match */
    uint32_t reserved_slots;               /* window slots reserved for this table */
    uint32_t running_slots;                /* those needed to run; a load may reserve more */
};

enum mr_status mr_block_tables_create(struct mr_block_tables **out, uint32_t table_count,
                                      uint32_t blocks_max, struct mr_error *err);
/* tables may be NULL. */
void mr_block_tables_destroy(struct mr_block_tables *tables);

/* An empty table: block_count 0, no copy order. */
struct mr_block_table *mr_block_tables_take(struct mr_block_tables *tables);
/* The table must be empty. */
void mr_block_tables_drop(struct mr_block_tables *tables, struct mr_block_table *table);

/* Blocks a table has room for. */
uint32_t mr_block_tables_blocks_max(const struct mr_block_tables *tables);
/* The i-th taken table, in no particular order; NULL after the last one. */
const struct mr_block_table *mr_block_tables_at(const struct mr_block_tables *tables, uint32_t i);
/* Asserts that each table is either taken or free, and that free tables are empty; O(tables). */
void mr_block_tables_check(const struct mr_block_tables *tables);

#endif
