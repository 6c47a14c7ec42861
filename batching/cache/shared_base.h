/* shared_base - the state that lookups, loads and stores of the KV cache in Redis work on: slots
 * for work in flight, staging buffers, and the form of blocks, pieces and entries in Redis.
 *
 * Each lookup, load or store that the Redis cache has accepted occupies a slot until its final
 * answer; the low 16 bits of its ticket are the slot's index. A slot whose request is gone (job or
 * sequence NULL) only waits for that answer. The lookup and load state of each request:
 * batching/sequence/fetch.h. Blocks, pieces and entries: batching/cache/shared_cache.h.
 *
 * Included by the modules shared_*.c only. Owner: engine thread. Memory: made by
 * mr_shared_cache_create. Errors: none. */
#ifndef MR_BATCHING_CACHE_SHARED_BASE_H
#define MR_BATCHING_CACHE_SHARED_BASE_H

#include "batching/base/model_port.h"
#include "batching/cache/prompt_cache.h"
#include "batching/cache/shared_stats.h"
#include "batching/cache/staging.h"
#include "batching/sequence/job.h"

#define MR_PIECE_TOKENS      (MR_BLOCK_TOKENS >= 128 ? MR_BLOCK_TOKENS / 8 : 16u)
#define MR_PIECES_MAX        (MR_BLOCK_TOKENS / MR_PIECE_TOKENS - 1)
#define MR_LOOKUPS_MAX       64u
#define MR_LOADS_MAX         16u
#define MR_STORES_MAX        64u
#define MR_STORE_ITEMS_MAX   8u
#define MR_SHARED_TABLES_MAX 80u /* block tables of ended sequences used by a load or store */

_Static_assert(MR_PIECES_MAX < MR_STORE_ITEMS_MAX, "pieces and an entry go in one request");
_Static_assert(MR_LOADS_MAX + MR_STORES_MAX <= MR_SHARED_TABLES_MAX, "each may hold a table");

struct mr_shared_cache_options {
    const struct mr_tier *tier; /* borrowed, as the pointers below; prompts may be NULL */
    const struct mr_model_port *model;
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    const struct mr_cost_model *cost;
    struct mr_request_queue *queue; /* refunds the cost of prompt tokens that were loaded */
    uint32_t context_tokens;
    uint32_t chunk_tokens; /* largest prefill chunk; 0: no chunking */
    /* bytes of all staging buffers, at least two buffers; 0: MR_STAGING_BYTES */
    uint64_t staging_bytes;
};

struct mr_lookup_slot {
    struct mr_job *job; /* NULL: the lookup was abandoned */
    uint64_t ticket;
    bool in_use;
};

enum mr_item_state { MR_ITEM_PENDING, MR_ITEM_IMPORTED, MR_ITEM_FAILED };

struct mr_load_slot {
    struct mr_sequence *sequence; /* NULL: the load was abandoned */
    uint64_t ticket;
    /* What is loaded, in this order: full blocks, pieces (MR_PIECE_TOKENS tokens each) of the next
     * block, and the complete-prompt entry (logits and tail KV) if `entry` is true. item_count is
     * the number of all these values. */
    uint32_t first_block, block_count, piece_count, item_count;
    uint32_t end;    /* tokens of the sequence up to the end of what is loaded */
    uint32_t buffer; /* staging buffer for all values that are not full blocks */
    bool entry;      /* the load ends with the complete-prompt entry (logits and tail KV) */
    bool in_use;
    uint64_t begun_ns;
    uint64_t until_ns;  /* prefill waits for the next loaded value no longer than this */
    uint64_t silent_ns; /* when prefill stopped waiting because Redis sent nothing */
    /* the Redis cache was asked to skip values [0, claimed), whose tokens prefill computes */
    uint32_t claimed;
    /* the table into whose blocks Redis data is received directly; NULL: the load uses buffers */
    struct mr_block_table *table;
    /* [items_max] staging buffer of each block; MR_NO_BUFFER: loaded straight into the KV pool */
    uint32_t *buffers;
    uint8_t *states; /* [items_max] enum mr_item_state of each value to load */
};

struct mr_store_slot {
    uint64_t ticket;
    /* the table whose blocks are sent straight from the KV pool; NULL: from staging buffers */
    struct mr_block_table *table;
    uint32_t buffers[MR_STORE_ITEMS_MAX], count, buffer_count;
    uint64_t bytes; /* total bytes that this store sends */
    bool in_use, abandoned;
};

