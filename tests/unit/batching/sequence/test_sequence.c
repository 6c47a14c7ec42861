#include "batching/sequence/sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint32_t tokens[16];

static struct mr_sequence make(uint32_t prompt_tokens)
{
    return (struct mr_sequence){.tokens = tokens,
                                .capacity = 16,
                                .prompt_tokens = prompt_tokens,
                                .num_tokens = prompt_tokens};
}

static void only_the_transitions_of_the_table_are_legal(void **state)
{
    (void)state;
    const bool legal[MR_SEQUENCE_STATE_COUNT][MR_SEQUENCE_STATE_COUNT] = {
        {false, true, false, true},
        {false, false, true, true},
        {false, true, false, true},
        {false, false, false, false},
    };
    for (volatile uint32_t from = 0; from < MR_SEQUENCE_STATE_COUNT; from++)
        for (volatile uint32_t to = 0; to < MR_SEQUENCE_STATE_COUNT; to++) {
            struct mr_sequence sequence = make(4);
            sequence.state = (enum mr_sequence_state)from;
            if (legal[from][to]) {
                mr_sequence_move(&sequence, (enum mr_sequence_state)to);
                assert_int_equal(sequence.state, to);
            } else {
                expect_assert_failure(mr_sequence_move(&sequence, (enum mr_sequence_state)to));
            }
        }
}

static void prefill_ends_when_the_prompt_is_computed(void **state)
{
    (void)state;
    struct mr_sequence sequence = make(4);
    mr_sequence_move(&sequence, MR_SEQUENCE_RUNNING);
    assert_true(mr_sequence_needs_prefill(&sequence));
    assert_false(mr_sequence_is_decoding(&sequence));
    mr_sequence_advance(&sequence, 3);
    assert_true(mr_sequence_needs_prefill(&sequence));
    assert_false(mr_sequence_is_decoding(&sequence));
    mr_sequence_advance(&sequence, 1);
    assert_false(mr_sequence_needs_prefill(&sequence));
    mr_sequence_append(&sequence, 9);
    assert_false(mr_sequence_needs_prefill(&sequence));
    assert_true(mr_sequence_is_decoding(&sequence));
    assert_int_equal(mr_sequence_generated(&sequence), 1);
}

static void an_empty_prompt_needs_no_prefill(void **state)
{
    (void)state;
    struct mr_sequence sequence = make(0);
    assert_false(mr_sequence_needs_prefill(&sequence));
}

static void recomputed_tokens_are_counted_once_each(void **state)
{
    (void)state;
    struct mr_sequence sequence = make(8);
    mr_sequence_move(&sequence, MR_SEQUENCE_RUNNING);
    assert_int_equal(mr_sequence_advance(&sequence, 5), 0);
    mr_sequence_restart(&sequence, 2); /* preempted, two tokens found in the cache */
    assert_int_equal(mr_sequence_advance(&sequence, 2), 2);
    assert_int_equal(mr_sequence_advance(&sequence, 4), 1);
    assert_int_equal(sequence.num_computed, 8);
}

static void tokens_of_steps_in_flight_are_computed_and_not_settled(void **state)
{
    (void)state;
    struct mr_sequence sequence = make(8);
    mr_sequence_move(&sequence, MR_SEQUENCE_RUNNING);
    mr_sequence_restart(&sequence, 2);
    mr_sequence_advance(&sequence, 3);
    mr_sequence_advance(&sequence, 3);
    assert_int_equal(mr_sequence_pending(&sequence), 0);
    assert_int_equal(sequence.num_settled, 2);
    mr_sequence_settle(&sequence, 5);
    assert_int_equal(sequence.num_settled, 5);
    mr_sequence_settle(&sequence, 8);
    assert_int_equal(sequence.num_settled, 8);
    expect_assert_failure(mr_sequence_settle(&sequence, 8));
}

/* Tokens loaded ahead of tokens in flight are settled only together with those. */
static void a_jump_ahead_of_a_step_in_flight_settles_with_it(void **state)
{
    (void)state;
    struct mr_sequence sequence = make(8);
    mr_sequence_move(&sequence, MR_SEQUENCE_RUNNING);
    mr_sequence_advance(&sequence, 3);
    mr_sequence_jump(&sequence, 6);
    assert_int_equal(sequence.num_settled, 0);
    mr_sequence_settle(&sequence, 3);
    assert_int_equal(sequence.num_settled, 6);
    mr_sequence_jump(&sequence, 7);
    assert_int_equal(sequence.num_settled, 7);
}

static void unknown_tokens_are_filled_in_order(void **state)
{
    (void)state;
    struct mr_sequence sequence = make(2);
    mr_sequence_move(&sequence, MR_SEQUENCE_RUNNING);
    mr_sequence_advance(&sequence, 2);
    mr_sequence_append_unknown(&sequence, 5);
    assert_true(mr_sequence_is_decoding(&sequence));
    mr_sequence_advance(&sequence, 1);
    mr_sequence_append_unknown(&sequence, 6);
    assert_int_equal(sequence.num_tokens, 4);
    assert_int_equal(sequence.fed_row, 6);
    assert_true(tokens[2] == MR_TOKEN_UNKNOWN && tokens[3] == MR_TOKEN_UNKNOWN);
    mr_sequence_append(&sequence, 17);
    assert_true(tokens[2] == 17 && tokens[3] == MR_TOKEN_UNKNOWN);
    assert_int_equal(sequence.num_tokens, 4);
    mr_sequence_drop_unknown(&sequence);
    assert_int_equal(sequence.num_tokens, 3);
    assert_int_equal(sequence.unknown + sequence.in_flight, 0);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    struct mr_sequence sequence = make(16);
    expect_assert_failure(mr_sequence_append(&sequence, 1));
    expect_assert_failure(mr_sequence_advance(&sequence, 1));
    mr_sequence_move(&sequence, MR_SEQUENCE_RUNNING);
    expect_assert_failure(mr_sequence_advance(&sequence, 17));
    expect_assert_failure(mr_sequence_check(&sequence));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_transitions_of_the_table_are_legal),
        cmocka_unit_test(prefill_ends_when_the_prompt_is_computed),
        cmocka_unit_test(an_empty_prompt_needs_no_prefill),
        cmocka_unit_test(recomputed_tokens_are_counted_once_each),
        cmocka_unit_test(tokens_of_steps_in_flight_are_computed_and_not_settled),
        cmocka_unit_test(a_jump_ahead_of_a_step_in_flight_settles_with_it),
        cmocka_unit_test(unknown_tokens_are_filled_in_order),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
