/* shared_cache_state - what the parts of shared_cache share. Nobody else includes it. */
#ifndef MR_BATCHING_CACHE_SHARED_CACHE_STATE_H
#define MR_BATCHING_CACHE_SHARED_CACHE_STATE_H

#include "batching/cache/shared_cache.h"

#define MR_ASKS_MAX        64u
#define MR_LOADS_MAX       16u
#define MR_STORES_MAX      64u
#define MR_STORE_ITEMS_MAX 8u
#define MR_NO_BUFFER       UINT32_MAX /* the item's bytes are the block itself */

_Static_assert(MR_PIECES_MAX < MR_STORE_ITEMS_MAX, "and an entry in one request");
_Static_assert(MR_LOADS_MAX + MR_STORES_MAX <= MR_SHARED_TABLES_MAX, "each may be the last user");

/* A question under way; free when in_use is false. job NULL: nobody wants the answer. */
struct mr_tier_ask {
    struct mr_job *job;
    uint64_t ticket;
    bool in_use;
    bool pieces; /* the second question of a request: of a block that is not its last */
};

enum mr_item_state { MR_ITEM_PENDING, MR_ITEM_IMPORTED, MR_ITEM_FAILED };

struct mr_tier_load {
    struct mr_sequence *sequence; /* NULL: left */
    uint64_t ticket;
    /* In order: blocks, pieces of the block behind them, the complete prompt's entry, if any. */
    uint32_t first_block, block_count, piece_count, item_count;
    uint32_t end;         /* tokens of the sequence up to the end of the last item */
    uint32_t buffer;      /* of all pieces and the entry */
    bool entry;           /* the last item is one */
    bool in_use, over;    /* over: the final answer has come */
    bool holds;           /* the front waits for what is coming */
    uint64_t until_ns;    /* so long for the next item */
    uint64_t given_up_ns; /* since then the front goes on, by one block to begin with; 0: it waits,
                             or has gone further */
    bool given_another;   /* it waits for the second time, the last one */
    uint64_t begun_ns;
    uint32_t claimed;             /* items below are not wanted any more */
    struct mr_block_table *table; /* whose blocks are filled in place; NULL: buffers */
    uint32_t *buffers;            /* [items_max] of blocks */
    uint8_t *states;              /* [items_max] enum mr_item_state */
};

struct mr_tier_keep {
    uint64_t ticket;
    struct mr_block_table *table; /* whose blocks are read in place; NULL: buffers */
    uint32_t buffers[MR_STORE_ITEMS_MAX], count, buffer_count;
    uint64_t bytes; /* of its items */
    bool in_use, given_up;
};

struct mr_shared_cache {
    struct mr_shared_cache_options options;
    struct mr_shared_cache_stats stats;
    size_t block_bytes, layer_bytes, piece_bytes, logits_bytes;
    size_t buffer_bytes,
        pieces_at;          /* one holds a block, or an entry and from pieces_at on pieces */
    unsigned char *staging; /* [buffer_count * buffer_bytes] */
    uint32_t *free_buffers; /* stack */
    uint32_t buffer_count, free_count, store_buffers; /* the last: held by stores */
    uint32_t items_max; /* of a load: blocks of a sequence, pieces and an entry */
    struct mr_tier_item *items;
    unsigned char *keys; /* [items_max][MR_HASH_BYTES] */
    uint64_t generation; /* of tickets */
    struct mr_tier_ask asks[MR_ASKS_MAX];
    struct mr_tier_load loads[MR_LOADS_MAX];
    struct mr_tier_keep keeps[MR_STORES_MAX];
    struct mr_block_table *tables[MR_SHARED_TABLES_MAX]; /* [table_count] taken over */
    uint32_t table_count;
    bool yielding;                  /* somebody waits for their blocks */
    uint64_t now_ns;                /* of the last poll */
    struct mr_load_answer decision; /* of _decide, for _begin */
    const struct mr_sequence *decided;
    uint64_t loaded_ns; /* when a load began last */
    double import_ms;   /* of a block, running mean */
};

/* Ticket of a slot: the slot in the low 16 bits. */
uint64_t mr_shared_ticket(struct mr_shared_cache *shared, uint32_t slot);
unsigned char *mr_shared_buffer(const struct mr_shared_cache *shared, uint32_t buffer);
/* Where a piece stands in a buffer: 0 is the first of its block. */
unsigned char *mr_shared_piece_bytes(const struct mr_shared_cache *shared, uint32_t buffer,
                                     uint32_t piece);
void mr_shared_give_back(struct mr_shared_cache *shared, uint32_t buffer);
/* A buffer the caller knows is there. */
uint32_t mr_shared_take_buffer(struct mr_shared_cache *shared);
/* A load or store has no use for this table any more; NULL: it had none. */
void mr_shared_table_done(struct mr_shared_cache *shared, struct mr_block_table *table);
/* Where a full block's stored form lies; NULL: in no place the tier can use. */
void *mr_shared_block_bytes(const struct mr_shared_cache *shared, uint32_t block);
struct mr_kv_place mr_shared_place(const struct mr_shared_cache *shared, uint32_t block,
                                   uint32_t first);
/* Of token_count tokens of a block; of no token, none. */
size_t mr_shared_kv_bytes(const struct mr_shared_cache *shared, uint32_t token_count);
/* Key of what comes before a block of the job's prompt, when shared->keys has those of the blocks
 * before it. */
const unsigned char *mr_shared_parent(const struct mr_shared_cache *shared,
                                      const struct mr_job *job, uint32_t block);
/* What an item is, but for its bytes. key: of the block. */
struct mr_tier_item mr_shared_block_item(const struct mr_shared_cache *shared,
                                         const unsigned char *key);
/* The piece of tokens that ends at token `end` of the sequence; parent: key of the full block
 * before it, or the root. */
struct mr_tier_item mr_shared_piece_item(const struct mr_shared_cache *shared,
                                         const struct mr_sequence *sequence,
                                         const unsigned char *parent, uint32_t end);
/* The entry of its prompt: logits, then the KV of the tokens behind the last piece. */
size_t mr_shared_entry_bytes(const struct mr_shared_cache *shared,
                             const struct mr_sequence *sequence);
struct mr_tier_item mr_shared_entry_item(const struct mr_shared_cache *shared,
                                         const struct mr_sequence *sequence);
uint64_t mr_shared_clock(const struct mr_shared_cache *shared);
/* Answers of the tier. */
void mr_shared_load_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer,
                             uint64_t now_ns);
void mr_shared_store_answered(struct mr_shared_cache *shared, const struct mr_tier_answer *answer);
/* When a front that waits goes on, should nothing be heard of its load before. */
uint64_t mr_shared_load_until_ns(const struct mr_shared_cache *shared,
                                 const struct mr_tier_load *load);
/* Lets fronts go on whose loads have stalled. */
void mr_shared_load_expire(struct mr_shared_cache *shared, uint64_t now_ns);

#endif