struct mr_shared_cache {
    struct mr_shared_cache_options options;
    struct mr_shared_cache_stats stats;
    size_t block_bytes, layer_bytes, piece_bytes, logits_bytes;
    /* Offset in a staging buffer of the pieces (MR_PIECE_TOKENS tokens each), behind the
     * complete-prompt entry (logits and tail KV). A buffer that holds a full block holds nothing
     * else. */
    size_t pieces_at;
    struct mr_staging staging;
    uint32_t store_buffers; /* number of staging buffers that stores use */
    uint32_t items_max;     /* most values of one load: blocks, 32-token pieces, prompt entry */
    struct mr_tier_item *items;
    unsigned char *keys; /* [items_max][MR_HASH_BYTES] Redis keys of a prompt's blocks */
    uint64_t generation; /* counts tickets, so that each ticket is unique */
    struct mr_lookup_slot lookups[MR_LOOKUPS_MAX];
    struct mr_load_slot loads[MR_LOADS_MAX];
    struct mr_store_slot stores[MR_STORES_MAX];
    /* [table_count] block tables of ended sequences whose blocks the Redis cache still uses */
    struct mr_block_table *tables[MR_SHARED_TABLES_MAX];
    uint32_t table_count;
    bool reclaiming; /* the KV pool is short, so stores that hold these tables were abandoned */
    uint64_t now_ns; /* time of the last mr_shared_cache_poll() */
    struct mr_load_answer decision; /* what to load for the sequence in state MR_FETCH_DECIDED */
    uint64_t loaded_ns;             /* when the last load began */
    /* running mean of the time to copy one loaded block into the KV pool; each probe halves it */
    double import_ms;
};

uint64_t mr_shared_base_ticket(struct mr_shared_cache *shared, uint32_t slot);
uint64_t mr_shared_base_clock_ns(const struct mr_shared_cache *shared);
/* Address of a full block in the KV pool from which the Redis cache can send it or into which it
 * can receive it. NULL: the block must go through a staging buffer. */
void *mr_shared_base_block_bytes(const struct mr_shared_cache *shared, uint32_t block);
/* Address in a staging buffer of one piece (MR_PIECE_TOKENS tokens of a block). piece: index of the
 * piece within the block, 0 for the block's first tokens. */
unsigned char *mr_shared_base_piece_bytes(const struct mr_shared_cache *shared, uint32_t buffer,
                                          uint32_t piece);
struct mr_kv_place mr_shared_base_place(const struct mr_shared_cache *shared, uint32_t block,
                                        uint32_t first);
/* Bytes that the KV of token_count tokens of one block takes in the Redis cache; 0 for 0 tokens. */
size_t mr_shared_base_kv_bytes(const struct mr_shared_cache *shared, uint32_t token_count);

/* Chain key of the block before block number `block` of the job's prompt; the tenant's root key for
 * block 0. shared->keys must hold the keys of all earlier blocks. */
const unsigned char *mr_shared_base_parent(const struct mr_shared_cache *shared,
                                           const struct mr_job *job, uint32_t block);
/* Describes one full block to look up, load or store in Redis; the caller sets .bytes. key: chain
 * key of the block. */
struct mr_tier_item mr_shared_base_block_item(const struct mr_shared_cache *shared,
                                              const unsigned char *key);
/* Describes the piece (MR_PIECE_TOKENS tokens) that ends at token `end` of the sequence, to look
 * up, load or store in Redis; the caller sets .bytes. parent: chain key of the full block before
 * the piece, or the tenant's root key. */
struct mr_tier_item mr_shared_base_piece_item(const struct mr_shared_cache *shared,
                                              const struct mr_sequence *sequence,
                                              const unsigned char *parent, uint32_t end);
/* Bytes of the complete-prompt entry in the Redis cache: the logits of the last prompt token, then
 * the KV of the tokens behind the last whole piece. */
size_t mr_shared_base_entry_bytes(const struct mr_shared_cache *shared,
                                  const struct mr_sequence *sequence);
struct mr_tier_item mr_shared_base_entry_item(const struct mr_shared_cache *shared,
                                              const struct mr_sequence *sequence);

#endif
