#include "kvcache/kv_window.h"

#include "codec/check.h"
#include "kvcache/window_pool.h"

#include <stdlib.h>
#include <string.h>

/* one slot more than the sequence's own: for the cached block from which a partial prefix hit
 * copies its tokens */
#define COPY_SLOTS 1u

struct mr_kv_window {
    struct mr_window_pool *slots;
    struct mr_block_pool *pool;
    uint32_t window_tokens, step_tokens, block_count;
    uint32_t reserved_slots; /* slots reserved by all tables together */
    /* [block_count] tables that hold each block's slot, counted by _check only */
    uint32_t *recount;
};

uint32_t mr_kv_window_blocks(uint32_t window_tokens, uint32_t step_tokens)
{
    return (window_tokens - 1 + step_tokens) / MR_BLOCK_TOKENS + 2;
}

enum mr_status mr_kv_window_create(struct mr_kv_window **out,
                                   const struct mr_kv_window_options *options, struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(options->window_tokens > 0 && options->step_tokens > 0);
    uint32_t least = mr_kv_window_blocks(options->window_tokens, options->step_tokens);
    uint32_t all = mr_blocks_for(options->sequence_tokens_max);
    least = (least < all ? least : all) + COPY_SLOTS;
    if (options->slot_count < least)
        return mr_fail(err, MR_BAD_CONFIG,
                       "the KV memory has %u blocks for sliding-window layers, a sequence needs %u",
                       options->slot_count, least);
    struct mr_kv_window *window = calloc(1, sizeof *window);
    if (window == NULL) goto fail;
    window->recount = calloc(options->block_count, sizeof *window->recount);
    if (window->recount == NULL) goto fail_window;
    window->pool = options->pool;
    window->window_tokens = options->window_tokens;
    window->step_tokens = options->step_tokens;
    window->block_count = options->block_count;
    enum mr_status status =
        mr_window_pool_create(&window->slots, options->slot_count, options->block_count, err);
    if (status != MR_OK) {
        mr_kv_window_destroy(window);
        return status;
    }
    *out = window;
    return MR_OK;

fail_window:
    mr_kv_window_destroy(window);
fail:
    return mr_fail(err, MR_NOMEM, "no memory for the slots of sliding-window layers");
}

void mr_kv_window_destroy(struct mr_kv_window *window)
{
    if (window == NULL) return;
    mr_window_pool_destroy(window->slots);
    free(window->recount);
    free(window);
}

uint32_t mr_kv_window_first_block(const struct mr_kv_window *window, uint32_t position)
{
    if (position < window->window_tokens) return 0;
    return (position - window->window_tokens + 1) / MR_BLOCK_TOKENS;
}

uint32_t mr_kv_window_slot(const struct mr_kv_window *window, mr_block_id id)
{
    return mr_window_pool_slot(window->slots, id);
}

void mr_kv_window_hold(struct mr_kv_window *window, mr_block_id id)
{
    bool held = mr_window_pool_hold(window->slots, id);
    MR_ASSERT(held); /* hold never fails: the block has a slot, or one is reserved for the block */
}

void mr_kv_window_release(struct mr_kv_window *window, mr_block_id id)
{
    mr_window_pool_release(window->slots, id, mr_block_pool_is_marked(window->pool, id));
}

void mr_kv_window_drop(struct mr_kv_window *window, mr_block_id id)
{
    if (window != NULL) mr_window_pool_drop(window->slots, id);
}

static void hold_block(struct mr_block_table *table, uint32_t i)
{
    mr_kv_window_hold(table->window, table->blocks[i]);
    table->slots[i] = mr_kv_window_slot(table->window, table->blocks[i]);
}

void mr_kv_window_release_all(struct mr_block_table *table)
{
    while (table->window_end > table->window_begin)
        mr_kv_window_release(table->window, table->blocks[--table->window_end]);
    table->window_begin = table->window_end = 0;
}

void mr_kv_window_unreserve(struct mr_block_table *table)
{
    if (table->window != NULL) table->window->reserved_slots -= table->reserved_slots;
    table->reserved_slots = table->running_slots = 0;
}

void mr_kv_window_hold_matched(struct mr_block_table *table, uint32_t position)
{
    if (table->window == NULL) return;
    table->window_begin = table->window_end = mr_kv_window_first_block(table->window, position);
    for (; table->window_end < table->block_count; table->window_end++)
        hold_block(table, table->window_end);
}

