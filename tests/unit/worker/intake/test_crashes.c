/* When a request's crash count grows, and how the count changes its treatment. */
#include "tests/unit/worker/turns.h"

/* After one crash, all requests run together again. */
static void one_crash_makes_nobody_wait(void **state)
{
    struct fleet *fleet = *state;
    static const char *const all[] = {"a", "b", "c", NULL};
    produce_to(fleet, 0, NAMED("a"));
    produce_to(fleet, 0, NAMED("b"));
    produce_to(fleet, 1, NAMED("c"));
    start_worker(fleet);
    run_all(fleet, all);
    crash(fleet);
    start_worker(fleet);
    assert_int_equal(fleet->rig.intake->flight.suspects, 0);
    assert_int_equal(fleet->rig.intake->flight.parked_count, 0);
    run_all(fleet, all);
    for (int i = 0; all[i]; i++)
        finish(fleet, all[i]);
    assert_int_equal(fleet->rig.intake->flight.count, 0);
    crash(fleet);
}

/* Two crashes with three requests: they run one at a time, and the one that crashes is poison. */
static void of_several_suspects_only_the_one_that_crashes_again_is_refused(void **state)
{
    struct fleet *fleet = *state;
    static const char *const all[] = {"a", "b", "c", NULL};
    produce_to(fleet, 0, NAMED("a"));
    produce_to(fleet, 0, NAMED("b"));
    produce_to(fleet, 1, NAMED("c"));
    for (int i = 0; i < 2; i++) {
        start_worker(fleet);
        run_all(fleet, all);
        crash(fleet);
    }
    produce_to(fleet, 1, NAMED("healthy"));
    start_worker(fleet);
    assert_int_equal(fleet->rig.intake->flight.suspects, 1);
    run(fleet, "healthy"); /* beside them */
    assert_true(is_submitted(fleet, "a"));
    run(fleet, "a");
    assert_false(is_submitted(fleet, "b") || is_submitted(fleet, "c"));
    finish(fleet, "a");
    assert_true(is_submitted(fleet, "b"));
    assert_false(is_submitted(fleet, "c"));
    run(fleet, "b");
    crash(fleet); /* the third one */
    start_worker(fleet);
    assert_poison(fleet, "b");
    step(fleet);
    run(fleet, "c");
    run(fleet, "healthy");
    finish(fleet, "c");
    finish(fleet, "healthy");
    assert_int_equal(fleet->rig.intake->flight.count, 0);
    crash(fleet);
}

/* The commit records that the request no longer runs alone before another one starts. */
static void a_request_that_ran_alone_until_another_started_is_a_suspect(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("innocent"));
    produce_to(fleet, 1, NAMED("killer"));
    for (int i = 0; i < 2; i++) {
        start_worker(fleet);
        run(fleet, "innocent");
        pass_ms(&fleet->rig, 1000);
        step(fleet); /* it is committed as running alone */
        run(fleet, "killer");
        crash(fleet);
    }
    start_worker(fleet);
    run(fleet, "innocent");
    finish(fleet, "innocent");
    run(fleet, "killer");
    crash(fleet);
    start_worker(fleet);
    assert_poison(fleet, "killer");
    crash(fleet);
}

/* One crash among other requests and then one crash alone are enough. */
static void the_company_at_the_last_crash_counts(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("innocent"));
    produce_to(fleet, 1, NAMED("killer"));
    start_worker(fleet);
    run(fleet, "innocent");
    run(fleet, "killer");
    crash(fleet);
    start_worker(fleet);
    run(fleet, "innocent");
    finish(fleet, "innocent");
    run(fleet, "killer");
    crash(fleet);
    start_worker(fleet);
    assert_poison(fleet, "killer");
    crash(fleet);
}

/* ---- a clean stop ---- */

/* Four workers in turn are stopped cleanly, and each fails to commit the release of the request. */
static void an_end_in_order_without_the_broker_is_no_crash(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    for (int i = 0; i < 4; i++) {
        start_worker(fleet);
        assert_int_equal(crashes_of(fleet, "a"), 0);
        run(fleet, "a");
        fleet->rig.kafka.refuse = MR_UNREACHABLE;
        stop(fleet);
    }
    start_worker(fleet);
    assert_int_equal(crashes_of(fleet, "a"), 0);
    assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, 5);
    run(fleet, "a");
    crash(fleet); /* this one is */
    start_worker(fleet);
    assert_int_equal(crashes_of(fleet, "a"), 1);
    crash(fleet);
}

