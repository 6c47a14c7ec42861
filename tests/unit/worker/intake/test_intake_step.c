/* Intake's step, called in one thread under virtual time over a Kafka in memory. */
#include "tests/unit/worker/intake_rig.h"

#include <stdio.h>

#define NAMED(id) "{\"id\":\"" id "\",\"prompt\":\"hello\"}"

/* Partitions 0 and 1 are assigned; `count` requests named a, b... wait in partition 0. */
static void open_with(struct intake_rig *rig, int count)
{
    static const char *const values[] = {NAMED("a"), NAMED("b"), NAMED("c")};
    open_intake_rig(rig);
    memory_kafka_assign(&rig->kafka, 0, 2);
    for (int i = 0; i < count; i++)
        memory_kafka_produce(&rig->kafka, 0, values[i], rig->now.unix_ms);
    step_intake(rig);
    assert_int_equal(rig->kafka.completed, 1);
    assert_int_equal(rig->intake->flight.count, count);
}

/* Intake is destroyed as when a worker ends. */
static void leave(struct intake_rig *rig)
{
    atomic_store(&rig->intake->draining, true);
    step_intake(rig);
    mr_intake_forget_engine(rig->intake);
    rig_end(&rig->engine);
    atomic_store(&rig->intake->leave_requested, true);
    for (int i = 0; rig->intake->leaving != MR_INTAKE_HAS_LEFT; i++) {
        assert_true(i < 10);
        uint64_t next_ns = step_intake(rig);
        if (next_ns > rig->now.ns) pass_ms(rig, 1 + (next_ns - rig->now.ns) / 1000000u);
    }
    assert_int_equal(step_intake(rig), UINT64_MAX);
    close_intake_rig(rig);
    assert_true(rig->kafka.closed);
}

static void start(struct intake_rig *rig, const char *id)
{
    post(rig, &ticket_named(rig, id)->starting, MR_MAIL_STARTING);
    step_intake(rig);
    assert_true(ticket_named(rig, id)->intake.running);
}

static void records_become_requests_and_results_become_commits(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 2);
    assert_non_null(ticket_named(&rig, "a"));
    assert_int_equal(ticket_named(&rig, "b")->arrival_ns, rig.now.ns);
    post(&rig, &ticket_named(&rig, "a")->done, MR_MAIL_DONE);
    uint64_t due_ns = step_intake(&rig);
    assert_int_equal(rig.intake->flight.count, 1);
    while (rig.kafka.partitions[0].committed < 1) {
        assert_in_range(due_ns, rig.now.ns, rig.now.ns + 1000000000u);
        pass_ms(&rig, 1 + (due_ns - rig.now.ns) / 1000000u);
        due_ns = step_intake(&rig);
    }
    assert_int_equal(rig.kafka.last_count, 1);
    step_intake(&rig); /* the outcome */
    assert_false(rig.intake->schedule.pending);
    assert_int_equal(mr_intake_stats(rig.intake).commits, rig.kafka.commits);
    assert_int_equal(mr_intake_stats(rig.intake).commit_failures, 0);
    leave(&rig);
    assert_int_equal(rig.kafka.partitions[0].committed, 1);
}

static void nothing_to_do_is_one_step_a_second(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 0);
    pass_ms(&rig, 20000);
    step_intake(&rig); /* a tick, and a commit that is due with every assignment */
    step_intake(&rig);
    assert_int_equal(step_intake(&rig), rig.now.ns + 1000000000u);
    leave(&rig);
}

static void a_burst_ends_and_the_next_step_comes_at_once(void **state)
{
    (void)state;
    static char values[40][40];
    struct intake_rig rig;
    open_intake_rig(&rig);
    memory_kafka_assign(&rig.kafka, 0, 1);
    for (int i = 0; i < 40; i++) {
        snprintf(values[i], sizeof values[i], "{\"id\":\"r%d\",\"prompt\":\"x\"}", i);
        memory_kafka_produce(&rig.kafka, 0, values[i], rig.now.unix_ms);
    }
    assert_int_equal(step_intake(&rig), rig.now.ns);
    assert_in_range(rig.intake->flight.count, 1, 39);
    while (rig.intake->flight.count < 40)
        step_intake(&rig);
    leave(&rig);
}

