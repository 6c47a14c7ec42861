/* block_table - the KV blocks of one sequence in order, and a fixed set of such tables, each with
 * room for the blocks of the longest sequence. kv_cache.c and kv_window.c fill the tables.
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

/* The KV blocks of one sequence. Outside kvcache/ the fields are read-only. */
struct mr_block_table {
    struct mr_kv_cache *cache;
    struct mr_kv_window *window; /* NULL: no layer has a sliding window */
    mr_block_id *blocks;         /* [block_count] ids; allocated for the longest sequence */
    /* [block_count] sliding-window slot of each block; valid for blocks [window_begin,
     * window_end) */
    uint32_t *slots;
    uint32_t block_count, window_begin, window_end;
    uint32_t published_tokens; /* tokens [0, published_tokens) are in the prefix index */
    uint32_t state;            /* slot of the state pool; MR_NO_STATE: no recurrent layers */
    uint32_t state_from;       /* snapshot to copy to `state`; MR_NO_STATE: none */
    /* chain key h_{-1}: hash of model fingerprint and tenant name */
    unsigned char root[MR_HASH_BYTES];
    /* chain key of the last full block that is in the prefix index */
    unsigned char tail[MR_HASH_BYTES];
    /* The fields below are private to kvcache/. */
    /* the block from which the engine must still copy the first tokens' KV into this table;
     * MR_BLOCK_NONE: none */
    mr_block_id copy_from;
    /* tokens requested and found by this table's latest prefix lookup, as added to the
     * statistics */
    uint32_t query_tokens, matched_tokens;
    uint32_t reserved_slots; /* sliding-window slots reserved for this table */
    /* reserved slots needed to run; loading KV into the table may reserve more */
    uint32_t running_slots;
};

enum mr_status mr_block_tables_create(struct mr_block_tables **out, uint32_t table_count,
                                      uint32_t blocks_max, struct mr_error *err);
/* tables may be NULL. */
void mr_block_tables_destroy(struct mr_block_tables *tables);

/* Takes an unused table, which is empty: it has no blocks, and no KV to copy. NULL: all are in
 * use. */
struct mr_block_table *mr_block_tables_take(struct mr_block_tables *tables);
/* Returns a table to the set; the table must be empty. */
void mr_block_tables_drop(struct mr_block_tables *tables, struct mr_block_table *table);

/* Most blocks that one table can have. */
uint32_t mr_block_tables_blocks_max(const struct mr_block_tables *tables);
/* The i-th table in use, in no particular order; NULL: i is not below the number in use. */
const struct mr_block_table *mr_block_tables_at(const struct mr_block_tables *tables, uint32_t i);
/* Asserts that each table is either in use or free, and that free tables are empty; O(tables). */
void mr_block_tables_check(const struct mr_block_tables *tables);

#endif
