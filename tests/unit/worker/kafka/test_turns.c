#include "worker/kafka/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MANY 4000

static struct mr_turns turns_of(uint32_t first_weight, uint32_t second_weight)
{
    return (struct mr_turns){.classes = {{.weight = first_weight}, {.weight = second_weight}},
                             .class_count = 2};
}

static struct mr_turn *serve(struct mr_turns *turns)
{
    struct mr_turn *turn = mr_turns_next(turns);
    assert_non_null(turn);
    mr_turns_served(turns, turn);
    return turn;
}

static void classes_take_turns_by_weight_whatever_their_size(void **state)
{
    (void)state;
    static struct mr_turn many[MANY];
    struct mr_turn one = {.class_index = 1};
    struct mr_turns turns = turns_of(3, 1);
    assert_null(mr_turns_next(&turns));
    mr_turns_ready(&turns, &one);
    for (int i = 0; i < MANY; i++) {
        many[i] = (struct mr_turn){0};
        mr_turns_ready(&turns, &many[i]);
    }
    int served = 0;
    for (int i = 0; i < 400; i++)
        served += serve(&turns) == &one;
    assert_int_equal(served, 100);
}

static void members_of_a_class_take_turns(void **state)
{
    (void)state;
    struct mr_turn members[3] = {{0}};
    struct mr_turns turns = turns_of(1, 1);
    for (int i = 0; i < 3; i++)
        mr_turns_ready(&turns, &members[i]);
    mr_turns_ready(&turns, &members[0]); /* is ready already */
    for (int i = 0; i < 9; i++)
        assert_ptr_equal(serve(&turns), &members[i % 3]);
    mr_turns_idle(&turns, &members[1]);
    mr_turns_idle(&turns, &members[1]);
    assert_ptr_equal(serve(&turns), &members[0]);
    assert_ptr_equal(serve(&turns), &members[2]);
    mr_turns_idle(&turns, &members[0]);
    mr_turns_idle(&turns, &members[2]);
    assert_null(mr_turns_next(&turns));
}

static void blocked_members_wait_until_they_are_unblocked(void **state)
{
    (void)state;
    struct mr_turn members[3] = {{0}, {0}, {.class_index = 1}};
    struct mr_turns turns = turns_of(1, 1);
    for (int i = 0; i < 3; i++)
        mr_turns_ready(&turns, &members[i]);
    mr_turns_block(&turns, &members[0]);
    mr_turns_block(&turns, &members[2]);
    mr_turns_ready(&turns, &members[0]); /* one more record does not unblock it */
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(serve(&turns), &members[1]);
    mr_turns_idle(&turns, &members[2]);
    mr_turns_unblock(&turns);
    assert_ptr_equal(serve(&turns), &members[1]);
    assert_ptr_equal(serve(&turns), &members[0]);
    assert_int_equal(members[2].state, MR_TURN_IDLE);
}

static void a_class_without_ready_members_saves_no_turns(void **state)
{
    (void)state;
    struct mr_turn first = {0}, second = {.class_index = 1};
    struct mr_turns turns = turns_of(1, 1);
    mr_turns_ready(&turns, &first);
    mr_turns_ready(&turns, &second);
    serve(&turns);
    mr_turns_idle(&turns, &second);
    for (int i = 0; i < 100; i++)
        serve(&turns);
    mr_turns_ready(&turns, &second);
    int served = 0;
    for (int i = 0; i < 10; i++)
        served += serve(&turns) == &second;
    assert_in_range(served, 4, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_take_turns_by_weight_whatever_their_size),
        cmocka_unit_test(members_of_a_class_take_turns),
        cmocka_unit_test(blocked_members_wait_until_they_are_unblocked),
        cmocka_unit_test(a_class_without_ready_members_saves_no_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
