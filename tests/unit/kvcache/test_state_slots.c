#include "kvcache/state_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCKS 8u

static struct mr_state_slots *create(uint32_t count)
{
    struct mr_state_slots *slots;
    assert_int_equal(mr_state_slots_create(&slots, count, BLOCKS, NULL), MR_OK);
    return slots;
}

static void a_snapshot_is_found_by_its_block(void **state)
{
    (void)state;
    struct mr_state_slots *slots = create(4);
    assert_int_equal(mr_state_slots_find(slots, 3), MR_NO_STATE);
    const uint32_t kept = mr_state_slots_keep(slots, 3);
    assert_int_equal(mr_state_slots_find(slots, 3), kept);
    mr_state_slots_drop(slots, 3);
    assert_int_equal(mr_state_slots_find(slots, 3), MR_NO_STATE);
    assert_int_equal(mr_state_slots_stats(slots).free_count, 4);
    mr_state_slots_check(slots);
    mr_state_slots_destroy(slots);
}

static void sequences_take_the_snapshot_used_least_recently(void **state)
{
    (void)state;
    struct mr_state_slots *slots = create(3);
    for (mr_block_id block = 0; block < 3; block++)
        assert_int_not_equal(mr_state_slots_keep(slots, block), MR_NO_STATE);
    const uint32_t first = mr_state_slots_find(slots, 0);
    mr_state_slots_pin(slots, first);
    mr_state_slots_unpin(slots, first);
    const uint32_t oldest = mr_state_slots_find(slots, 1);
    assert_int_equal(mr_state_slots_take(slots), oldest);
    assert_int_equal(mr_state_slots_find(slots, 1), MR_NO_STATE);
    assert_int_equal(mr_state_slots_find(slots, 0), first);
    assert_int_equal(mr_state_slots_stats(slots).evictions, 1);
    mr_state_slots_check(slots);
    mr_state_slots_destroy(slots);
}

static void a_pinned_snapshot_outlives_its_block(void **state)
{
    (void)state;
    struct mr_state_slots *slots = create(2);
    const uint32_t kept = mr_state_slots_keep(slots, 5);
    mr_state_slots_pin(slots, kept);
    mr_state_slots_drop(slots, 5);
    assert_int_equal(mr_state_slots_find(slots, 5), MR_NO_STATE);
    mr_state_slots_check(slots);
    const uint32_t held = mr_state_slots_take(slots);
    assert_int_not_equal(held, kept);
    assert_int_equal(mr_state_slots_keep(slots, 5), MR_NO_STATE);
    mr_state_slots_unpin(slots, kept);
    mr_state_slots_check(slots);
    assert_int_equal(mr_state_slots_keep(slots, 5), kept);
    mr_state_slots_release(slots, held);
    mr_state_slots_check(slots);
    mr_state_slots_destroy(slots);
}

static void a_slot_is_released_once(void **state)
{
    (void)state;
    struct mr_state_slots *slots = create(1);
    const uint32_t held = mr_state_slots_take(slots);
    expect_assert_failure(mr_state_slots_take(slots));
    mr_state_slots_release(slots, held);
    expect_assert_failure(mr_state_slots_release(slots, held));
    mr_state_slots_destroy(slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_is_found_by_its_block),
        cmocka_unit_test(sequences_take_the_snapshot_used_least_recently),
        cmocka_unit_test(a_pinned_snapshot_outlives_its_block),
        cmocka_unit_test(a_slot_is_released_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
