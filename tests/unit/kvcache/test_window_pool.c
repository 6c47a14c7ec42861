#include "kvcache/window_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct mr_window_pool *pool_of(uint32_t slot_count)
{
    struct mr_window_pool *pool = NULL;
    assert_int_equal(mr_window_pool_create(&pool, slot_count, 10, NULL), MR_OK);
    return pool;
}

static void assert_counts(const struct mr_window_pool *pool, uint32_t unused, uint32_t cached)
{
    assert_int_equal(mr_window_pool_free(pool), unused);
    assert_int_equal(mr_window_pool_cached(pool), cached);
    mr_window_pool_check(pool);
}

static void a_held_block_has_a_slot_of_its_own(void **state)
{
    (void)state;
    struct mr_window_pool *pool = pool_of(3);
    for (mr_block_id id = 4; id < 7; id++) {
        assert_int_equal(mr_window_pool_slot(pool, id), MR_SLOT_NONE);
        assert_true(mr_window_pool_hold(pool, id));
        for (mr_block_id other = 4; other < id; other++)
            assert_int_not_equal(mr_window_pool_slot(pool, other), mr_window_pool_slot(pool, id));
    }
    assert_counts(pool, 0, 0);
    assert_false(mr_window_pool_hold(pool, 8));
    assert_int_equal(mr_window_pool_slot(pool, 8), MR_SLOT_NONE);
    assert_counts(pool, 0, 0);
    mr_window_pool_destroy(pool);
}

static void a_slot_stays_held_until_its_last_reference_is_released(void **state)
{
    (void)state;
    struct mr_window_pool *pool = pool_of(2);
    assert_true(mr_window_pool_hold(pool, 1));
    assert_true(mr_window_pool_hold(pool, 1));
    assert_int_equal(mr_window_pool_references(pool, 1), 2);
    uint32_t slot = mr_window_pool_slot(pool, 1);
    mr_window_pool_release(pool, 1, true);
    assert_counts(pool, 1, 0);
    mr_window_pool_release(pool, 1, true);
    assert_counts(pool, 1, 1);
    assert_int_equal(mr_window_pool_slot(pool, 1), slot);
    assert_true(mr_window_pool_hold(pool, 1)); /* matched again */
    assert_int_equal(mr_window_pool_slot(pool, 1), slot);
    assert_counts(pool, 1, 0);
    mr_window_pool_destroy(pool);
}

static void a_slot_that_is_not_to_be_cached_is_free_at_once(void **state)
{
    (void)state;
    struct mr_window_pool *pool = pool_of(1);
    assert_true(mr_window_pool_hold(pool, 1));
    mr_window_pool_release(pool, 1, false);
    assert_counts(pool, 1, 0);
    assert_int_equal(mr_window_pool_slot(pool, 1), MR_SLOT_NONE);
    mr_window_pool_destroy(pool);
}

static void the_slot_released_longest_ago_is_reused_first(void **state)
{
    (void)state;
    struct mr_window_pool *pool = pool_of(3);
    for (mr_block_id id = 0; id < 3; id++)
        assert_true(mr_window_pool_hold(pool, id));
    mr_window_pool_release(pool, 1, true);
    mr_window_pool_release(pool, 0, true);
    assert_true(mr_window_pool_hold(pool, 5));
    assert_int_equal(mr_window_pool_slot(pool, 1), MR_SLOT_NONE);
    assert_int_not_equal(mr_window_pool_slot(pool, 0), MR_SLOT_NONE);
    assert_counts(pool, 0, 1);
    mr_window_pool_destroy(pool);
}

static void a_slot_moves_with_its_references(void **state)
{
    (void)state;
    struct mr_window_pool *pool = pool_of(2);
    assert_true(mr_window_pool_hold(pool, 1));
    uint32_t slot = mr_window_pool_slot(pool, 1);
    mr_window_pool_move(pool, 1, 7);
    assert_int_equal(mr_window_pool_slot(pool, 7), slot);
    assert_int_equal(mr_window_pool_references(pool, 7), 1);
    assert_int_equal(mr_window_pool_slot(pool, 1), MR_SLOT_NONE);
    mr_window_pool_release(pool, 7, true);
    mr_window_pool_move(pool, 7, 2); /* a CACHED slot too */
    assert_counts(pool, 1, 1);
    mr_window_pool_drop(pool, 2);
    mr_window_pool_drop(pool, 2);
    assert_counts(pool, 2, 0);
    mr_window_pool_destroy(pool);
}

static void dropping_a_held_slot_is_misuse(void **state)
{
    (void)state;
    struct mr_window_pool *pool = pool_of(2);
    assert_true(mr_window_pool_hold(pool, 1));
    assert_true(mr_window_pool_hold(pool, 2));
    expect_assert_failure(mr_window_pool_drop(pool, 1));
    expect_assert_failure(mr_window_pool_move(pool, 1, 2));
    expect_assert_failure(mr_window_pool_move(pool, 3, 4));
    expect_assert_failure(mr_window_pool_release(pool, 3, true));
    expect_assert_failure(mr_window_pool_slot(pool, 10));
    mr_window_pool_check(pool);
    mr_window_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_block_has_a_slot_of_its_own),
        cmocka_unit_test(a_slot_stays_held_until_its_last_reference_is_released),
        cmocka_unit_test(a_slot_that_is_not_to_be_cached_is_free_at_once),
        cmocka_unit_test(the_slot_released_longest_ago_is_reused_first),
        cmocka_unit_test(a_slot_moves_with_its_references),
        cmocka_unit_test(dropping_a_held_slot_is_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
