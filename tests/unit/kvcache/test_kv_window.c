#include "kvcache/kv_window.h"

#include "kvcache/kv_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define BT         MR_BLOCK_TOKENS
#define STEP       (BT / 2)
#define WINDOW     (BT + 8)
#define TOKENS_MAX (12 * BT)
#define SLOTS      7u

/* Slots of a long sequence: a window, a step, and the source of a copy. */
#define LONG_SLOTS ((WINDOW - 1 + STEP) / BT + 3)

static const unsigned char root[MR_HASH_BYTES] = {7};

static struct mr_kv_cache *cache_of(uint32_t slots)
{
    struct mr_kv_cache *cache = NULL;
    struct mr_kv_cache_options options = {.block_count = 64,
                                          .sequence_tokens_max = TOKENS_MAX,
                                          .sequences_max = 4,
                                          .prefix_cache = true,
                                          .window_slots = slots,
                                          .window_tokens = WINDOW,
                                          .step_tokens = STEP};
    assert_int_equal(mr_kv_cache_create(&cache, &options, NULL), MR_OK);
    return cache;
}

static const uint32_t *tokens_of(uint32_t salt)
{
    static uint32_t tokens[TOKENS_MAX];
    for (uint32_t i = 0; i < TOKENS_MAX; i++)
        tokens[i] = i * 31 + salt;
    return tokens;
}

static uint32_t held_slots(const struct mr_kv_cache *cache)
{
    struct mr_kv_cache_stats stats = mr_kv_cache_stats(cache);
    return stats.slot_count - stats.slots_free - stats.slots_cached;
}

/* Computes tokens [from, to) step by step, publishing as the engine does. */
static void compute(struct mr_block_table *table, const uint32_t *tokens, uint32_t from,
                    uint32_t to)
{
    for (uint32_t at = from; at < to; at += STEP) {
        uint32_t end = at + STEP < to ? at + STEP : to;
        assert_int_equal(mr_kv_cache_reserve(table, end), MR_OK);
        mr_kv_window_slide(table, at, end);
        assert_true(held_slots(table->cache) < LONG_SLOTS);
        mr_kv_cache_publish(table, tokens, end, end == to);
        mr_kv_cache_check(table->cache);
    }
}

static void a_sequence_of_any_length_needs_a_window_and_a_step(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(LONG_SLOTS);
    struct mr_block_table *table = mr_block_table_create(cache, root);
    assert_true(mr_kv_window_reserve(table, TOKENS_MAX, false));
    compute(table, tokens_of(1), 0, TOKENS_MAX);
    assert_int_equal(table->block_count, TOKENS_MAX / BT);
    mr_block_table_destroy(table, 1);
    assert_int_equal(held_slots(cache), 0);
    mr_kv_cache_destroy(cache);
}

static void reserved_slots_are_not_given_to_other_tables(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(SLOTS);
    struct mr_block_table *one = mr_block_table_create(cache, root);
    struct mr_block_table *two = mr_block_table_create(cache, root);
    assert_true(mr_kv_window_reserve(one, TOKENS_MAX, false));
    assert_true(
        mr_kv_window_reserve(one, TOKENS_MAX, false)); /* reserving the same again adds nothing */
    assert_false(mr_kv_window_reserve(one, TOKENS_MAX, true));
    assert_true(mr_kv_window_reserve(two, 2 * BT, false)); /* a short sequence needs fewer */
    assert_false(mr_kv_window_reserve(two, TOKENS_MAX, false));
    mr_kv_cache_check(cache);
    mr_block_table_clear(one, 1);
    assert_true(mr_kv_window_reserve(two, TOKENS_MAX, false));
    mr_block_table_destroy(two, 2);
    mr_block_table_destroy(one, 2);
    mr_kv_cache_destroy(cache);
}

static void a_prefix_is_found_while_its_last_window_is_there(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(SLOTS);
    struct mr_kv_match match;
    const uint32_t *tokens = tokens_of(1);
    struct mr_block_table *table = mr_block_table_create(cache, root);
    assert_true(mr_kv_window_reserve(table, TOKENS_MAX, false));
    compute(table, tokens, 0, TOKENS_MAX);
    mr_block_table_destroy(table, 1);
    /* The slots of the first blocks have been reused for the last ones. */
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, 2 * BT), 0);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, TOKENS_MAX), TOKENS_MAX - 1);
    table = mr_block_table_create(cache, root);
    mr_kv_cache_match(table, tokens, TOKENS_MAX, &match);
    assert_int_equal(match.token_count, TOKENS_MAX - 1);
    assert_true(held_slots(cache) <= 3);
    assert_true(mr_kv_cache_is_complete(cache, table->blocks[TOKENS_MAX / BT - 2]));
    assert_false(mr_kv_cache_is_complete(cache, table->blocks[0]));
    mr_kv_cache_copied(table, &match);
    mr_block_table_destroy(table, 2);
    mr_kv_cache_check(cache);
    mr_kv_cache_destroy(cache);
}

static void blocks_computed_again_pass_their_slots_to_the_indexed_ones(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(LONG_SLOTS);
    const uint32_t *tokens = tokens_of(1);
    for (uint32_t turn = 0; turn < 3; turn++) {
        struct mr_block_table *table = mr_block_table_create(cache, root);
        assert_true(mr_kv_window_reserve(table, TOKENS_MAX, false));
        compute(table, tokens, 0, TOKENS_MAX);
        mr_block_table_destroy(table, turn);
        assert_int_equal(mr_kv_cache_stats(cache).cached_count, TOKENS_MAX / BT);
    }
    mr_kv_cache_check(cache);
    mr_kv_cache_destroy(cache);
}

static void fewer_slots_than_one_sequence_needs_are_refused(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = NULL;
    struct mr_error err = {0};
    struct mr_kv_cache_options options = {.block_count = 64,
                                          .sequence_tokens_max = TOKENS_MAX,
                                          .sequences_max = 4,
                                          .window_slots = LONG_SLOTS - 1,
                                          .window_tokens = WINDOW,
                                          .step_tokens = STEP};
    assert_int_equal(mr_kv_cache_create(&cache, &options, &err), MR_BAD_CONFIG);
    assert_null(cache);
    options.sequence_tokens_max = BT; /* short sequences fit */
    assert_int_equal(mr_kv_cache_create(&cache, &options, &err), MR_OK);
    mr_kv_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_of_any_length_needs_a_window_and_a_step),
        cmocka_unit_test(reserved_slots_are_not_given_to_other_tables),
        cmocka_unit_test(a_prefix_is_found_while_its_last_window_is_there),
        cmocka_unit_test(blocks_computed_again_pass_their_slots_to_the_indexed_ones),
        cmocka_unit_test(fewer_slots_than_one_sequence_needs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
