#include "kvcache/prefix_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BLOCKS 64u

static const unsigned char root[MR_HASH_BYTES] = {1};
static const unsigned char other_root[MR_HASH_BYTES] = {2};

static struct mr_prefix_index *index_of(void)
{
    struct mr_prefix_index *index = NULL;
    assert_int_equal(mr_prefix_index_create(&index, BLOCKS, NULL), MR_OK);
    return index;
}

static void insert(struct mr_prefix_index *index, mr_block_id id, const unsigned char *parent_key,
                   const uint32_t *tokens, uint32_t count)
{
    unsigned char key[MR_HASH_BYTES] = {0xff, (unsigned char)id};
    struct mr_prefix_entry entry = {MR_BLOCK_NONE, parent_key, key, tokens, count};
    mr_prefix_index_insert(index, id, &entry);
}

static void the_entry_with_the_longest_common_prefix_is_found(void **state)
{
    (void)state;
    struct mr_prefix_index *index = index_of();
    insert(index, 0, root, (uint32_t[]){1, 2, 3, 4}, 4);
    insert(index, 1, root, (uint32_t[]){1, 2, 9, 9}, 4);
    insert(index, 2, root, (uint32_t[]){1, 3}, 2);
    insert(index, 3, root, (uint32_t[]){5}, 1);
    struct mr_prefix_hit hit = mr_prefix_index_find(index, root, (uint32_t[]){1, 2, 9, 5, 5}, 5);
    assert_int_equal(hit.id, 1);
    assert_int_equal(hit.common_tokens, 3);
    hit = mr_prefix_index_find(index, root, (uint32_t[]){1, 2, 3}, 3);
    assert_int_equal(hit.id, 0);
    assert_int_equal(hit.common_tokens, 3);
    hit = mr_prefix_index_find(index, root, (uint32_t[]){7, 7}, 2);
    assert_int_equal(hit.id, MR_BLOCK_NONE);
    assert_int_equal(hit.common_tokens, 0);
    mr_prefix_index_check(index);
    mr_prefix_index_destroy(index);
}

static void entries_of_another_root_are_not_found(void **state)
{
    (void)state;
    struct mr_prefix_index *index = index_of();
    insert(index, 0, root, (uint32_t[]){1, 2, 3}, 3);
    assert_int_equal(mr_prefix_index_find(index, other_root, (uint32_t[]){1, 2, 3}, 3).id,
                     MR_BLOCK_NONE);
    insert(index, 1, other_root, (uint32_t[]){1, 2}, 2);
    assert_int_equal(mr_prefix_index_find(index, other_root, (uint32_t[]){1, 2, 3}, 3).id, 1);
    assert_int_equal(mr_prefix_index_find(index, root, (uint32_t[]){1, 2, 3}, 3).id, 0);
    mr_prefix_index_check(index);
    mr_prefix_index_destroy(index);
}

static void a_removed_entry_is_not_found(void **state)
{
    (void)state;
    struct mr_prefix_index *index = index_of();
    insert(index, 4, root, (uint32_t[]){1, 2}, 2);
    insert(index, 5, root, (uint32_t[]){1, 2, 3}, 3);
    mr_prefix_index_remove(index, 5);
    struct mr_prefix_hit hit = mr_prefix_index_find(index, root, (uint32_t[]){1, 2, 3}, 3);
    assert_int_equal(hit.id, 4);
    assert_int_equal(hit.common_tokens, 2);
    assert_int_equal(mr_prefix_index_tokens(index, 5), 0);
    mr_prefix_index_check(index);
    mr_prefix_index_destroy(index);
}

