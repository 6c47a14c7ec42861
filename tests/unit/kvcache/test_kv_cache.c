#include "kvcache/kv_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BT         MR_BLOCK_TOKENS
#define TOKENS_MAX (6 * BT)
#define SEQUENCES  4u

static const struct mr_kv_fingerprint fingerprint = {{1, 2, 3}};
static unsigned char root[MR_HASH_BYTES];

static struct mr_kv_cache *cache_of(uint32_t block_count)
{
    struct mr_kv_cache *cache = NULL;
    struct mr_kv_cache_options options = {.block_count = block_count,
                                          .sequence_tokens_max = TOKENS_MAX,
                                          .sequences_max = SEQUENCES,
                                          .prefix_cache = true};
    assert_int_equal(mr_kv_cache_create(&cache, &options, NULL), MR_OK);
    mr_kv_cache_namespace(&fingerprint, "default", root);
    return cache;
}

static void check_and_destroy(struct mr_kv_cache *cache, uint32_t held)
{
    struct mr_kv_cache_stats stats = mr_kv_cache_stats(cache);
    assert_int_equal(stats.free_count + stats.cached_count + stats.held_count, stats.block_count);
    assert_int_equal(stats.held_count, held);
    mr_kv_cache_check(cache);
    mr_kv_cache_destroy(cache);
}

/* Ascending token ids; from index `same` on, the ids of another text. */
static void fill(uint32_t *tokens, uint32_t count, uint32_t same, uint32_t other)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = i < same ? i : other + i;
}

/* A running sequence that has computed count tokens. */
static struct mr_block_table *computed(struct mr_kv_cache *cache, const unsigned char *of_root,
                                       const uint32_t *tokens, uint32_t count, bool final)
{
    struct mr_block_table *table = mr_block_table_create(cache, of_root);
    assert_non_null(table);
    assert_int_equal(mr_kv_cache_reserve(table, count), MR_OK);
    mr_kv_cache_publish(table, tokens, count, final);
    return table;
}

static void an_unknown_prompt_matches_nothing(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(4);
    uint32_t tokens[8] = {0};
    struct mr_block_table *table = mr_block_table_create(cache, root);
    struct mr_kv_match match;
    mr_kv_cache_match(table, tokens, 8, &match);
    assert_int_equal(match.token_count, 0);
    assert_int_equal(match.copy_tokens, 0);
    mr_kv_cache_match(table, tokens, 0, &match);
    assert_int_equal(match.token_count, 0);
    mr_block_table_destroy(table, 1);
    check_and_destroy(cache, 0);
}

static void a_running_sequence_shares_its_full_blocks(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[3 * BT];
    fill(tokens, 3 * BT, 3 * BT, 0);
    struct mr_block_table *first = computed(cache, root, tokens, 2 * BT + 3, false);
    struct mr_block_table *second = mr_block_table_create(cache, root);
    struct mr_kv_match match;
    mr_kv_cache_match(second, tokens, 3 * BT, &match);
    assert_int_equal(match.token_count, 2 * BT);
    assert_int_equal(match.copy_tokens, 0);
    assert_int_equal(second->blocks[0], first->blocks[0]);
    assert_int_equal(second->blocks[1], first->blocks[1]);
    assert_int_equal(mr_kv_cache_stats(cache).held_count, 3);
    mr_block_table_destroy(first, 1);
    mr_block_table_destroy(second, 2);
    check_and_destroy(cache, 0);
}

static void a_match_is_exact_to_the_token_by_a_copy(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[2 * BT], other[2 * BT];
    fill(tokens, 2 * BT, 2 * BT, 0);
    fill(other, 2 * BT, BT + 5, 7000);
    struct mr_block_table *first = computed(cache, root, tokens, 2 * BT, false);
    struct mr_block_table *second = mr_block_table_create(cache, root);
    assert_int_equal(mr_kv_cache_probe(cache, root, other, 2 * BT), BT + 5);
    struct mr_kv_match match;
    mr_kv_cache_match(second, other, 2 * BT, &match);
    assert_int_equal(match.token_count, BT + 5);
    assert_int_equal(match.copy_tokens, 5);
    assert_int_equal(match.copy_from, first->blocks[1]);
    assert_int_equal(match.copy_to, second->blocks[1]);
    assert_int_not_equal(match.copy_from, match.copy_to);
    mr_kv_cache_check(cache);
    mr_kv_cache_copied(second, &match);
    assert_int_equal(match.copy_tokens, 0);
    assert_int_equal(mr_kv_cache_stats(cache).copies, 1);
    mr_block_table_destroy(first, 1);
    mr_block_table_destroy(second, 2);
    check_and_destroy(cache, 0);
}

