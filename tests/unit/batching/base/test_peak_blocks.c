#include "batching/base/peak_blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ENOUGH_NONE 0u /* below any peak, so that the exact sum is computed */

static uint64_t random_state = 7;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

/* The peak by simulation: every sequence grows by one token a step until it ends. */
static uint32_t simulate(const struct mr_peak_blocks_entry *entries, uint32_t count)
{
    uint32_t peak = 0, longest = 0;
    for (uint32_t i = 0; i < count; i++)
        longest = entries[i].left > longest ? entries[i].left : longest;
    for (uint32_t now = 0; now <= longest; now++) {
        uint32_t used = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (entries[i].left < now) continue;
            uint32_t blocks = mr_blocks_for(entries[i].tokens + now);
            used += blocks > entries[i].blocks ? blocks - entries[i].blocks : 0;
            used += entries[i].unique;
        }
        peak = used > peak ? used : peak;
    }
    return peak;
}

static uint32_t random_entries(struct mr_peak_blocks_entry *entries)
{
    uint32_t count = 1 + random_below(12), left = 3000;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tokens = 1 + random_below(2000);
        uint32_t blocks = random_below(2) == 0 ? mr_blocks_for(tokens) : 0;
        left = random_below(left + 1);
        entries[i] = (struct mr_peak_blocks_entry){
            .tokens = tokens, .left = left, .blocks = blocks, .unique = blocks};
    }
    return count;
}

static void peak_equals_a_simulation_step_by_step(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct mr_peak_blocks_entry entries[12];
        uint32_t count = random_entries(entries);
        assert_int_equal(mr_peak_blocks_most(entries, count, ENOUGH_NONE),
                         simulate(entries, count));
    }
}

static void the_quick_bound_is_never_below_the_peak(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        struct mr_peak_blocks_entry entries[12];
        uint32_t count = random_entries(entries);
        assert_true(mr_peak_blocks_most(entries, count, UINT32_MAX) >= simulate(entries, count));
    }
}

static void an_ending_sequence_makes_room_for_the_others(void **state)
{
    (void)state;
    uint32_t block = MR_BLOCK_TOKENS;
    struct mr_peak_blocks_entry entries[2] = {
        {.tokens = block, .left = 3 * block, .blocks = 1, .unique = 1},
        {.tokens = 2 * block, .left = block, .blocks = 2, .unique = 2},
    };
    /* When the second ends: 2 + 3 blocks; when the first ends: 4. */
    assert_int_equal(mr_peak_blocks_most(entries, 2, ENOUGH_NONE), 5);
}

static void shared_blocks_count_once(void **state)
{
    (void)state;
    uint32_t block = MR_BLOCK_TOKENS;
    struct mr_peak_blocks_entry entries[2] = {
        {.tokens = 4 * block, .left = block, .blocks = 4, .unique = 4},
        {.tokens = 4 * block, .left = block, .blocks = 4, .unique = 0},
    };
    assert_int_equal(mr_peak_blocks_most(entries, 2, ENOUGH_NONE), 6);
}

static void tokens_round_up_to_blocks(void **state)
{
    (void)state;
    assert_int_equal(mr_blocks_for(0), 0);
    assert_int_equal(mr_blocks_for(1), 1);
    assert_int_equal(mr_blocks_for(MR_BLOCK_TOKENS), 1);
    assert_int_equal(mr_blocks_for(MR_BLOCK_TOKENS + 1), 2);
    assert_true(mr_blocks_for(UINT32_MAX) == UINT32_MAX / MR_BLOCK_TOKENS + 1);
}

static void unsorted_entries_are_a_bug(void **state)
{
    (void)state;
    struct mr_peak_blocks_entry entries[2] = {{.tokens = 1, .left = 1}, {.tokens = 1, .left = 2}};
    expect_assert_failure(mr_peak_blocks_most(entries, 2, ENOUGH_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_equals_a_simulation_step_by_step),
        cmocka_unit_test(the_quick_bound_is_never_below_the_peak),
        cmocka_unit_test(an_ending_sequence_makes_room_for_the_others),
        cmocka_unit_test(shared_blocks_count_once),
        cmocka_unit_test(tokens_round_up_to_blocks),
        cmocka_unit_test(unsorted_entries_are_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
