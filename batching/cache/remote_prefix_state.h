/* remote_prefix_state - the state that lookups, loads and stores work on, private to the module of
 * batching/cache/remote_prefix.h: slots for operations in flight, staging buffers, and the form of
 * blocks, pieces and entries as values.
 *
 * Each operation that the remote cache has accepted occupies a slot until its final answer; the low
 * 16 bits of its id are the slot's index. A slot whose request is gone (job or sequence NULL) only
 * waits for that answer.
 *
 * Owner: engine thread. Memory: made by mr_remote_prefix_create. Errors: none. */
#ifndef MR_BATCHING_CACHE_REMOTE_PREFIX_STATE_H
#define MR_BATCHING_CACHE_REMOTE_PREFIX_STATE_H

#include "batching/cache/remote_prefix.h"
#include "batching/cache/staging.h"

#define MR_PIECES_MAX       (MR_BLOCK_TOKENS / MR_PIECE_TOKENS - 1)
#define MR_LOOKUPS_MAX      64u
#define MR_LOADS_MAX        16u
#define MR_STORES_MAX       64u
#define MR_STORE_VALUES_MAX 8u
#define MR_LOOKUP_WAIT_NS   60000000u /* longer than the remote cache's own lookup timeout */
#define MR_LOOKUP_AGAIN_NS  10000000u /* no second query when the first took longer than this */

_Static_assert(MR_PIECES_MAX < MR_STORE_VALUES_MAX, "pieces and an entry go in one operation");
_Static_assert(MR_LOADS_MAX + MR_STORES_MAX <= MR_PREFIX_TABLES_MAX, "each may hold a table");

struct mr_lookup_slot {
    struct mr_job *job; /* NULL: the lookup was cancelled */
    uint64_t id;
    bool in_use;
};

enum mr_value_state { MR_VALUE_PENDING, MR_VALUE_IMPORTED, MR_VALUE_FAILED };

struct mr_load_slot {
    struct mr_sequence *sequence; /* NULL: the load was cancelled */
    uint64_t id;
    /* The values that are loaded, in this order: full blocks, pieces of the next block, and the
     * entry if `entry` is true. value_count is the number of all these values. */
    uint32_t first_block, block_count, piece_count, value_count;
    uint32_t end;    /* tokens of the sequence up to the end of the loaded values */
    uint32_t buffer; /* staging buffer for all values that are not full blocks */
    bool entry, in_use;
    uint64_t begun_ns;
    uint64_t until_ns;  /* prefill waits for the next loaded value no longer than this */
    uint64_t silent_ns; /* when prefill stopped waiting because Redis sent nothing */
    /* the remote cache skips values [0, claimed), whose tokens prefill computes */
    uint32_t claimed;
    struct mr_block_table *table; /* blocks are received in its blocks; NULL: in buffers */
    uint32_t *buffers; /* [values_max] staging buffer of each block, MR_NO_BUFFER: in the KV pool */
    uint8_t *states;   /* [values_max] enum mr_value_state of each value to load */
};

struct mr_store_slot {
    uint64_t id;
    struct mr_block_table *table; /* blocks are sent from the KV pool; NULL: from buffers */
    uint32_t buffers[MR_STORE_VALUES_MAX], count, buffer_count;
    uint64_t bytes; /* total bytes that this store sends */
    bool in_use, cancelled;
};

struct mr_remote_prefix {
    struct mr_remote_prefix_options options;
    struct mr_remote_prefix_stats stats;
    size_t block_bytes, layer_bytes, piece_bytes, logits_bytes;
    size_t pieces_at; /* offset of the pieces in a staging buffer that holds no full block */
    struct mr_staging staging;
    uint32_t store_buffers; /* number of staging buffers that stores use */
    uint32_t values_max;    /* most values of one load: blocks, pieces, entry */
    struct mr_remote_value *values;
    unsigned char *keys; /* [values_max][MR_HASH_BYTES] keys of a prompt's blocks */
    uint64_t generation; /* counts ids, so that each id is unique */
    struct mr_lookup_slot lookups[MR_LOOKUPS_MAX];
    struct mr_load_slot loads[MR_LOADS_MAX];
    struct mr_store_slot stores[MR_STORES_MAX];
    /* [table_count] block tables of ended sequences whose blocks the remote cache still uses */
    struct mr_block_table *tables[MR_PREFIX_TABLES_MAX];
    uint32_t table_count;
    bool reclaiming; /* the KV pool is short, so stores that hold these tables were cancelled */
    uint64_t now_ns; /* time of the last mr_remote_prefix_poll() */
    struct mr_load_answer decision; /* what to load for the sequence in state MR_FETCH_DECIDED */
    uint64_t loaded_ns;             /* when the last load began */
    double import_ms; /* running mean of the time to copy one loaded block; a probe halves it */
};

