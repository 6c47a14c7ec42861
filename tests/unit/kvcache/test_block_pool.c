#include "kvcache/block_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct evictions {
    mr_block_id ids[16];
    uint32_t count;
};

static void note_eviction(void *context, mr_block_id id)
{
    struct evictions *seen = context;
    seen->ids[seen->count++] = id;
}

static struct mr_block_pool *pool_of(uint32_t count, struct evictions *seen)
{
    struct mr_block_pool *pool = NULL;
    assert_int_equal(mr_block_pool_create(&pool, count, note_eviction, seen, NULL), MR_OK);
    return pool;
}

static void assert_counts(const struct mr_block_pool *pool, uint32_t unused, uint32_t cached,
                          uint32_t held)
{
    assert_int_equal(mr_block_pool_free(pool), unused);
    assert_int_equal(mr_block_pool_cached(pool), cached);
    assert_int_equal(mr_block_pool_held(pool), held);
    mr_block_pool_check(pool);
}

static void take_is_all_or_nothing(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(4, &seen);
    mr_block_id ids[5] = {9, 9, 9, 9, 9};
    assert_int_equal(mr_block_pool_take(pool, 5, ids), MR_FULL);
    assert_int_equal(ids[0], 9);
    assert_counts(pool, 4, 0, 0);
    assert_int_equal(mr_block_pool_take(pool, 0, NULL), MR_OK);
    assert_int_equal(mr_block_pool_take(pool, 3, ids), MR_OK);
    assert_counts(pool, 1, 0, 3);
    assert_int_equal(mr_block_pool_take(pool, 2, ids + 3), MR_FULL);
    assert_counts(pool, 1, 0, 3);
    mr_block_pool_destroy(pool);
}

static void taken_blocks_are_distinct(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(8, &seen);
    mr_block_id ids[8];
    bool used[8] = {false};
    assert_int_equal(mr_block_pool_take(pool, 8, ids), MR_OK);
    for (int i = 0; i < 8; i++) {
        assert_true(ids[i] < 8 && !used[ids[i]]);
        used[ids[i]] = true;
    }
    mr_block_pool_destroy(pool);
}

static void a_block_stays_held_until_its_last_reference(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(2, &seen);
    mr_block_id id;
    assert_int_equal(mr_block_pool_take(pool, 1, &id), MR_OK);
    mr_block_pool_hold(pool, id);
    assert_int_equal(mr_block_pool_references(pool, id), 2);
    mr_block_pool_release(pool, id);
    assert_counts(pool, 1, 0, 1);
    mr_block_pool_release(pool, id);
    assert_counts(pool, 2, 0, 0);
    mr_block_pool_destroy(pool);
}

/* Releases the blocks from the tail, as the cache releases a chain. */
static void cache_chain(struct mr_block_pool *pool, const mr_block_id *ids, uint32_t count,
                        uint64_t until_ns)
{
    for (uint32_t i = count; i-- > 0;) {
        mr_block_pool_mark(pool, ids[i], true);
        if (until_ns > 0) mr_block_pool_keep(pool, ids[i], until_ns);
        mr_block_pool_release(pool, ids[i]);
    }
}

static void kept_blocks_are_evicted_last_until_their_time_has_passed(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(4, &seen);
    mr_block_id kept[2], plain[2], again[4];
    mr_block_pool_set_kept_max(pool, 2);
    assert_int_equal(mr_block_pool_take(pool, 2, kept), MR_OK);
    assert_int_equal(mr_block_pool_take(pool, 2, plain), MR_OK);
    cache_chain(pool, kept, 2, 1000);
    cache_chain(pool, plain, 2, 0);
    assert_counts(pool, 0, 4, 0);
    assert_int_equal(mr_block_pool_kept(pool), 2);
    assert_int_equal(mr_block_pool_take(pool, 3, again), MR_OK);
    assert_int_equal(seen.ids[0], plain[1]);
    assert_int_equal(seen.ids[1], plain[0]);
    assert_int_equal(seen.ids[2], kept[1]);
    cache_chain(pool, again, 3, 0);
    mr_block_pool_expire(pool, 999);
    assert_int_equal(mr_block_pool_kept(pool), 1);
    mr_block_pool_expire(pool, 1000);
    assert_int_equal(mr_block_pool_kept(pool), 0);
    mr_block_pool_check(pool);
    mr_block_pool_destroy(pool);
}