static void a_revoked_partition_is_committed_and_then_given_up(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 2);
    post(&rig, &ticket_named(&rig, "a")->done, MR_MAIL_DONE);
    memory_kafka_revoke(&rig.kafka, 0, 1, MR_KAFKA_REVOKE_GONE);
    rig.kafka.hold_commits = true;
    unsigned commits = rig.kafka.commits;
    step_intake(&rig);
    assert_int_equal(rig.intake->ownership.revocation, MR_REVOCATION_COMMITTING);
    assert_int_equal(rig.kafka.last[0].offset, 1); /* with the message that was in the mailbox */
    assert_int_equal(rig.kafka.completed, 1);
    assert_false(atomic_load(&ticket_named(&rig, "b")->dropped));
    step_intake(&rig);
    assert_int_equal(rig.kafka.commits, commits + 1);
    memory_kafka_answer(&rig.kafka, MR_OK);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_int_equal(rig.intake->ownership.revocation, MR_REVOCATION_NONE);
    assert_true(atomic_load(&ticket_named(&rig, "b")->dropped));
    assert_int_equal(mr_intake_stats(rig.intake).partitions, 1);
    rig.kafka.hold_commits = false;
    leave(&rig);
}

static void a_commit_that_fails_or_is_not_answered_does_not_hold_the_group_up(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 1);
    start(&rig, "a");
    pass_ms(&rig, 100);
    rig.kafka.hold_commits = true;
    memory_kafka_revoke(&rig.kafka, 0, 2, MR_KAFKA_REVOKE_PAUSE);
    step_intake(&rig);
    assert_int_equal(rig.intake->ownership.revocation, MR_REVOCATION_COMMITTING);
    pass_ms(&rig, 4999);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 1);
    pass_ms(&rig, 1);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_int_equal(rig.intake->schedule.failures, 1);
    memory_kafka_answer(&rig.kafka, MR_OK); /* late */
    rig.kafka.hold_commits = false;
    rig.kafka.refuse = MR_UNREACHABLE;
    memory_kafka_assign(&rig.kafka, 0, 2);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 3);
    memory_kafka_revoke(&rig.kafka, 0, 2, MR_KAFKA_REVOKE_PAUSE);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 4);
    rig.kafka.refuse = MR_OK;
    leave(&rig);
}

/* Partition 0 is revoked while a runs there; c arrives in partition 1, which stays assigned. */
static void open_draining(struct intake_rig *rig)
{
    open_with(rig, 2);
    rig->config.on_revoke = MR_ON_REVOKE_DRAIN;
    rig->config.revoke_timeout_ns = 10000000000u;
    start(rig, "a");
    memory_kafka_revoke(&rig->kafka, 0, 1, MR_KAFKA_REVOKE_GONE);
    memory_kafka_produce(&rig->kafka, 0, NAMED("late"), rig->now.unix_ms);
    memory_kafka_produce(&rig->kafka, 1, NAMED("c"), rig->now.unix_ms);
    step_intake(rig);
    assert_int_equal(rig->intake->ownership.revocation, MR_REVOCATION_DRAINING);
    assert_non_null(ticket_named(rig, "c"));
    assert_null(ticket_named(rig, "late"));
}

static void a_drain_ends_with_the_last_running_request(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_draining(&rig);
    pass_ms(&rig, 3000);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 1);
    post(&rig, &ticket_named(&rig, "a")->done, MR_MAIL_DONE);
    step_intake(&rig);
    step_intake(&rig);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_int_equal(rig.kafka.partitions[0].committed, 1);
    assert_true(atomic_load(&ticket_named(&rig, "b")->dropped)); /* it had not started */
    leave(&rig);
}

static void a_drain_ends_with_its_deadline(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_draining(&rig);
    uint64_t until_ns = rig.now.ns + rig.config.revoke_timeout_ns;
    for (uint64_t next_ns = step_intake(&rig); rig.kafka.completed == 1;) {
        assert_true(rig.now.ns <= until_ns);
        if (next_ns > rig.now.ns) pass_ms(&rig, (next_ns - rig.now.ns + 999999u) / 1000000u);
        next_ns = step_intake(&rig);
    }
    assert_true(rig.now.ns >= until_ns);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    leave(&rig);
}

