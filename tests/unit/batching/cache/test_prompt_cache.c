#include "batching/cache/prompt_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define VOCAB 3u

struct key {
    unsigned char bytes[MR_HASH_BYTES];
};

static struct key key_of(unsigned char number)
{
    return (struct key){{number % 2, 0, 0, 0, number}}; /* two buckets, so that chains are used */
}

static struct mr_prompt_cache *cache_of(uint32_t entries_max, uint64_t ttl_ns)
{
    struct mr_prompt_cache *cache = NULL;
    struct mr_prompt_cache_options options = {entries_max, VOCAB, ttl_ns};
    assert_int_equal(mr_prompt_cache_create(&cache, &options, NULL), MR_OK);
    return cache;
}

static void put(struct mr_prompt_cache *cache, unsigned char number, uint64_t now_ns)
{
    float *row = mr_prompt_cache_put(cache, key_of(number).bytes, now_ns);
    assert_non_null(row);
    for (uint32_t i = 0; i < VOCAB; i++)
        row[i] = (float)(10 * number + i);
}

static const float *find(struct mr_prompt_cache *cache, unsigned char number, uint64_t now_ns)
{
    return mr_prompt_cache_find(cache, key_of(number).bytes, now_ns);
}

static bool contains(const struct mr_prompt_cache *cache, unsigned char number, uint64_t now_ns)
{
    return mr_prompt_cache_peek(cache, key_of(number).bytes, now_ns) != NULL;
}

static void check_and_destroy(struct mr_prompt_cache *cache)
{
    mr_prompt_cache_check(cache);
    mr_prompt_cache_destroy(cache);
}

static void a_row_comes_back_as_it_was_put(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(4, 0);
    assert_null(find(cache, 1, 0));
    put(cache, 1, 1);
    put(cache, 2, 2);
    const float *row = find(cache, 1, 3);
    assert_non_null(row);
    for (uint32_t i = 0; i < VOCAB; i++)
        assert_true(row[i] == (float)(10 + i));
    struct mr_prompt_cache_stats stats = mr_prompt_cache_stats(cache);
    assert_int_equal(stats.count, 2);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.misses, 1);
    check_and_destroy(cache);
}

static void accesses_are_counted_by_find_alone(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(4, 0);
    put(cache, 1, 1);
    assert_true(contains(cache, 1, 1));
    assert_int_equal(mr_prompt_cache_accesses(cache, key_of(1).bytes), 0);
    (void)find(cache, 1, 2);
    (void)find(cache, 1, 3);
    put(cache, 1, 4); /* again: the same entry */
    assert_int_equal(mr_prompt_cache_accesses(cache, key_of(1).bytes), 2);
    assert_int_equal(mr_prompt_cache_accesses(cache, key_of(9).bytes), 0);
    assert_int_equal(mr_prompt_cache_stats(cache).count, 1);
    check_and_destroy(cache);
}

static void the_least_recently_used_entry_makes_room(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(3, 0);
    put(cache, 1, 1);
    put(cache, 2, 2);
    put(cache, 3, 3);
    (void)find(cache, 1, 4);
    assert_true(contains(cache, 2, 5)); /* a peek is not an access */
    put(cache, 4, 6);
    assert_false(contains(cache, 2, 7));
    assert_true(contains(cache, 1, 7));
    assert_int_equal(mr_prompt_cache_stats(cache).evictions, 1);
    assert_int_equal(mr_prompt_cache_stats(cache).count, 3);
    check_and_destroy(cache);
}

static void age_counts_from_the_last_access(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(4, 100);
    put(cache, 1, 1000);
    put(cache, 2, 1000);
    assert_non_null(find(cache, 1, 1099));
    assert_false(contains(cache, 2, 1100));
    assert_null(find(cache, 2, 1100));
    assert_non_null(find(cache, 1, 1198));
    assert_int_equal(mr_prompt_cache_stats(cache).expirations, 1);
    mr_prompt_cache_expire(cache, 1297);
    assert_int_equal(mr_prompt_cache_stats(cache).count, 1);
    mr_prompt_cache_expire(cache, 1298);
    assert_int_equal(mr_prompt_cache_stats(cache).count, 0);
    assert_int_equal(mr_prompt_cache_stats(cache).expirations, 2);
    check_and_destroy(cache);
}

static void the_expired_go_before_the_least_recently_used(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(2, 100);
    put(cache, 1, 0);
    put(cache, 2, 50);
    put(cache, 3, 120);
    assert_int_equal(mr_prompt_cache_stats(cache).evictions, 0);
    assert_true(contains(cache, 2, 120));
    check_and_destroy(cache);
}

static void a_dropped_prompt_is_gone(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(2, 0);
    put(cache, 1, 1);
    put(cache, 3, 1);
    mr_prompt_cache_drop(cache, key_of(1).bytes);
    mr_prompt_cache_drop(cache, key_of(1).bytes);
    assert_null(find(cache, 1, 2));
    assert_non_null(find(cache, 3, 2));
    check_and_destroy(cache);
}

static void a_cache_of_no_entries_keeps_and_finds_nothing(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(0, 0);
    assert_null(mr_prompt_cache_put(cache, key_of(1).bytes, 1));
    assert_null(find(cache, 1, 1));
    mr_prompt_cache_expire(cache, 10);
    check_and_destroy(cache);
    mr_prompt_cache_destroy(NULL);
}

static void any_history_keeps_the_counts(void **state)
{
    (void)state;
    struct mr_prompt_cache *cache = cache_of(5, 40);
    uint64_t last_ns[12] = {0}, seed = 3, now_ns = 1;
    for (int round = 0; round < 20000; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned char number = (unsigned char)((seed >> 33) % 12);
        now_ns += (seed >> 40) % 8;
        bool was_here = contains(cache, number, now_ns);
        if (was_here) assert_true(now_ns - last_ns[number] < 40);
        if ((seed >> 50) % 2 == 0) {
            put(cache, number, now_ns);
            last_ns[number] = now_ns;
        } else {
            const float *row = find(cache, number, now_ns);
            assert_int_equal(row != NULL, was_here);
            if (row != NULL) assert_true(row[0] == (float)(10 * number));
            if (row != NULL) last_ns[number] = now_ns;
        }
        mr_prompt_cache_check(cache);
    }
    assert_true(mr_prompt_cache_stats(cache).evictions > 0);
    assert_true(mr_prompt_cache_stats(cache).expirations > 0);
    check_and_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_comes_back_as_it_was_put),
        cmocka_unit_test(accesses_are_counted_by_find_alone),
        cmocka_unit_test(the_least_recently_used_entry_makes_room),
        cmocka_unit_test(age_counts_from_the_last_access),
        cmocka_unit_test(the_expired_go_before_the_least_recently_used),
        cmocka_unit_test(a_dropped_prompt_is_gone),
        cmocka_unit_test(a_cache_of_no_entries_keeps_and_finds_nothing),
        cmocka_unit_test(any_history_keeps_the_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