static void at_most_kept_max_blocks_are_kept(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(6, &seen);
    mr_block_id ids[6];
    mr_block_pool_set_kept_max(pool, 2);
    assert_int_equal(mr_block_pool_take(pool, 6, ids), MR_OK);
    cache_chain(pool, ids, 3, 1000);
    cache_chain(pool, ids + 3, 3, 2000);
    assert_int_equal(mr_block_pool_kept(pool), 2);
    assert_counts(pool, 0, 6, 0);
    assert_int_equal(mr_block_pool_oldest(pool), ids[2]);
    mr_block_pool_mark(pool, ids[3], false);
    assert_int_equal(mr_block_pool_kept(pool), 1);
    assert_counts(pool, 1, 5, 0);
    mr_block_pool_hold(pool, ids[4]);
    assert_int_equal(mr_block_pool_kept(pool), 0);
    mr_block_pool_release(pool, ids[4]);
    assert_int_equal(mr_block_pool_kept(pool), 1);
    mr_block_pool_check(pool);
    mr_block_pool_destroy(pool);
}

static void marked_blocks_are_cached_and_evicted_oldest_first(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(3, &seen);
    mr_block_id ids[3], again[3];
    assert_int_equal(mr_block_pool_take(pool, 3, ids), MR_OK);
    for (int i = 0; i < 3; i++)
        mr_block_pool_mark(pool, ids[i], true);
    mr_block_pool_release(pool, ids[1]);
    mr_block_pool_release(pool, ids[2]);
    mr_block_pool_release(pool, ids[0]);
    assert_counts(pool, 0, 3, 0);
    assert_int_equal(mr_block_pool_oldest(pool), ids[1]);
    mr_block_pool_hold(pool, ids[1]); /* held again: no longer the oldest */
    mr_block_pool_release(pool, ids[1]);
    assert_int_equal(mr_block_pool_take(pool, 2, again), MR_OK);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.ids[0], ids[2]);
    assert_int_equal(seen.ids[1], ids[0]);
    assert_int_equal(mr_block_pool_evictions(pool), 2);
    assert_true(mr_block_pool_is_marked(pool, ids[1]));
    assert_false(mr_block_pool_is_marked(pool, ids[0]));
    assert_counts(pool, 0, 1, 2);
    mr_block_pool_destroy(pool);
}

static void free_blocks_are_taken_before_cached_ones(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(2, &seen);
    mr_block_id id, other;
    assert_int_equal(mr_block_pool_take(pool, 1, &id), MR_OK);
    mr_block_pool_mark(pool, id, true);
    mr_block_pool_release(pool, id);
    assert_int_equal(mr_block_pool_take(pool, 1, &other), MR_OK);
    assert_int_not_equal(id, other);
    assert_int_equal(seen.count, 0);
    assert_counts(pool, 0, 1, 1);
    mr_block_pool_destroy(pool);
}

static void unmarking_a_cached_block_frees_it_without_eviction(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(2, &seen);
    mr_block_id id;
    assert_int_equal(mr_block_pool_take(pool, 1, &id), MR_OK);
    mr_block_pool_mark(pool, id, true);
    mr_block_pool_release(pool, id);
    mr_block_pool_mark(pool, id, false);
    assert_counts(pool, 2, 0, 0);
    assert_int_equal(seen.count, 0);
    mr_block_pool_destroy(pool);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct evictions seen = {0};
    struct mr_block_pool *pool = pool_of(2, &seen);
    mr_block_id id;
    assert_int_equal(mr_block_pool_take(pool, 1, &id), MR_OK);
    mr_block_pool_release(pool, id);
    expect_assert_failure(mr_block_pool_release(pool, id));
    expect_assert_failure(mr_block_pool_hold(pool, id));
    expect_assert_failure(mr_block_pool_mark(pool, id, true));
    expect_assert_failure(mr_block_pool_hold(pool, 2));
    mr_block_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_is_all_or_nothing),
        cmocka_unit_test(taken_blocks_are_distinct),
        cmocka_unit_test(a_block_stays_held_until_its_last_reference),
        cmocka_unit_test(marked_blocks_are_cached_and_evicted_oldest_first),
        cmocka_unit_test(kept_blocks_are_evicted_last_until_their_time_has_passed),
        cmocka_unit_test(at_most_kept_max_blocks_are_kept),
        cmocka_unit_test(free_blocks_are_taken_before_cached_ones),
        cmocka_unit_test(unmarking_a_cached_block_frees_it_without_eviction),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