static void results_in_flight_are_awaited_before_the_commit(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 1);
    struct mr_ticket *ticket = ticket_named(&rig, "a");
    start(&rig, "a");
    assert_int_equal(mr_write_gate_admit(ticket->gate, ticket->epoch), MR_WRITE_OPEN);
    memory_kafka_revoke(&rig.kafka, 0, 2, MR_KAFKA_REVOKE_PAUSE);
    assert_in_range(step_intake(&rig), rig.now.ns + 1, rig.now.ns + 10000000u);
    assert_int_equal(rig.intake->ownership.revocation, MR_REVOCATION_HOLDING);
    assert_int_equal(mr_write_gate_look(ticket->gate, ticket->epoch), MR_WRITE_HELD);
    pass_ms(&rig, 1000);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 1);
    mr_write_gate_acknowledge(ticket->gate);
    post(&rig, &ticket->done, MR_MAIL_DONE);
    step_intake(&rig);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_int_equal(rig.kafka.partitions[0].committed, 1);
    leave(&rig);
}

static void a_result_that_is_never_acknowledged_is_given_up(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 1);
    struct mr_ticket *ticket = ticket_named(&rig, "a");
    assert_int_equal(mr_write_gate_admit(ticket->gate, ticket->epoch), MR_WRITE_OPEN);
    memory_kafka_revoke(&rig.kafka, 0, 2, MR_KAFKA_REVOKE_GONE);
    step_intake(&rig);
    pass_ms(&rig, 1999);
    step_intake(&rig);
    assert_int_equal(rig.intake->ownership.revocation, MR_REVOCATION_HOLDING);
    pass_ms(&rig, 1);
    step_intake(&rig);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_true(atomic_load(&ticket->dropped));
    mr_write_gate_acknowledge(ticket->gate);
    leave(&rig);
}

static void a_lost_assignment_is_given_up_at_once_and_nothing_is_committed(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 2);
    unsigned commits = rig.kafka.commits;
    post(&rig, &ticket_named(&rig, "a")->done, MR_MAIL_DONE);
    memory_kafka_revoke(&rig.kafka, 0, 2, MR_KAFKA_REVOKE_LOST);
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_true(atomic_load(&ticket_named(&rig, "b")->dropped));
    leave(&rig);
    assert_int_equal(rig.kafka.commits, commits);
}

static void an_assignment_lost_during_its_revocation_is_given_up_at_once(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_draining(&rig);
    rig.kafka.lost = true;
    step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_true(atomic_load(&ticket_named(&rig, "a")->dropped));
    leave(&rig);
}

static void a_partition_that_comes_straight_back_runs_on(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_with(&rig, 1);
    start(&rig, "a");
    memory_kafka_revoke(&rig.kafka, 0, 2, MR_KAFKA_REVOKE_PAUSE);
    memory_kafka_assign(&rig.kafka, 0, 2);
    for (int i = 0; i < 5; i++)
        step_intake(&rig);
    assert_int_equal(rig.kafka.completed, 3);
    assert_false(atomic_load(&ticket_named(&rig, "a")->dropped));
    assert_int_equal(rig.kafka.partitions[0].position, 1); /* it is not read again */
    post(&rig, &ticket_named(&rig, "a")->done, MR_MAIL_DONE);
    step_intake(&rig);
    leave(&rig);
    assert_int_equal(rig.kafka.partitions[0].committed, 1);
}

static void leaving_joins_a_revocation_that_is_under_way(void **state)
{
    (void)state;
    struct intake_rig rig;
    open_draining(&rig);
    post(&rig, &ticket_named(&rig, "c")->done, MR_MAIL_DONE);
    leave(&rig);
    assert_int_equal(rig.kafka.completed, 2);
    assert_int_equal(rig.kafka.partitions[1].committed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_become_requests_and_results_become_commits),
        cmocka_unit_test(nothing_to_do_is_one_step_a_second),
        cmocka_unit_test(a_burst_ends_and_the_next_step_comes_at_once),
        cmocka_unit_test(a_revoked_partition_is_committed_and_then_given_up),
        cmocka_unit_test(a_commit_that_fails_or_is_not_answered_does_not_hold_the_group_up),
        cmocka_unit_test(a_drain_ends_with_the_last_running_request),
        cmocka_unit_test(a_drain_ends_with_its_deadline),
        cmocka_unit_test(results_in_flight_are_awaited_before_the_commit),
        cmocka_unit_test(a_result_that_is_never_acknowledged_is_given_up),
        cmocka_unit_test(a_lost_assignment_is_given_up_at_once_and_nothing_is_committed),
        cmocka_unit_test(an_assignment_lost_during_its_revocation_is_given_up_at_once),
        cmocka_unit_test(a_partition_that_comes_straight_back_runs_on),
        cmocka_unit_test(leaving_joins_a_revocation_that_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
