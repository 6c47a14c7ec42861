/* Compares the whole cache with an oracle that has every token ever published, over random
 * histories of sequences that start, compute, publish, are preempted, match again and end.
 *
 * The test also stands in for the model: contents[block][i] identifies the text whose KV was
 * written there, by a hash over the tenant and all tokens up to that one. So a block given to the
 * wrong sequence, overwritten while shared or copied wrongly has wrong contents. With
 * sliding-window layers the same holds for the slots inside a window. */
#include "kvcache/kv_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BT            MR_BLOCK_TOKENS
#define TOKENS_MAX    (5 * BT)
#define SEQUENCES_MAX 6u
#define TENANTS       2u
#define HISTORY_MAX   4096u
#define STEP          (BT - BT / 4) /* most tokens of a step, with sliding-window layers */

struct text {
    uint32_t tenant, count;
    uint32_t tokens[TOKENS_MAX];
};

struct sequence {
    struct mr_block_table *table; /* NULL: no sequence here */
    struct text text;             /* all tokens it will have */
    uint32_t computed;
};

struct world {
    struct mr_kv_cache *cache;
    uint32_t block_count;
    uint64_t *contents;          /* [block_count * BT] */
    uint32_t slot_count, window; /* of sliding-window layers; 0: none */
    uint64_t *sliding;           /* [slot_count * BT] */
    unsigned char roots[TENANTS][MR_HASH_BYTES];
    struct sequence sequences[SEQUENCES_MAX];
    struct text *history; /* [HISTORY_MAX] published contents: tenant and tokens */
    uint32_t history_count;
    uint64_t seed, now_ns;
    uint32_t hits;
};

static uint32_t draw(struct world *world, uint32_t below)
{
    world->seed = world->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(world->seed >> 33) % below;
}

static uint64_t extend(uint64_t hash, uint32_t token)
{
    hash ^= token + 0x9e3779b97f4a7c15u;
    hash *= 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 32);
}

static uint32_t common(const uint32_t *one, const uint32_t *two, uint32_t most)
{
    uint32_t run = 0;
    while (run < most && one[run] == two[run])
        run++;
    return run;
}

/* ---- the oracle ---- */

static void remember(struct world *world, const struct sequence *sequence, uint32_t count)
{
    assert_true(world->history_count < HISTORY_MAX);
    struct text *text = &world->history[world->history_count++];
    text->tenant = sequence->text.tenant;
    text->count = count;
    memcpy(text->tokens, sequence->text.tokens, count * sizeof *text->tokens);
}

/* Longest prefix of tokens that was ever published under this tenant. */
static uint32_t ever_published(const struct world *world, const struct text *text, uint32_t limit)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < world->history_count; i++) {
        const struct text *old = &world->history[i];
        if (old->tenant != text->tenant) continue;
        uint32_t run = common(old->tokens, text->tokens, old->count < limit ? old->count : limit);
        if (run > best) best = run;
    }
    return best;
}

/* Longest prefix that running sequences hold in full published blocks: it cannot be evicted. */
static uint32_t surely_there(const struct world *world, const struct text *text, uint32_t limit)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < SEQUENCES_MAX; i++) {
        const struct sequence *other = &world->sequences[i];
        if (other->table == NULL || other->text.tenant != text->tenant) continue;
        uint32_t full = other->table->published_tokens / BT * BT;
        uint32_t run = common(other->text.tokens, text->tokens, full < limit ? full : limit);
        if (run > best) best = run;
    }
    return best;
}

static void assert_contents(const struct world *world, const struct sequence *sequence)
{
    uint64_t hash = sequence->text.tenant;
    for (uint32_t i = 0; i < sequence->computed; i++) {
        hash = extend(hash, sequence->text.tokens[i]);
        mr_block_id id = sequence->table->blocks[i / BT];
        assert_true(world->contents[(size_t)id * BT + i % BT] == hash);
        if (world->slot_count == 0 || i + world->window <= sequence->computed) continue;
        uint32_t slot = mr_kv_cache_slot(world->cache, id);
        assert_true(world->sliding[(size_t)slot * BT + i % BT] == hash);
    }
}

static void assert_world(const struct world *world)
{
    struct mr_kv_cache_stats stats = mr_kv_cache_stats(world->cache);
    assert_int_equal(stats.free_count + stats.cached_count + stats.held_count, world->block_count);
    assert_true(stats.slot_count == world->slot_count);
    assert_true(stats.slots_free + stats.slots_cached <= stats.slot_count);
    mr_kv_cache_check(world->cache);
    for (uint32_t i = 0; i < SEQUENCES_MAX; i++)
        if (world->sequences[i].table != NULL) assert_contents(world, &world->sequences[i]);
}

