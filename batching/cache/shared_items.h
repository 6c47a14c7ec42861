/* shared_items - the items of one load from Redis, which are the values to load: which tokens each
 * item holds, where it is received, and how it reaches the KV pool.
 *
 * A load's items in order: full blocks, pieces of the next block, the complete-prompt entry (logits
 * and tail KV). Owner: engine thread. Memory: that of shared_base.h. Errors: a failed copy into the
 * KV pool is reported as false. */
#ifndef MR_BATCHING_CACHE_SHARED_ITEMS_H
#define MR_BATCHING_CACHE_SHARED_ITEMS_H

#include "batching/cache/shared_base.h"

/* Tokens [begin, end) of a sequence. */
struct mr_token_span {
    uint32_t begin, end;
};

bool mr_shared_items_is_entry(const struct mr_load_slot *load, uint32_t index);
struct mr_token_span mr_shared_items_span(const struct mr_load_slot *load, uint32_t index);
/* Bytes that value number `index` of the load takes in Redis. */
size_t mr_shared_items_length(const struct mr_shared_cache *shared, const struct mr_load_slot *load,
                              uint32_t index);
/* True when value number `index` of the load is received straight in its KV block. */
bool mr_shared_items_is_direct(const struct mr_load_slot *load, uint32_t index);
/* Takes the staging buffers that the load needs and fills shared->items[0, load->item_count) with
 * keys, lengths and the addresses to receive the values at. Sets the state of every value to
 * MR_ITEM_PENDING. */
void mr_shared_items_fill(struct mr_shared_cache *shared, struct mr_load_slot *load);
/* Copies the KV of value number `index` of the load from its staging buffer into the sequence's KV
 * block; does nothing for a value that was received in its KV block. False: the copy failed. */
bool mr_shared_items_import(struct mr_shared_cache *shared, struct mr_load_slot *load,
                            uint32_t index);

#endif