static void one_token_is_always_left_to_compute(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[BT];
    fill(tokens, BT, BT, 0);
    mr_block_table_destroy(computed(cache, root, tokens, BT, true), 1);
    struct mr_block_table *table = mr_block_table_create(cache, root);
    struct mr_kv_match match;
    mr_kv_cache_match(table, tokens, BT, &match);
    assert_int_equal(match.token_count, BT - 1);
    assert_int_equal(match.copy_tokens, BT - 1);
    mr_kv_cache_copied(table, &match);
    mr_block_table_destroy(table, 2);
    check_and_destroy(cache, 0);
}

static void a_whole_prompt_is_matched_when_its_logits_are_known(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[BT + 4];
    fill(tokens, BT + 4, BT + 4, 0);
    mr_block_table_destroy(computed(cache, root, tokens, BT + 4, true), 1);
    struct mr_block_table *table = mr_block_table_create(cache, root);
    struct mr_kv_match match;
    assert_true(mr_kv_cache_match_whole(table, tokens, BT, &match));
    assert_int_equal(match.token_count, BT);
    assert_int_equal(match.copy_tokens, 0);
    assert_true(mr_kv_cache_match_whole(table, tokens, BT + 4, &match));
    assert_int_equal(match.copy_tokens, 4);
    mr_kv_cache_copied(table, &match);
    tokens[BT + 3] = 99;
    assert_false(mr_kv_cache_match_whole(table, tokens, BT + 4, &match));
    assert_int_equal(match.token_count, 0);
    assert_int_equal(table->block_count, 0);
    mr_block_table_destroy(table, 2);
    check_and_destroy(cache, 0);
}

static void a_prompt_key_names_tenant_and_tokens(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(1);
    unsigned char other[MR_HASH_BYTES], keys[3][MR_HASH_BYTES];
    uint32_t tokens[2] = {1, 2};
    mr_kv_cache_namespace(&fingerprint, "other", other);
    mr_kv_cache_prompt_key(cache, root, tokens, 2, keys[0]);
    mr_kv_cache_prompt_key(cache, root, tokens, 1, keys[1]);
    mr_kv_cache_prompt_key(cache, other, tokens, 2, keys[2]);
    assert_memory_not_equal(keys[0], keys[1], MR_HASH_BYTES);
    assert_memory_not_equal(keys[0], keys[2], MR_HASH_BYTES);
    check_and_destroy(cache, 0);
}

static void a_published_tail_may_grow_and_be_published_again(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[2 * BT];
    fill(tokens, 2 * BT, 2 * BT, 0);
    struct mr_block_table *table = computed(cache, root, tokens, 5, true);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, 2 * BT), 5);
    mr_kv_cache_publish(table, tokens, 9, false);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, 2 * BT), 5);
    mr_kv_cache_publish(table, tokens, 9, true);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, 2 * BT), 9);
    assert_int_equal(mr_kv_cache_reserve(table, BT + 1), MR_OK);
    mr_kv_cache_publish(table, tokens, BT + 1, true);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, 2 * BT), BT + 1);
    mr_kv_cache_check(cache);
    mr_block_table_destroy(table, 1);
    check_and_destroy(cache, 0);
}

static void equal_full_blocks_are_stored_once(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[2 * BT];
    fill(tokens, 2 * BT, 2 * BT, 0);
    struct mr_block_table *first = computed(cache, root, tokens, BT + 2, false);
    struct mr_block_table *twin = computed(cache, root, tokens, BT + 2, false);
    assert_int_equal(twin->blocks[0], first->blocks[0]);
    assert_int_not_equal(twin->blocks[1], first->blocks[1]);
    assert_int_equal(mr_kv_cache_stats(cache).held_count, 3);
    mr_kv_cache_check(cache);
    mr_block_table_destroy(first, 1);
    mr_block_table_destroy(twin, 2);
    check_and_destroy(cache, 0);
}