/* ---- the engine's part ---- */

/* A text that begins like an earlier one and then differs. */
static void invent(struct world *world, struct text *text)
{
    text->tenant = draw(world, TENANTS);
    text->count = 2 + draw(world, TOKENS_MAX - 2);
    uint32_t same = 0;
    if (world->history_count > 0 && draw(world, 8) > 0) {
        const struct text *old = &world->history[draw(world, world->history_count)];
        uint32_t most = old->count < text->count ? old->count : text->count;
        same = draw(world, 3) == 0 ? most : draw(world, most + 1);
        memcpy(text->tokens, old->tokens, same * sizeof *text->tokens);
    }
    for (uint32_t i = same; i < text->count; i++)
        text->tokens[i] = draw(world, 3);
}

static void run_copy(struct world *world, struct sequence *sequence, struct mr_kv_match *match)
{
    if (match->copy_tokens > 0 && draw(world, 4) == 0) assert_world(world);
    mr_kv_window_slide(sequence->table, match->token_count, match->token_count);
    for (uint32_t i = 0; i < match->copy_tokens; i++) {
        world->contents[(size_t)match->copy_to * BT + i] =
            world->contents[(size_t)match->copy_from * BT + i];
        if (world->slot_count == 0) continue;
        size_t from = mr_kv_cache_slot(world->cache, match->copy_from);
        size_t to = mr_kv_cache_slot(world->cache, match->copy_to);
        world->sliding[to * BT + i] = world->sliding[from * BT + i];
    }
    mr_kv_cache_copied(sequence->table, match);
}

static void match(struct world *world, struct sequence *sequence)
{
    const struct text *text = &sequence->text;
    struct mr_kv_match found;
    uint32_t probed =
        mr_kv_cache_probe(world->cache, world->roots[text->tenant], text->tokens, text->count);
    uint32_t most = ever_published(world, text, text->count - 1);
    assert_true(probed <= most);
    if (world->slot_count == 0) {
        assert_true(probed >= surely_there(world, text, text->count - 1));
        if (mr_kv_cache_stats(world->cache).evictions == 0) assert_int_equal(probed, most);
    }
    bool whole = draw(world, 4) == 0 &&
                 mr_kv_cache_match_whole(sequence->table, text->tokens, text->count, &found);
    if (whole)
        assert_int_equal(found.token_count, text->count);
    else
        mr_kv_cache_match(sequence->table, text->tokens, text->count, &found);
    if (!whole) assert_true(found.token_count == probed || found.token_count == probed / BT * BT);
    bool reserved = mr_kv_window_reserve(sequence->table, text->count, draw(world, 16) == 0);
    if (!reserved || draw(world, 16) == 0) { /* preempted before the copy was made */
        if (world->now_ns % 4 == 0) mr_kv_cache_keep(sequence->table, world->now_ns + 40);
        mr_block_table_clear(sequence->table, ++world->now_ns);
        mr_kv_cache_copied(sequence->table, &found);
        return;
    }
    run_copy(world, sequence, &found);
    sequence->computed = found.token_count;
    world->hits += found.token_count > 0;
}

static void start(struct world *world, struct sequence *sequence)
{
    invent(world, &sequence->text);
    sequence->computed = 0;
    sequence->table = mr_block_table_create(world->cache, world->roots[sequence->text.tenant]);
    assert_non_null(sequence->table);
    match(world, sequence);
}

static void preempt(struct world *world, struct sequence *sequence)
{
    if (world->now_ns % 4 == 0) mr_kv_cache_keep(sequence->table, world->now_ns + 40);
    mr_block_table_clear(sequence->table, ++world->now_ns);
    sequence->computed = 0;
}

static void compute(struct world *world, struct sequence *sequence)
{
    uint32_t to = sequence->computed + draw(world, sequence->text.count - sequence->computed + 1);
    if (world->slot_count > 0 && to > sequence->computed + STEP) to = sequence->computed + STEP;
    if (!mr_kv_window_reserve(sequence->table, sequence->text.count, false)) {
        preempt(world, sequence);
        return;
    }
    if (mr_kv_cache_reserve(sequence->table, to) != MR_OK) {
        uint32_t missing = (to + BT - 1) / BT - sequence->table->block_count;
        assert_true(missing > mr_kv_cache_available(world->cache));
        preempt(world, sequence);
        return;
    }
    uint64_t hash = sequence->text.tenant;
    mr_kv_window_slide(sequence->table, sequence->computed, to);
    for (uint32_t i = 0; i < to; i++) {
        hash = extend(hash, sequence->text.tokens[i]);
        if (i < sequence->computed) continue;
        world->contents[(size_t)sequence->table->blocks[i / BT] * BT + i % BT] = hash;
        if (world->slot_count == 0) continue;
        world->sliding[(size_t)sequence->table->slots[i / BT] * BT + i % BT] = hash;
    }
    sequence->computed = to;
}

