#include "worker/ticket/write_gate.h"

#include "codec/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_request_of_the_present_epoch_may_write_while_the_gate_is_open(void **state)
{
    (void)state;
    struct mr_write_gate gate = {0};
    mr_write_gate_set(&gate, 3, true);
    assert_int_equal(mr_write_gate_look(&gate, 3), MR_WRITE_OPEN);
    assert_int_equal(mr_write_gate_look(&gate, 2), MR_WRITE_CLOSED);
    mr_write_gate_set(&gate, 3, false);
    assert_int_equal(mr_write_gate_look(&gate, 3), MR_WRITE_HELD);
    mr_write_gate_set(&gate, 4, true);
    assert_int_equal(mr_write_gate_look(&gate, 3), MR_WRITE_CLOSED);
}

static void only_an_admitted_request_counts_until_it_is_acknowledged(void **state)
{
    (void)state;
    struct mr_write_gate gate = {0};
    mr_write_gate_set(&gate, 1, true);
    assert_int_equal(mr_write_gate_admit(&gate, 1), MR_WRITE_OPEN);
    assert_int_equal(mr_write_gate_admit(&gate, 0), MR_WRITE_CLOSED);
    mr_write_gate_set(&gate, 1, false);
    assert_int_equal(mr_write_gate_admit(&gate, 1), MR_WRITE_HELD);
    assert_int_equal(mr_write_gate_unacknowledged(&gate), 1);
    mr_write_gate_acknowledge(&gate);
    assert_int_equal(mr_write_gate_unacknowledged(&gate), 0);
    expect_assert_failure(mr_write_gate_acknowledge(&gate));
}

static void an_admitted_request_may_write_the_rest_until_the_gate_is_held(void **state)
{
    (void)state;
    struct mr_write_gate gate = {0};
    assert_int_equal(mr_write_gate_continue(&gate, 0), MR_WRITE_HELD);
    mr_write_gate_set(&gate, 1, true);
    assert_int_equal(mr_write_gate_admit(&gate, 1), MR_WRITE_OPEN);
    mr_write_gate_finish(&gate, 1);
    assert_int_equal(mr_write_gate_continue(&gate, 1), MR_WRITE_OPEN);
    assert_int_equal(mr_write_gate_look(&gate, 1), MR_WRITE_HELD);
    assert_int_equal(mr_write_gate_admit(&gate, 1), MR_WRITE_HELD);
    mr_write_gate_set(&gate, 1, false);
    assert_int_equal(mr_write_gate_continue(&gate, 1), MR_WRITE_HELD);
    mr_write_gate_set(&gate, 2, true);
    assert_int_equal(mr_write_gate_continue(&gate, 1), MR_WRITE_CLOSED);
    mr_write_gate_acknowledge(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_of_the_present_epoch_may_write_while_the_gate_is_open),
        cmocka_unit_test(only_an_admitted_request_counts_until_it_is_acknowledged),
        cmocka_unit_test(an_admitted_request_may_write_the_rest_until_the_gate_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
