/* shared_tables - block tables of ended sequences whose blocks the tier still reads or fills.
 *
 * A sequence that releases its blocks hands its table over while a load or a store uses it; the
 * table is destroyed here when the last such slot has its final answer. When the pool is short of
 * blocks, the stores are abandoned, so that the tier releases the tables within a moment; loads of
 * sequences that are gone were abandoned already.
 *
 * Owner: engine thread. Memory: shared_base's. Errors: none; at most MR_SHARED_TABLES_MAX, one for
 * each slot. */
#ifndef MR_BATCHING_CACHE_SHARED_TABLES_H
#define MR_BATCHING_CACHE_SHARED_TABLES_H

#include "batching/cache/shared_base.h"

/* True: the tier uses the table's blocks, and the shared cache owns the table from now on. False:
 * it stays the caller's. */
bool mr_shared_tables_take_over(struct mr_shared_cache *shared, struct mr_block_table *table);
/* The pool is short of blocks: abandons the stores that hold tables. False: none are held. */
bool mr_shared_tables_reclaim(struct mr_shared_cache *shared);
/* A load or store has ended that used this table (NULL: none). Destroys it if it was taken over and
 * no other slot uses it. */
void mr_shared_tables_done(struct mr_shared_cache *shared, struct mr_block_table *table);
/* Asserts that each table taken over is in use. */
void mr_shared_tables_check(const struct mr_shared_cache *shared);

#endif