static void a_shorter_unused_tail_is_replaced_by_its_continuation(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[BT];
    fill(tokens, BT, BT, 0);
    mr_block_table_destroy(computed(cache, root, tokens, 4, true), 1);
    assert_int_equal(mr_kv_cache_stats(cache).cached_count, 1);
    mr_block_table_destroy(computed(cache, root, tokens, 7, true), 2);
    assert_int_equal(mr_kv_cache_stats(cache).cached_count, 1);
    mr_block_table_destroy(computed(cache, root, tokens, 3, true), 3);
    assert_int_equal(mr_kv_cache_stats(cache).cached_count, 1);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, BT), 7);
    check_and_destroy(cache, 0);
}

static void tenants_never_share(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    unsigned char other[MR_HASH_BYTES];
    mr_kv_cache_namespace(&fingerprint, "other", other);
    uint32_t tokens[2 * BT];
    fill(tokens, 2 * BT, 2 * BT, 0);
    mr_block_table_destroy(computed(cache, root, tokens, BT + 4, true), 1);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, 2 * BT), BT + 4);
    assert_int_equal(mr_kv_cache_probe(cache, other, tokens, 2 * BT), 0);
    struct mr_block_table *theirs = computed(cache, other, tokens, BT + 4, true);
    assert_int_equal(mr_kv_cache_stats(cache).cached_count, 2);
    mr_block_table_destroy(theirs, 2);
    assert_int_equal(mr_kv_cache_stats(cache).cached_count, 4);
    check_and_destroy(cache, 0);
}

static void a_chain_is_evicted_from_its_end(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(4);
    uint32_t tokens[4 * BT], other[4 * BT];
    fill(tokens, 4 * BT, 4 * BT, 0);
    fill(other, 4 * BT, 0, 9000);
    mr_block_table_destroy(computed(cache, root, tokens, 3 * BT, true), 77);
    assert_int_equal(mr_kv_cache_stats(cache).oldest_cached_ns, 77);
    assert_int_equal(mr_kv_cache_available(cache), 4);
    struct mr_block_table *table = mr_block_table_create(cache, root);
    for (uint32_t blocks = 2; blocks <= 4; blocks++) {
        assert_int_equal(mr_kv_cache_reserve(table, blocks * BT), MR_OK);
        assert_int_equal(mr_kv_cache_probe(cache, root, tokens, 4 * BT), (4 - blocks) * BT);
        mr_kv_cache_check(cache);
    }
    assert_int_equal(mr_kv_cache_reserve(table, 4 * BT + 1), MR_FULL);
    assert_int_equal(table->block_count, 4);
    assert_int_equal(mr_kv_cache_stats(cache).evictions, 3);
    assert_int_equal(mr_kv_cache_stats(cache).oldest_cached_ns, 0);
    mr_block_table_destroy(table, 1);
    check_and_destroy(cache, 0);
}

static void without_room_for_a_copy_the_whole_blocks_still_match(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(2);
    uint32_t tokens[2 * BT];
    fill(tokens, 2 * BT, 2 * BT, 0);
    struct mr_block_table *first = computed(cache, root, tokens, 2 * BT, false);
    struct mr_block_table *second = mr_block_table_create(cache, root);
    struct mr_kv_match match;
    mr_kv_cache_match(second, tokens, 2 * BT, &match);
    assert_int_equal(match.token_count, BT);
    assert_int_equal(match.copy_tokens, 0);
    assert_false(mr_kv_cache_match_whole(second, tokens, 2 * BT - 1, &match));
    mr_block_table_destroy(second, 1);
    mr_block_table_destroy(first, 1);
    /* The pool has no free block: the copy source must not be evicted to make room for its own
     * copy. */
    second = mr_block_table_create(cache, root);
    mr_kv_cache_match(second, tokens, 2 * BT, &match);
    assert_int_equal(match.token_count, BT);
    mr_block_table_destroy(second, 2);
    check_and_destroy(cache, 0);
}

