/* shared_base - the state that lookups, loads and stores of the shared cache work on: slots for
 * work in flight, staging buffers, and the form of the items in the tier.
 *
 * Each lookup, load or store that the tier has accepted occupies a slot until the tier's final
 * answer; the low 16 bits of its ticket are the slot's index. A slot whose request is gone (job or
 * sequence NULL) only waits for that answer. How far a request is: batching/sequence/fetch.h.
 *
 * Included by the modules of the shared cache only. Owner: engine thread. Memory: made by
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
#define MR_SHARED_TABLES_MAX 80u /* block tables of ended sequences, each in use by some slot */

_Static_assert(MR_PIECES_MAX < MR_STORE_ITEMS_MAX, "pieces and an entry go in one request");
_Static_assert(MR_LOADS_MAX + MR_STORES_MAX <= MR_SHARED_TABLES_MAX, "each may hold a table");

struct mr_shared_cache_options {
    const struct mr_tier *tier; /* borrowed, as all below; prompts may be NULL */
    const struct mr_model_port *model;
    struct mr_kv_cache *cache;
    struct mr_prompt_cache *prompts;
    const struct mr_cost_model *cost;
    uint32_t context_tokens;
    uint32_t chunk_tokens;  /* 0: no chunking */
    uint64_t staging_bytes; /* for loads and stores together, at least two items; 0: the default */
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
    /* Items in order: blocks, pieces of the next block, the complete prompt's entry, if any. */
    uint32_t first_block, block_count, piece_count, item_count;
    uint32_t end;    /* tokens of the sequence up to the end of the last item */
    uint32_t buffer; /* of all pieces and the entry */
    bool entry;      /* the last item is one */
    bool in_use;
    uint64_t begun_ns;
    uint64_t until_ns;            /* prefill waits for the next item no longer than this */
    uint64_t silent_ns;           /* when prefill stopped waiting for a silent tier */
    uint32_t claimed;             /* items below are computed, whether they arrive or not */
    struct mr_block_table *table; /* whose blocks are filled in place; NULL: through buffers */
    uint32_t *buffers;            /* [items_max] of blocks; MR_NO_BUFFER: filled in place */
    uint8_t *states;              /* [items_max] enum mr_item_state */
};

struct mr_store_slot {
    uint64_t ticket;
    struct mr_block_table *table; /* whose blocks are read in place; NULL: from buffers */
    uint32_t buffers[MR_STORE_ITEMS_MAX], count, buffer_count;
    uint64_t bytes; /* of its items */
    bool in_use, abandoned;
};

struct mr_shared_cache {
    struct mr_shared_cache_options options;
    struct mr_shared_cache_stats stats;
    size_t block_bytes, layer_bytes, piece_bytes, logits_bytes;
    size_t pieces_at; /* offset of the pieces in a buffer, behind the entry; other buffers hold one
                         block */
    struct mr_staging staging;
    uint32_t store_buffers; /* staging buffers in use by stores */
    uint32_t items_max;     /* of a load: blocks of a sequence, pieces and an entry */
    struct mr_tier_item *items;
    unsigned char *keys; /* [items_max][MR_HASH_BYTES] */
    uint64_t generation; /* of tickets */
    struct mr_lookup_slot lookups[MR_LOOKUPS_MAX];
    struct mr_load_slot loads[MR_LOADS_MAX];
    struct mr_store_slot stores[MR_STORES_MAX];
    struct mr_block_table *tables[MR_SHARED_TABLES_MAX]; /* [table_count] of ended sequences */
    uint32_t table_count;
    bool reclaiming;                /* the pool is short of the blocks of these tables */
    uint64_t now_ns;                /* of the last poll */
    struct mr_load_answer decision; /* for the sequence in state MR_FETCH_DECIDED */
    uint64_t loaded_ns;             /* when the last load began */
    double import_ms;               /* of a block, running mean */
};

uint64_t mr_shared_base_ticket(struct mr_shared_cache *shared, uint32_t slot);
uint64_t mr_shared_base_clock_ns(const struct mr_shared_cache *shared);
/* Where a full block's stored form lies in the pool; NULL: the tier cannot use it there. */
void *mr_shared_base_block_bytes(const struct mr_shared_cache *shared, uint32_t block);
/* Place of a piece in a buffer; piece 0 is the first of its block. */
unsigned char *mr_shared_base_piece_bytes(const struct mr_shared_cache *shared, uint32_t buffer,
                                          uint32_t piece);
struct mr_kv_place mr_shared_base_place(const struct mr_shared_cache *shared, uint32_t block,
                                        uint32_t first);
/* Stored bytes of token_count tokens of a block; 0 for no token. */
size_t mr_shared_base_kv_bytes(const struct mr_shared_cache *shared, uint32_t token_count);

/* Key of what comes before a block of the job's prompt; shared->keys has the keys of the blocks
 * before it. */
const unsigned char *mr_shared_base_parent(const struct mr_shared_cache *shared,
                                           const struct mr_job *job, uint32_t block);
/* Items without their bytes. key: of the block. */
struct mr_tier_item mr_shared_base_block_item(const struct mr_shared_cache *shared,
                                              const unsigned char *key);
/* The piece that ends at token `end` of the sequence. parent: key of the full block before it, or
 * the root. */
struct mr_tier_item mr_shared_base_piece_item(const struct mr_shared_cache *shared,
                                              const struct mr_sequence *sequence,
                                              const unsigned char *parent, uint32_t end);
/* The entry of the complete prompt: logits, then the KV of the tokens behind the last piece. */
size_t mr_shared_base_entry_bytes(const struct mr_shared_cache *shared,
                                  const struct mr_sequence *sequence);
struct mr_tier_item mr_shared_base_entry_item(const struct mr_shared_cache *shared,
                                              const struct mr_sequence *sequence);

#endif