void mr_kv_window_replace(struct mr_block_table *table, uint32_t i, mr_block_id to)
{
    if (table->window == NULL) return;
    struct mr_window_pool *slots = table->window->slots;
    mr_block_id from = table->blocks[i];
    if (mr_window_pool_slot(slots, from) == MR_SLOT_NONE) return;
    bool held = i >= table->window_begin && i < table->window_end;
    if (mr_window_pool_slot(slots, to) == MR_SLOT_NONE) {
        mr_window_pool_move(slots, from, to);
    } else if (held) {
        mr_kv_window_hold(table->window, to);
        mr_window_pool_release(slots, from, false);
    }
    if (held) table->slots[i] = mr_window_pool_slot(slots, to);
}

bool mr_kv_window_reserve(struct mr_block_table *table, uint32_t token_count, bool all)
{
    struct mr_kv_window *window = table->window;
    if (window == NULL) return true;
    uint32_t slots = mr_blocks_for(token_count);
    uint32_t most = mr_kv_window_blocks(window->window_tokens, window->step_tokens);
    slots = (all || slots < most ? slots : most) + COPY_SLOTS;
    if (!all) table->running_slots = slots;
    if (slots <= table->reserved_slots) return true;
    uint32_t more = slots - table->reserved_slots;
    if (window->reserved_slots + more > mr_window_pool_slot_count(window->slots)) return false;
    window->reserved_slots += more;
    table->reserved_slots = slots;
    return true;
}

void mr_kv_window_slide(struct mr_block_table *table, uint32_t computed, uint32_t end)
{
    struct mr_kv_window *window = table->window;
    if (window == NULL) return;
    uint32_t first = mr_kv_window_first_block(window, computed), last = mr_blocks_for(end);
    MR_ASSERT(last <= table->block_count && table->window_begin <= first);
    while (table->window_begin < first && table->window_begin < table->window_end)
        mr_kv_window_release(window, table->blocks[table->window_begin++]);
    if (table->window_begin < first) table->window_begin = table->window_end = first;
    for (; table->window_end < last; table->window_end++)
        hold_block(table, table->window_end);
    uint32_t held = table->window_end - table->window_begin + COPY_SLOTS;
    MR_ASSERT(held <= table->reserved_slots);
    if (held > table->running_slots) return;
    window->reserved_slots -= table->reserved_slots - table->running_slots;
    table->reserved_slots = table->running_slots;
}

struct mr_kv_window_stats mr_kv_window_stats(const struct mr_kv_window *window)
{
    if (window == NULL) return (struct mr_kv_window_stats){0};
    return (struct mr_kv_window_stats){mr_window_pool_slot_count(window->slots),
                                       mr_window_pool_free(window->slots),
                                       mr_window_pool_cached(window->slots)};
}

static void recount_holders(const struct mr_kv_window *window, const struct mr_block_table *table)
{
    for (uint32_t i = table->window_begin; i < table->window_end; i++) {
        window->recount[table->blocks[i]]++;
        MR_ASSERT(table->slots[i] == mr_kv_window_slot(window, table->blocks[i]));
    }
    if (table->copy_from != MR_BLOCK_NONE) window->recount[table->copy_from]++;
}

void mr_kv_window_check(const struct mr_kv_window *window, const struct mr_block_tables *tables)
{
    uint32_t reserved = 0;
    const struct mr_block_table *table;
    if (window == NULL) return;
    mr_window_pool_check(window->slots);
    memset(window->recount, 0, window->block_count * sizeof *window->recount);
    for (uint32_t t = 0; (table = mr_block_tables_at(tables, t)) != NULL; t++) {
        reserved += table->reserved_slots;
        recount_holders(window, table);
    }
    MR_ASSERT(reserved == window->reserved_slots);
    MR_ASSERT(reserved <= mr_window_pool_slot_count(window->slots));
    for (mr_block_id id = 0; id < window->block_count; id++) {
        MR_ASSERT(mr_window_pool_references(window->slots, id) == window->recount[id]);
        MR_ASSERT(mr_window_pool_slot(window->slots, id) == MR_SLOT_NONE ||
                  mr_block_pool_references(window->pool, id) > 0 ||
                  mr_block_pool_is_marked(window->pool, id));
    }
}