static void nothing_is_left_in_the_folder_when_the_last_commit_was_acknowledged(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    run(fleet, "a");
    stop(fleet);
    assert_int_equal(empty_folder(fleet), 0);
    start_worker(fleet);
    assert_int_equal(crashes_of(fleet, "a"), 0);
    crash(fleet);
}

/* No worker can determine more: one crash is assumed, and the request runs again. */
static void without_a_folder_such_an_end_counts_once(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    run(fleet, "a");
    fleet->rig.kafka.refuse = MR_UNREACHABLE;
    stop(fleet);
    start_worker(fleet);
    assert_int_equal(crashes_of(fleet, "a"), 1);
    run(fleet, "a");
    stop(fleet);
    start_worker(fleet);
    assert_int_equal(crashes_of(fleet, "a"), 1);
    crash(fleet);
}

/* The group assigns the partition to another worker; this worker continues and then crashes. */
static void a_partition_that_is_lost_takes_no_crash_along(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    produce_to(fleet, 1, NAMED("b"));
    start_worker(fleet);
    run(fleet, "a");
    run(fleet, "b");
    memory_kafka_revoke(&fleet->rig.kafka, 0, 1, MR_KAFKA_REVOKE_LOST);
    step(fleet);
    crash(fleet);
    start_worker(fleet);
    assert_int_equal(crashes_of(fleet, "a"), 0);
    assert_int_equal(crashes_of(fleet, "b"), 1);
    crash(fleet);
}

static void a_partition_that_comes_back_to_the_same_worker_takes_none_either(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    run(fleet, "a");
    struct mr_ticket *gone = ticket_named(&fleet->rig, "a");
    memory_kafka_revoke(&fleet->rig.kafka, 0, 1, MR_KAFKA_REVOKE_LOST);
    step(fleet);
    memory_kafka_assign(&fleet->rig.kafka, 0, 1);
    step(fleet);
    rig_end(&fleet->rig.engine); /* an engine that has cancelled it */
    rig_init(&fleet->rig.engine);
    rig_start(&fleet->rig.engine);
    post(&fleet->rig, &gone->done, MR_MAIL_DONE);
    step(fleet);
    fleet->rig.intake->flight.retry_parked = true;
    step(fleet);
    assert_non_null(ticket_named(&fleet->rig, "a"));
    assert_int_equal(crashes_of(fleet, "a"), 0);
    assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, 2);
    crash(fleet);
}

/* Any request that ran may have caused the failed step. A request whose start was only recorded did
 * not run. */
static void a_step_that_fails_counts_for_what_ran(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("ran"));
    produce_to(fleet, 1, NAMED("waited"));
    start_worker(fleet);
    run(fleet, "ran");
    fleet->rig.kafka.hold_commits = true;
    ask(fleet, "waited");
    pass_ms(&fleet->rig, 100);
    step(fleet);
    assert_false(may_start(fleet, "waited"));
    atomic_store(mr_intake_step_failed(fleet->rig.intake), true);
    fleet->rig.kafka.hold_commits = false;
    memory_kafka_answer(&fleet->rig.kafka, MR_OK);
    atomic_store(&fleet->rig.intake->leave_requested, true);
    stop(fleet);
    start_worker(fleet);
    assert_int_equal(crashes_of(fleet, "ran"), 1);
    assert_int_equal(crashes_of(fleet, "waited"), 0);
    crash(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(one_crash_makes_nobody_wait),
        PLAIN(of_several_suspects_only_the_one_that_crashes_again_is_refused),
        PLAIN(a_request_that_ran_alone_until_another_started_is_a_suspect),
        PLAIN(the_company_at_the_last_crash_counts),
        FOLDER(an_end_in_order_without_the_broker_is_no_crash),
        FOLDER(nothing_is_left_in_the_folder_when_the_last_commit_was_acknowledged),
        PLAIN(without_a_folder_such_an_end_counts_once),
        FOLDER(a_partition_that_is_lost_takes_no_crash_along),
        FOLDER(a_partition_that_comes_back_to_the_same_worker_takes_none_either),
        FOLDER(a_step_that_fails_counts_for_what_ran),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
