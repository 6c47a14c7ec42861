#include "batching/sequence/fetch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT MR_FETCH_STATE_COUNT

/* The legal moves, independent of the table in fetch.c. Columns in the order of the enum: NEW
 * LOOKUP LOOKUP_PIECES KNOWN DECIDED WAIT STEP WAIT_AGAIN COMPUTE JOIN LOGITS LOGITS_DONE. */
static const bool legal[COUNT][COUNT] = {
    [MR_FETCH_NEW] = {0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
    [MR_FETCH_LOOKUP] = {0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
    [MR_FETCH_LOOKUP_PIECES] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
    [MR_FETCH_KNOWN] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
    [MR_FETCH_DECIDED] = {0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0},
    [MR_FETCH_WAIT] = {0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0},
    [MR_FETCH_STEP] = {0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0},
    [MR_FETCH_WAIT_AGAIN] = {0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0},
    [MR_FETCH_COMPUTE] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0},
    [MR_FETCH_JOIN] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1},
    [MR_FETCH_LOGITS] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1},
    [MR_FETCH_LOGITS_DONE] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
};

static void only_the_moves_of_the_table_are_legal(void **state)
{
    (void)state;
    for (volatile uint32_t from = 0; from < COUNT; from++)
        for (volatile uint32_t to = 0; to <= COUNT; to++) {
            struct mr_fetch fetch = {.state = (enum mr_fetch_state)from};
            if (to < COUNT && legal[from][to]) {
                mr_fetch_move(&fetch, (enum mr_fetch_state)to);
                assert_int_equal(fetch.state, to);
            } else {
                expect_assert_failure(mr_fetch_move(&fetch, (enum mr_fetch_state)to));
                assert_int_equal(fetch.state, from);
            }
        }
}

static void every_state_is_reached_and_returns_to_known(void **state)
{
    (void)state;
    for (uint32_t start = MR_FETCH_NEW; start < COUNT; start++) {
        uint32_t reached = 1u << start;
        for (uint32_t round = 0; round < COUNT; round++)
            for (uint32_t from = 0; from < COUNT; from++)
                for (uint32_t to = 0; reached >> from & 1 && to < COUNT; to++)
                    if (legal[from][to]) reached |= 1u << to;
        assert_true(reached >> MR_FETCH_KNOWN & 1);
        if (start == MR_FETCH_NEW) assert_int_equal(reached, (1u << COUNT) - 1);
    }
}

static void each_state_answers_what_is_under_way(void **state)
{
    (void)state;
    static const struct {
        bool asking, loading, waiting, has_load;
    } expected[COUNT] = {
        [MR_FETCH_LOOKUP] = {.asking = true},
        [MR_FETCH_LOOKUP_PIECES] = {.asking = true},
        [MR_FETCH_WAIT] = {.loading = true, .waiting = true, .has_load = true},
        [MR_FETCH_STEP] = {.loading = true, .has_load = true},
        [MR_FETCH_WAIT_AGAIN] = {.loading = true, .waiting = true, .has_load = true},
        [MR_FETCH_COMPUTE] = {.loading = true, .has_load = true},
        [MR_FETCH_JOIN] = {.has_load = true},
        [MR_FETCH_LOGITS] = {.loading = true, .has_load = true},
        [MR_FETCH_LOGITS_DONE] = {.has_load = true},
    };
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct mr_fetch fetch = {.state = (enum mr_fetch_state)i};
        assert_int_equal(mr_fetch_is_looking_up(&fetch), expected[i].asking);
        assert_int_equal(mr_fetch_is_loading(&fetch), expected[i].loading);
        assert_int_equal(mr_fetch_is_waiting(&fetch), expected[i].waiting);
        assert_int_equal(mr_fetch_has_load(&fetch), expected[i].has_load);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_moves_of_the_table_are_legal),
        cmocka_unit_test(every_state_is_reached_and_returns_to_known),
        cmocka_unit_test(each_state_answers_what_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