static void a_full_entry_cannot_be_removed_before_its_children(void **state)
{
    (void)state;
    struct mr_prefix_index *index = index_of();
    uint32_t tokens[MR_BLOCK_TOKENS] = {0};
    insert(index, 0, root, tokens, MR_BLOCK_TOKENS);
    const unsigned char *key = mr_prefix_index_key(index, 0);
    struct mr_prefix_entry child = {0, key, NULL, tokens, 3};
    mr_prefix_index_insert(index, 1, &child);
    assert_int_equal(mr_prefix_index_find(index, key, tokens, 2).id, 1);
    mr_prefix_index_check(index);
    expect_assert_failure(mr_prefix_index_remove(index, 0));
    mr_prefix_index_remove(index, 1);
    mr_prefix_index_remove(index, 0);
    mr_prefix_index_destroy(index);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_prefix_index *index = index_of();
    insert(index, 0, root, (uint32_t[]){1, 2}, 2);
    expect_assert_failure(insert(index, 0, root, (uint32_t[]){3}, 1));
    expect_assert_failure(insert(index, 1, root, (uint32_t[]){1, 2}, 2));
    expect_assert_failure(mr_prefix_index_remove(index, 2));
    expect_assert_failure((void)mr_prefix_index_key(index, 0));
    mr_prefix_index_destroy(index);
}

/* ---- comparison with a plain list ---- */

struct listed {
    bool here;
    const unsigned char *parent_key;
    uint32_t tokens[8], count;
};

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static uint32_t run_in_list(const struct listed *list, const unsigned char *parent_key,
                            const uint32_t *tokens, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (!list[i].here || list[i].parent_key != parent_key) continue;
        uint32_t run = 0;
        while (run < count && run < list[i].count && tokens[run] == list[i].tokens[run])
            run++;
        if (run > best) best = run;
    }
    return best;
}

static bool is_listed(const struct listed *list, const struct listed *wanted)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (list[i].here && list[i].parent_key == wanted->parent_key &&
            list[i].count == wanted->count &&
            memcmp(list[i].tokens, wanted->tokens, wanted->count * sizeof(uint32_t)) == 0)
            return true;
    return false;
}

static void toggle(struct mr_prefix_index *index, struct listed *list, uint64_t *seed)
{
    uint32_t id = next_random(seed) % BLOCKS;
    if (list[id].here) {
        mr_prefix_index_remove(index, id);
        list[id].here = false;
        return;
    }
    struct listed made = {.here = true, .parent_key = next_random(seed) % 2 ? root : other_root};
    made.count = 1 + next_random(seed) % 8;
    for (uint32_t i = 0; i < made.count; i++)
        made.tokens[i] = next_random(seed) % 3;
    if (is_listed(list, &made)) return;
    insert(index, id, made.parent_key, made.tokens, made.count);
    list[id] = made;
}

static void any_history_finds_what_a_scan_of_all_entries_finds(void **state)
{
    (void)state;
    uint64_t seed = 20240229;
    struct mr_prefix_index *index = index_of();
    struct listed list[BLOCKS] = {0};
    for (int round = 0; round < 20000; round++) {
        toggle(index, list, &seed);
        uint32_t tokens[8];
        for (uint32_t i = 0; i < 8; i++)
            tokens[i] = next_random(&seed) % 3;
        const unsigned char *parent_key = next_random(&seed) % 2 ? root : other_root;
        uint32_t count = 1 + next_random(&seed) % 8;
        struct mr_prefix_hit hit = mr_prefix_index_find(index, parent_key, tokens, count);
        assert_int_equal(hit.common_tokens, run_in_list(list, parent_key, tokens, count));
        if (hit.common_tokens > 0) assert_true(list[hit.id].here);
        if (round % 64 == 0) mr_prefix_index_check(index);
    }
    mr_prefix_index_check(index);
    mr_prefix_index_destroy(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_entry_with_the_longest_common_prefix_is_found),
        cmocka_unit_test(entries_of_another_root_are_not_found),
        cmocka_unit_test(a_removed_entry_is_not_found),
        cmocka_unit_test(a_full_entry_cannot_be_removed_before_its_children),
        cmocka_unit_test(misuse_is_caught),
        cmocka_unit_test(any_history_finds_what_a_scan_of_all_entries_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
