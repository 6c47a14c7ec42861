/* shared_items - the items of one load: which tokens each holds, where the tier puts it, and how it
 * reaches the KV pool.
 *
 * A load's items in order: full blocks, pieces of the next block, the complete prompt's entry.
 * Owner: engine thread. Memory: shared_base's. Errors: an import that fails is reported as false.
 */
#ifndef MR_BATCHING_CACHE_SHARED_ITEMS_H
#define MR_BATCHING_CACHE_SHARED_ITEMS_H

#include "batching/cache/shared_base.h"

/* Tokens of a sequence. */
struct mr_token_span {
    uint32_t begin, end;
};

bool mr_shared_items_is_entry(const struct mr_load_slot *load, uint32_t index);
struct mr_token_span mr_shared_items_span(const struct mr_load_slot *load, uint32_t index);
/* Stored bytes of the item. */
size_t mr_shared_items_length(const struct mr_shared_cache *shared, const struct mr_load_slot *load,
                              uint32_t index);
/* The tier fills the item in its KV block, not in a buffer. */
bool mr_shared_items_is_direct(const struct mr_load_slot *load, uint32_t index);
/* Takes the buffers the load needs and fills shared->items[0, load->item_count): keys, lengths and
 * places to receive them. All items become MR_ITEM_PENDING. */
void mr_shared_items_fill(struct mr_shared_cache *shared, struct mr_load_slot *load);
/* Copies the item's KV from its buffer into the sequence's block; nothing to do for one that was
 * received in place. */
bool mr_shared_items_import(struct mr_shared_cache *shared, struct mr_load_slot *load,
                            uint32_t index);

#endif