/* ---- remote_prefix_values.c: the form of values ---- */
uint64_t mr_prefix_next_id(struct mr_remote_prefix *prefix, uint32_t slot);
uint64_t mr_prefix_clock_ns(const struct mr_remote_prefix *prefix);
/* Address of a full block in the KV pool for the remote cache; NULL: use a staging buffer. */
void *mr_prefix_block_bytes(const struct mr_remote_prefix *prefix, uint32_t block);
/* Address in a staging buffer of piece number `piece` of a block. */
unsigned char *mr_prefix_piece_bytes(const struct mr_remote_prefix *prefix, uint32_t buffer,
                                     uint32_t piece);
struct mr_kv_place mr_prefix_place(const struct mr_remote_prefix *prefix, uint32_t block,
                                   uint32_t first);
/* Bytes that the KV of token_count tokens of one block takes in a value; 0 for 0 tokens. */
size_t mr_prefix_kv_bytes(const struct mr_remote_prefix *prefix, uint32_t token_count);
/* Chain key of the block before block number `block` of the job's prompt; the tenant's root key for
 * block 0. prefix->keys must hold the keys of all earlier blocks. */
const unsigned char *mr_prefix_parent(const struct mr_remote_prefix *prefix,
                                      const struct mr_job *job, uint32_t block);
/* _block_value, _piece_value and _entry_value make a value; the caller sets .bytes. key: chain key
 * of the block; parent: chain key of the full block before the piece that ends at token `end`. */
struct mr_remote_value mr_prefix_block_value(const struct mr_remote_prefix *prefix,
                                             const unsigned char *key);
struct mr_remote_value mr_prefix_piece_value(const struct mr_remote_prefix *prefix,
                                             const struct mr_sequence *sequence,
                                             const unsigned char *parent, uint32_t end);
struct mr_remote_value mr_prefix_entry_value(const struct mr_remote_prefix *prefix,
                                             const struct mr_sequence *sequence);
/* Bytes of the entry: the logits, then the KV of the tokens after the last whole piece. */
size_t mr_prefix_entry_bytes(const struct mr_remote_prefix *prefix,
                             const struct mr_sequence *sequence);
struct mr_token_span { /* tokens [begin, end) of a sequence */
    uint32_t begin, end;
};
/* The values of a load, by index. */
bool mr_prefix_load_is_entry(const struct mr_load_slot *load, uint32_t index);
struct mr_token_span mr_prefix_load_span(const struct mr_load_slot *load, uint32_t index);
size_t mr_prefix_load_length(const struct mr_remote_prefix *prefix, const struct mr_load_slot *load,
                             uint32_t index);
/* True when the value is received straight in its KV block. */
bool mr_prefix_load_is_direct(const struct mr_load_slot *load, uint32_t index);
/* Takes the staging buffers that the load needs and fills prefix->values and the load's states. */
void mr_prefix_load_fill(struct mr_remote_prefix *prefix, struct mr_load_slot *load);
/* Copies the KV of a value from its staging buffer into the sequence's block. False: failed. */
bool mr_prefix_load_import(struct mr_remote_prefix *prefix, struct mr_load_slot *load,
                           uint32_t index);
/* A load or store that used this table (NULL: none) has ended: destroys the table if this module
 * owns it and no other load or store uses it. */
void mr_prefix_table_done(struct mr_remote_prefix *prefix, struct mr_block_table *table);
void mr_prefix_check_tables(const struct mr_remote_prefix *prefix);

/* ---- lookup, load, store: an answer; the next timeout; invariants (_loads, _stores return the
 * staging buffers in use). soon_ns: when to check again while Redis may write a needed block. ----
 */
void mr_prefix_lookup_answered(struct mr_remote_prefix *prefix,
                               const struct mr_remote_answer *answer);
void mr_prefix_load_answered(struct mr_remote_prefix *prefix, const struct mr_remote_answer *answer,
                             uint64_t now_ns);
void mr_prefix_store_answered(struct mr_remote_prefix *prefix,
                              const struct mr_remote_answer *answer);
uint64_t mr_prefix_lookup_next_ns(const struct mr_remote_prefix *prefix, uint64_t now_ns);
uint64_t mr_prefix_load_next_ns(const struct mr_remote_prefix *prefix, uint64_t soon_ns);
void mr_prefix_expire_loads(struct mr_remote_prefix *prefix, uint64_t now_ns);
void mr_prefix_check_lookups(const struct mr_remote_prefix *prefix);
uint32_t mr_prefix_check_loads(const struct mr_remote_prefix *prefix);
uint32_t mr_prefix_check_stores(const struct mr_remote_prefix *prefix);

#endif
