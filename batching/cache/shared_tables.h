/* shared_tables - block tables of ended sequences whose blocks the Redis cache still reads or
 * fills.
 *
 * A sequence that releases its blocks hands its block table over while a load or a store uses it.
 * The table is destroyed here when the last load or store that uses it has its final answer. When
 * the KV pool is short of blocks, these stores are abandoned, so that the Redis cache stops using
 * the blocks soon; loads of sequences that are gone were abandoned already.
 *
 * Owner: engine thread. Memory: that of shared_base.h. Errors: none; there are at most
 * MR_SHARED_TABLES_MAX tables, one for each load or store slot. */
#ifndef MR_BATCHING_CACHE_SHARED_TABLES_H
#define MR_BATCHING_CACHE_SHARED_TABLES_H

#include "batching/cache/shared_base.h"

/* Call when a sequence releases its blocks. True: a load or store still uses the table's blocks,
 * and the shared cache owns the table from now on. False: no load or store uses it; the caller
 * still owns the table. */
bool mr_shared_tables_take_over(struct mr_shared_cache *shared, struct mr_block_table *table);
/* Call when the KV pool is short of blocks: abandons the stores that use blocks of ended sequences,
 * so that these blocks are released soon. False: no blocks of ended sequences are in use. */
bool mr_shared_tables_reclaim(struct mr_shared_cache *shared);
/* Call when a load or store that used this table has ended (NULL: it used none). Destroys the table
 * if the shared cache owns it and no other load or store uses it. */
void mr_shared_tables_done(struct mr_shared_cache *shared, struct mr_block_table *table);
/* Asserts that each table that the shared cache owns is in use by a load or a store. */
void mr_shared_tables_check(const struct mr_shared_cache *shared);

#endif
