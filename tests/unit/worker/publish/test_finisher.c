#include "worker/publish/finisher.h"

#include "tests/unit/worker/stepping.h"

static void the_result_is_produced_when_every_other_record_is_acknowledged(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    ticket.reply_topic = "replies";
    post_token(&rig, &ticket, 0);
    post_result(&rig, &ticket);
    rig.producer.holding = true;
    step_publish(&rig);
    step_publish(&rig);
    assert_int_equal(rig.producer.count, 1); /* the token record */
    rig.producer.holding = false;
    step_publish(&rig);
    assert_int_equal(rig.producer.count, 2);
    assert_string_equal(rig.producer.records[1].topic, "replies");
    step_publish(&rig);
    assert_string_equal(rig.producer.records[2].topic, "results");
    expect_done(&rig, 0);
    step_publish(&rig);
    expect_done(&rig, 1);
    close_stepping(&rig);
}

static void the_oldest_unacknowledged_result_is_announced(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket tickets[2];
    struct mr_write_gate gate;
    open_stepping(&rig, NULL);
    make_gated_ticket(&tickets[0], "a", &gate, false);
    make_ticket(&tickets[1], "b");
    post_result(&rig, &tickets[0]);
    assert_int_equal(step_publish(&rig), MR_FINISHER_HELD_NS);
    assert_int_equal(rig.oldest_ms, 5000);
    step_to(&rig, rig.now.ns + 70 * MS);
    post_result(&rig, &tickets[1]);
    step_publish(&rig);
    step_publish(&rig);
    expect_done(&rig, 1); /* ticket b; ticket a is still the oldest */
    assert_int_equal(rig.oldest_ms, 5000);
    post_result(&rig, &tickets[1]);
    rig.producer.holding = true;
    step_publish(&rig);
    mr_write_gate_set(&gate, 2, true); /* the partition of ticket a was assigned again */
    step_publish(&rig);
    expect_done(&rig, 1);
    assert_true(tickets[0].dropped);
    assert_int_equal(rig.oldest_ms, 5070);
    rig.producer.holding = false;
    step_publish(&rig);
    expect_done(&rig, 1);
    assert_int_equal(rig.oldest_ms, 0);
    assert_int_equal(mr_publish_stats(rig.publish).dropped, 1);
    close_stepping(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_result_is_produced_when_every_other_record_is_acknowledged),
        cmocka_unit_test(the_oldest_unacknowledged_result_is_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
