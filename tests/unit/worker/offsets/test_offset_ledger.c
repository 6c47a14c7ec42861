#include "worker/offsets/offset_ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct mr_offset_ledger *make(uint32_t span)
{
    struct mr_offset_ledger *ledger = NULL;
    assert_int_equal(mr_offset_ledger_create(&ledger, span, NULL), MR_OK);
    return ledger;
}

static enum mr_ledger_verdict receive(struct mr_offset_ledger *ledger, int64_t offset)
{
    struct mr_ledger_history history;
    enum mr_ledger_verdict verdict = mr_offset_ledger_receive(ledger, offset, &history);
    mr_offset_ledger_check(ledger);
    return verdict;
}

static void an_empty_ledger_has_nothing_to_commit(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    assert_int_equal(mr_offset_ledger_base(ledger), -1);
    assert_int_equal(mr_offset_ledger_next(ledger), -1);
    assert_true(mr_offset_ledger_has_room(ledger));
    mr_offset_ledger_finish(ledger, 3);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void the_lowest_unfinished_offset_is_committed(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    for (int64_t offset = 5; offset < 10; offset++)
        assert_int_equal(receive(ledger, offset), MR_LEDGER_NEW);
    mr_offset_ledger_finish(ledger, 6);
    mr_offset_ledger_finish(ledger, 8);
    assert_int_equal(mr_offset_ledger_base(ledger), 5);
    assert_int_equal(mr_offset_ledger_unfinished(ledger), 3);
    mr_offset_ledger_finish(ledger, 5);
    assert_int_equal(mr_offset_ledger_base(ledger), 7);
    mr_offset_ledger_finish(ledger, 9);
    mr_offset_ledger_finish(ledger, 7);
    assert_int_equal(mr_offset_ledger_base(ledger), 10);
    assert_int_equal(mr_offset_ledger_next(ledger), 10);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void finishing_twice_counts_once(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    receive(ledger, 0);
    receive(ledger, 1);
    mr_offset_ledger_finish(ledger, 1);
    uint64_t version = mr_offset_ledger_version(ledger);
    mr_offset_ledger_finish(ledger, 1);
    mr_offset_ledger_finish(ledger, 9);
    assert_int_equal(mr_offset_ledger_version(ledger), version);
    assert_int_equal(mr_offset_ledger_unfinished(ledger), 1);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void offsets_that_never_come_count_as_finished(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    receive(ledger, 0);
    assert_int_equal(receive(ledger, 4), MR_LEDGER_NEW);
    mr_offset_ledger_finish(ledger, 0);
    assert_int_equal(mr_offset_ledger_base(ledger), 4);
    mr_offset_ledger_finish(ledger, 4);
    assert_int_equal(receive(ledger, 4000), MR_LEDGER_NEW); /* nothing open: any gap is fine */
    assert_int_equal(mr_offset_ledger_base(ledger), 4000);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void a_record_too_far_above_base_must_wait(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    receive(ledger, 0);
    assert_int_equal(receive(ledger, 16), MR_LEDGER_FULL);
    assert_int_equal(receive(ledger, 15), MR_LEDGER_NEW);
    mr_offset_ledger_finish(ledger, 0);
    assert_int_equal(receive(ledger, 16), MR_LEDGER_NEW);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void room_ends_at_three_quarters_of_the_span(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    for (int64_t offset = 0; offset < 12; offset++) {
        assert_true(mr_offset_ledger_has_room(ledger));
        receive(ledger, offset);
    }
    assert_false(mr_offset_ledger_has_room(ledger));
    mr_offset_ledger_finish(ledger, 0);
    assert_true(mr_offset_ledger_has_room(ledger));
    mr_offset_ledger_destroy(ledger);
}

static void a_repeated_record_is_seen_and_an_older_one_goes_backward(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    receive(ledger, 10);
    receive(ledger, 11);
    assert_int_equal(receive(ledger, 10), MR_LEDGER_SEEN);
    mr_offset_ledger_finish(ledger, 11);
    assert_int_equal(receive(ledger, 11), MR_LEDGER_SEEN);
    assert_int_equal(receive(ledger, 9), MR_LEDGER_BACKWARD);
    mr_offset_ledger_reset(ledger, 9);
    assert_int_equal(receive(ledger, 9), MR_LEDGER_NEW);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void the_ring_of_slots_serves_a_long_life(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    for (int64_t offset = 0; offset < 1000; offset++) {
        assert_int_equal(receive(ledger, offset), MR_LEDGER_NEW);
        mr_offset_ledger_start(ledger, offset, 0);
        if (offset % 3 == 2)
            for (int64_t done = offset; done > offset - 3; done--)
                mr_offset_ledger_finish(ledger, done);
    }
    assert_int_equal(mr_offset_ledger_base(ledger), 999);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void a_first_start_is_the_first_attempt(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    struct mr_ledger_history history = {.attempts = 9, .crashes = 9};
    assert_int_equal(mr_offset_ledger_receive(ledger, 0, &history), MR_LEDGER_NEW);
    assert_int_equal(history.attempts, 0);
    assert_int_equal(history.crashes, 0);
    mr_offset_ledger_start(ledger, 0, 0);
    mr_offset_ledger_start(ledger, 0, 0);
    assert_int_equal(mr_offset_ledger_slot(ledger, 0)->attempts, 1);
    mr_offset_ledger_release(ledger, 0);
    assert_int_equal(mr_offset_ledger_slot(ledger, 0)->flags, 0);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static bool released_at_8(void *context, int64_t offset, uint8_t attempt)
{
    assert_null(context);
    assert_int_equal(attempt, 1);
    return offset == 8;
}

/* Four requests run when their worker crashes; a commit has an entry for each. */
static void who_takes_over_sees_which_crashes_a_request_can_have_caused(void **state)
{
    (void)state;
    static const uint8_t running = MR_LEDGER_SLOT_RUNNING;
    static const uint8_t notes[] = {0, MR_LEDGER_SLOT_ACCOMPANIED,
                                    MR_LEDGER_SLOT_ACCOMPANIED | MR_LEDGER_SLOT_APART,
                                    MR_LEDGER_SLOT_ACCOMPANIED, MR_LEDGER_SLOT_ACCOMPANIED};
    static const bool crashed[] = {true, true, true, false, false};
    static const bool alone[] = {true, false, true, false, false};
    struct mr_offset_ledger *ledger = make(16);
    struct mr_ledger_history history;
    mr_offset_ledger_reset(ledger, 5);
    for (int64_t i = 0; i < 5; i++) {
        struct mr_ledger_slot slot = {.flags = notes[i], .attempts = 1};
        if (i < 4) slot.flags |= running; /* the last one was released */
        assert_true(mr_offset_ledger_restore_slot(ledger, 5 + i, slot));
    }
    mr_offset_ledger_take_over(ledger, released_at_8, NULL);
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(mr_offset_ledger_receive(ledger, 5 + i, &history), MR_LEDGER_NEW);
        assert_int_equal(history.attempts, 1);
        assert_int_equal(history.crashes, crashed[i]);
        assert_int_equal(history.crashed, crashed[i]);
        assert_int_equal(history.alone, alone[i]);
    }
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    struct mr_ledger_history history;
    expect_assert_failure(mr_offset_ledger_receive(ledger, -1, &history));
    receive(ledger, 5);
    expect_assert_failure(mr_offset_ledger_slot(ledger, 4));
    expect_assert_failure(mr_offset_ledger_slot(ledger, 21));
    mr_offset_ledger_destroy(ledger);
}

static void what_was_found_on_the_broker_is_finished_when_it_comes(void **state)
{
    (void)state;
    struct mr_ledger_history history;
    struct mr_offset_ledger *ledger = NULL;
    assert_int_equal(mr_offset_ledger_create(&ledger, 16, NULL), MR_OK);
    mr_offset_ledger_found(ledger, 3); /* nothing is known yet: ignored */
    mr_offset_ledger_reset(ledger, 10);
    uint64_t version = mr_offset_ledger_version(ledger);
    mr_offset_ledger_found(ledger, 9);  /* below */
    mr_offset_ledger_found(ledger, 26); /* beyond the span */
    assert_int_equal(mr_offset_ledger_version(ledger), version);
    mr_offset_ledger_found(ledger, 10);
    mr_offset_ledger_found(ledger, 12);
    assert_true(mr_offset_ledger_version(ledger) > version);
    mr_offset_ledger_check(ledger);
    assert_int_equal(mr_offset_ledger_receive(ledger, 10, &history), MR_LEDGER_FINISHED);
    assert_int_equal(mr_offset_ledger_base(ledger), 11);
    assert_int_equal(mr_offset_ledger_receive(ledger, 11, &history), MR_LEDGER_NEW);
    assert_int_equal(mr_offset_ledger_receive(ledger, 12, &history), MR_LEDGER_FINISHED);
    mr_offset_ledger_found(ledger, 11); /* received: its own answer decides */
    assert_int_equal(mr_offset_ledger_unfinished(ledger), 1);
    mr_offset_ledger_finish(ledger, 11);
    assert_int_equal(mr_offset_ledger_base(ledger), 13);
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

static void what_somebody_else_knows_of_attempts_is_learnt_before_the_start(void **state)
{
    (void)state;
    struct mr_offset_ledger *ledger = make(16);
    receive(ledger, 5);
    uint64_t version = mr_offset_ledger_version(ledger);
    mr_offset_ledger_learn(ledger, 5, (struct mr_ledger_history){.attempts = 3, .crashes = 1});
    assert_true(mr_offset_ledger_version(ledger) > version);
    assert_int_equal(mr_offset_ledger_slot(ledger, 5)->attempts, 3);
    assert_int_equal(mr_offset_ledger_slot(ledger, 5)->crashes, 1);
    mr_offset_ledger_start(ledger, 5, 0);
    assert_int_equal(mr_offset_ledger_slot(ledger, 5)->attempts, 4);
    mr_offset_ledger_learn(ledger, 5, (struct mr_ledger_history){.attempts = 9, .crashes = 9});
    assert_int_equal(mr_offset_ledger_slot(ledger, 5)->attempts, 4);
    mr_offset_ledger_learn(ledger, 6, (struct mr_ledger_history){.attempts = 9, .crashes = 9});
    mr_offset_ledger_finish(ledger, 5);
    mr_offset_ledger_learn(ledger, 5, (struct mr_ledger_history){.attempts = 9, .crashes = 9});
    mr_offset_ledger_check(ledger);
    mr_offset_ledger_destroy(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_ledger_has_nothing_to_commit),
        cmocka_unit_test(the_lowest_unfinished_offset_is_committed),
        cmocka_unit_test(finishing_twice_counts_once),
        cmocka_unit_test(offsets_that_never_come_count_as_finished),
        cmocka_unit_test(a_record_too_far_above_base_must_wait),
        cmocka_unit_test(room_ends_at_three_quarters_of_the_span),
        cmocka_unit_test(a_repeated_record_is_seen_and_an_older_one_goes_backward),
        cmocka_unit_test(the_ring_of_slots_serves_a_long_life),
        cmocka_unit_test(a_first_start_is_the_first_attempt),
        cmocka_unit_test(what_somebody_else_knows_of_attempts_is_learnt_before_the_start),
        cmocka_unit_test(who_takes_over_sees_which_crashes_a_request_can_have_caused),
        cmocka_unit_test(misuse_is_caught),
        cmocka_unit_test(what_was_found_on_the_broker_is_finished_when_it_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