static void publish(struct world *world, struct sequence *sequence, bool final)
{
    if (sequence->computed < sequence->table->published_tokens) return;
    mr_kv_cache_publish(sequence->table, sequence->text.tokens, sequence->computed, final);
    remember(world, sequence, final ? sequence->computed : sequence->computed / BT * BT);
}

static void finish(struct world *world, struct sequence *sequence)
{
    if (draw(world, 4) > 0) publish(world, sequence, true);
    if (world->now_ns % 3 == 0) mr_kv_cache_keep(sequence->table, world->now_ns + 40);
    mr_block_table_destroy(sequence->table, ++world->now_ns);
    sequence->table = NULL;
}

static void turn(struct world *world)
{
    struct sequence *sequence = &world->sequences[draw(world, SEQUENCES_MAX)];
    if (sequence->table == NULL) {
        start(world, sequence);
        return;
    }
    switch (draw(world, 8)) {
    case 0:
        finish(world, sequence);
        break;
    case 1:
        preempt(world, sequence);
        break;
    case 2:
        preempt(world, sequence);
        match(world, sequence);
        break;
    case 3:
    case 4:
        publish(world, sequence, draw(world, 3) == 0);
        break;
    default:
        compute(world, sequence);
        publish(world, sequence, false);
    }
}

static struct world world_of(uint32_t block_count, uint64_t seed)
{
    return (struct world){.block_count = block_count, .seed = seed};
}

static void live(struct world world, uint32_t turns, bool evicts)
{
    uint32_t block_count = world.block_count;
    struct mr_kv_cache_options options = {.block_count = block_count,
                                          .sequence_tokens_max = TOKENS_MAX,
                                          .sequences_max = SEQUENCES_MAX,
                                          .kept_max = block_count / 3,
                                          .prefix_cache = true,
                                          .window_slots = world.slot_count,
                                          .window_tokens = world.window,
                                          .step_tokens = STEP};
    assert_int_equal(mr_kv_cache_create(&world.cache, &options, NULL), MR_OK);
    world.contents = calloc((size_t)block_count * BT, sizeof *world.contents);
    world.sliding = calloc((size_t)world.slot_count * BT + 1, sizeof *world.sliding);
    world.history = calloc(HISTORY_MAX, sizeof *world.history);
    assert_true(world.contents != NULL && world.sliding != NULL && world.history != NULL);
    struct mr_kv_fingerprint fingerprint = {{9}};
    mr_kv_cache_namespace(&fingerprint, "one", world.roots[0]);
    mr_kv_cache_namespace(&fingerprint, "two", world.roots[1]);
    for (uint32_t i = 0; i < turns; i++) {
        turn(&world);
        assert_world(&world);
    }
    for (uint32_t i = 0; i < SEQUENCES_MAX; i++)
        mr_block_table_destroy(world.sequences[i].table, ++world.now_ns);
    struct mr_kv_cache_stats stats = mr_kv_cache_stats(world.cache);
    assert_int_equal(stats.held_count, 0);
    assert_int_equal(stats.slots_free + stats.slots_cached, world.slot_count);
    assert_true(stats.evictions > 0 ? evicts : !evicts);
    assert_true(world.hits > turns / 100);
    assert_true(stats.copies > 0);
    mr_kv_cache_check(world.cache);
    mr_kv_cache_destroy(world.cache);
    free(world.history);
    free(world.sliding);
    free(world.contents);
}

/* With room for everything, every published token must be found. */
static void with_room_for_all_a_match_is_as_long_as_the_oracles(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        live(world_of(900, seed), 400, false);
}

static void a_small_pool_evicts_and_stays_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        live(world_of(7, 100 + seed), 4000, true);
        live(world_of(24, 200 + seed), 4000, true);
        live(world_of(60, 300 + seed), 4000, true);
    }
}

static void fewer_slots_than_blocks_hold_all_that_a_window_needs(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, BT / 2, BT, BT + 1, 2 * BT - 1};
    for (uint32_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        struct world world = world_of(60, 400 + i);
        world.window = windows[i];
        world.slot_count = 6 + i; /* the minimum, a window and a step, is 5 */
        live(world, 4000, true);
        world.seed += 100;
        world.slot_count = 40;
        live(world, 4000, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_room_for_all_a_match_is_as_long_as_the_oracles),
        cmocka_unit_test(a_small_pool_evicts_and_stays_exact),
        cmocka_unit_test(fewer_slots_than_blocks_hold_all_that_a_window_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