static void a_cleared_table_finds_its_work_again(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[3 * BT];
    fill(tokens, 3 * BT, 3 * BT, 0);
    struct mr_block_table *table = computed(cache, root, tokens, 2 * BT + 1, true);
    mr_block_table_clear(table, 1);
    assert_int_equal(table->block_count, 0);
    struct mr_kv_match match;
    mr_kv_cache_match(table, tokens, 3 * BT, &match);
    assert_int_equal(match.token_count, 2 * BT + 1);
    mr_block_table_clear(table, 2); /* while a copy into the table is pending */
    mr_kv_cache_check(cache);
    mr_kv_cache_copied(table, &match);
    mr_kv_cache_check(cache);
    mr_block_table_destroy(table, 3);
    check_and_destroy(cache, 0);
}

static void a_repeated_match_counts_once(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[2 * BT];
    fill(tokens, 2 * BT, 2 * BT, 0);
    struct mr_block_table *waiting = mr_block_table_create(cache, root);
    struct mr_kv_match match;
    mr_kv_cache_match(waiting, tokens, 2 * BT, &match);
    struct mr_block_table *first = computed(cache, root, tokens, BT, false);
    mr_kv_cache_match(waiting, tokens, 2 * BT, &match);
    assert_int_equal(match.token_count, BT);
    assert_int_equal(mr_kv_cache_stats(cache).queries_tokens, 2 * BT);
    assert_int_equal(mr_kv_cache_stats(cache).hit_tokens, BT);
    mr_block_table_destroy(first, 1);
    mr_block_table_destroy(waiting, 1);
    check_and_destroy(cache, 0);
}

static void with_the_prefix_cache_off_nothing_is_found_or_cached(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = NULL;
    struct mr_kv_cache_options options = {
        .block_count = 4, .sequence_tokens_max = TOKENS_MAX, .sequences_max = SEQUENCES};
    assert_int_equal(mr_kv_cache_create(&cache, &options, NULL), MR_OK);
    uint32_t tokens[BT];
    fill(tokens, BT, BT, 0);
    mr_block_table_destroy(computed(cache, root, tokens, BT, true), 1);
    assert_int_equal(mr_kv_cache_stats(cache).cached_count, 0);
    assert_int_equal(mr_kv_cache_probe(cache, root, tokens, BT), 0);
    check_and_destroy(cache, 0);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_kv_cache *cache = cache_of(8);
    uint32_t tokens[BT + 4];
    fill(tokens, BT + 4, BT + 4, 0);
    struct mr_block_table *table = computed(cache, root, tokens, 5, true);
    expect_assert_failure(mr_kv_cache_publish(table, tokens, BT + 1, false));
    expect_assert_failure(mr_kv_cache_publish(table, tokens, 4, false));
    expect_assert_failure((void)mr_kv_cache_reserve(table, TOKENS_MAX + 1));
    mr_block_table_destroy(table, 1);
    table = mr_block_table_create(cache, root);
    struct mr_kv_match match;
    mr_kv_cache_match(table, tokens, BT, &match);
    expect_assert_failure(mr_kv_cache_publish(table, tokens, 5, false));
    mr_kv_cache_copied(table, &match);
    mr_block_table_destroy(table, 2);
    check_and_destroy(cache, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_prompt_matches_nothing),
        cmocka_unit_test(a_running_sequence_shares_its_full_blocks),
        cmocka_unit_test(a_match_is_exact_to_the_token_by_a_copy),
        cmocka_unit_test(one_token_is_always_left_to_compute),
        cmocka_unit_test(a_whole_prompt_is_matched_when_its_logits_are_known),
        cmocka_unit_test(a_prompt_key_names_tenant_and_tokens),
        cmocka_unit_test(a_published_tail_may_grow_and_be_published_again),
        cmocka_unit_test(equal_full_blocks_are_stored_once),
        cmocka_unit_test(a_shorter_unused_tail_is_replaced_by_its_continuation),
        cmocka_unit_test(tenants_never_share),
        cmocka_unit_test(a_chain_is_evicted_from_its_end),
        cmocka_unit_test(without_room_for_a_copy_the_whole_blocks_still_match),
        cmocka_unit_test(a_cleared_table_finds_its_work_again),
        cmocka_unit_test(a_repeated_match_counts_once),
        cmocka_unit_test(with_the_prefix_cache_off_nothing_is_found_or_cached),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
