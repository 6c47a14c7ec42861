/* The start of a request is durable before its first engine step. */
#include "worker/intake/starts.h"

#include "tests/unit/worker/turns.h"

/* Each worker crashes in the first step with the request, which takes no time. */
static void a_request_that_crashes_its_first_step_takes_two_workers(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    for (unsigned i = 1; i <= 2; i++) {
        start_worker(fleet);
        assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, i);
        run(fleet, "a");
        crash(fleet);
    }
    start_worker(fleet);
    assert_poison(fleet, "a");
    crash(fleet);
}

static void a_start_waits_for_its_commit_and_starts_share_one(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    produce_to(fleet, 1, NAMED("b"));
    produce_to(fleet, 1, NAMED("c"));
    start_worker(fleet);
    struct memory_kafka *kafka = &fleet->rig.kafka;
    pass_ms(&fleet->rig, 100);
    step(fleet);
    kafka->hold_commits = true;
    unsigned commits = kafka->commits;
    ask(fleet, "a");
    assert_int_equal(kafka->commits, commits + 1);
    ask(fleet, "b"); /* after the commit was sent */
    ask(fleet, "c");
    pass_ms(&fleet->rig, 10);
    step(fleet);
    assert_int_equal(kafka->commits, commits + 1);
    assert_false(may_start(fleet, "a"));
    memory_kafka_answer(kafka, MR_OK);
    step(fleet);
    assert_true(may_start(fleet, "a"));
    assert_false(may_start(fleet, "b"));
    assert_int_equal(kafka->commits, commits + 2);
    memory_kafka_answer(kafka, MR_OK);
    step(fleet);
    assert_true(may_start(fleet, "b"));
    assert_true(may_start(fleet, "c"));
    kafka->hold_commits = false;
    crash(fleet);
}

static void a_start_whose_commit_fails_waits_for_the_next_one(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    fleet->rig.kafka.refuse = MR_UNREACHABLE;
    ask(fleet, "a");
    for (int i = 0; i < 100; i++) {
        pass_ms(&fleet->rig, 50);
        step(fleet);
        assert_false(may_start(fleet, "a"));
    }
    fleet->rig.kafka.refuse = MR_OK;
    for (int i = 0; i < 100 && !may_start(fleet, "a"); i++) {
        pass_ms(&fleet->rig, 50);
        step(fleet);
    }
    assert_true(may_start(fleet, "a"));
    crash(fleet);
}

/* The commit's metadata is full: the maximum number of other requests of the partition run. */
static void a_start_that_no_commit_can_record_waits_until_another_request_ends(void **state)
{
    (void)state;
    struct intake_rig rig;
    struct mr_ledger_history history;
    open_intake_rig(&rig);
    struct mr_offset_ledger *ledger = assign_partition(&rig, 0, "")->ledger;
    int64_t next = 0;
    for (; next == 0 || mr_offset_ledger_may_start(ledger, next - 1); next++) {
        if (next > 0) mr_offset_ledger_start(ledger, next - 1, 0);
        assert_int_equal(mr_offset_ledger_receive(ledger, next, &history), MR_LEDGER_NEW);
    }
    arrive(&rig, next, "{\"id\":\"a\",\"prompt\":\"p\"}");
    struct mr_ticket *ticket = ticket_named(&rig, "a");
    mr_starts_add(&rig.intake->starts, ticket);
    mr_starts_step(&rig.intake->starts, rig.now.ns);
    assert_false(ticket->intake.running);
    mr_offset_ledger_finish(ledger, 1);
    mr_starts_step(&rig.intake->starts, rig.now.ns);
    assert_true(ticket->intake.running);
    close_intake_rig(&rig);
}

/* The engine ends a request that waits for its start: its deadline passed, or it was cancelled. */
static void a_request_may_end_while_its_start_is_committed(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    fleet->rig.kafka.hold_commits = true;
    pass_ms(&fleet->rig, 100);
    ask(fleet, "a");
    post(&fleet->rig, &ticket_named(&fleet->rig, "a")->done, MR_MAIL_DONE);
    step(fleet);
    assert_null(fleet->rig.intake->starts.first);
    memory_kafka_answer(&fleet->rig.kafka, MR_OK);
    fleet->rig.kafka.hold_commits = false;
    step(fleet);
    crash(fleet);
}

/* A drain releases the request before its start is durable: no crash is counted. */
static void a_request_that_is_returned_unstarted_has_not_crashed(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    run(fleet, "a");
    post(&fleet->rig, &ticket_named(&fleet->rig, "a")->done, MR_MAIL_RETURNED);
    step(fleet);
    mr_commit_schedule_by(&fleet->rig.intake->schedule, 0);
    step(fleet);
    crash(fleet);
    start_worker(fleet);
    assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, 2);
    assert_int_equal(ticket_named(&fleet->rig, "a")->intake.start.crashes, 0);
    crash(fleet);
}

/* An eager rebalance revokes the partition and assigns it again while the start is being
 * committed. */
static void a_start_survives_a_suspension_of_its_partition(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    struct memory_kafka *kafka = &fleet->rig.kafka;
    pass_ms(&fleet->rig, 100);
    kafka->hold_commits = true;
    ask(fleet, "a");
    memory_kafka_revoke(kafka, 0, 2, MR_KAFKA_REVOKE_PAUSE);
    step(fleet);
    memory_kafka_answer(kafka, MR_OK);
    kafka->hold_commits = false;
    for (int i = 0; i < 5; i++) {
        step(fleet);
        assert_false(may_start(fleet, "a")); /* the commit records the release */
    }
    memory_kafka_assign(kafka, 0, 2);
    for (int i = 0; i < 20 && !may_start(fleet, "a"); i++) {
        pass_ms(&fleet->rig, 1);
        step(fleet);
    }
    assert_true(may_start(fleet, "a"));
    crash(fleet);
    start_worker(fleet);
    assert_int_equal(ticket_named(&fleet->rig, "a")->intake.start.crashes, 1);
    crash(fleet);
}

static void a_request_of_a_partition_that_is_lost_does_not_start(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    struct memory_kafka *kafka = &fleet->rig.kafka;
    pass_ms(&fleet->rig, 100);
    kafka->hold_commits = true;
    ask(fleet, "a");
    memory_kafka_revoke(kafka, 0, 2, MR_KAFKA_REVOKE_LOST);
    step(fleet);
    memory_kafka_answer(kafka, MR_OK);
    kafka->hold_commits = false;
    step(fleet);
    assert_false(may_start(fleet, "a"));
    assert_null(fleet->rig.intake->starts.first);
    crash(fleet);
}

/* ---- with Redis ---- */

static void with_redis_a_start_needs_no_commit(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    for (unsigned i = 1; i <= 2; i++) {
        start_worker(fleet);
        fleet->rig.kafka.hold_commits = true; /* no commit is acknowledged */
        assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, i);
        ask(fleet, "a");
        step(fleet);
        assert_true(may_start(fleet, "a"));
        fleet->log[0].committed = -1; /* nor arrives */
        crash(fleet);
        fleet->log[0].committed = -1;
    }
    start_worker(fleet);
    assert_poison(fleet, "a");
    crash(fleet);
}

static void a_redis_that_does_not_answer_is_waited_for_and_then_a_commit(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    pass_ms(&fleet->rig, 100);
    step(fleet);
    fleet->redis.holding = true;
    ask(fleet, "a");
    uint64_t asked_ns = fleet->rig.now.ns;
    unsigned commits = fleet->rig.kafka.commits;
    assert_int_equal(fleet->rig.intake->starts.due_ns, asked_ns + MR_START_WAIT_NS);
    pass_ms(&fleet->rig, MR_START_WAIT_NS / MS - 1);
    step(fleet);
    assert_int_equal(fleet->rig.kafka.commits, commits);
    pass_ms(&fleet->rig, 1);
    step(fleet);
    assert_int_equal(fleet->rig.kafka.commits, commits + 1);
    step(fleet);
    assert_true(may_start(fleet, "a"));
    fleet->redis.holding = false;
    list_redis_answer_held(&fleet->redis); /* late: finds nobody */
    step(fleet);
    crash(fleet);
}

static void a_redis_that_fails_is_replaced_by_a_commit(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    for (int refuses = 0; refuses < 2; refuses++) {
        fleet->redis.failing = !refuses;
        fleet->redis.refusing = refuses;
        run(fleet, "a");
        crash(fleet);
        start_worker(fleet);
    }
    assert_poison(fleet, "a");
    crash(fleet);
}

/* The release of the attempt is recorded in Redis but not in the commit. */
static void a_release_that_only_redis_knows_is_no_crash(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    run(fleet, "a");
    pass_ms(&fleet->rig, 1000);
    step(fleet); /* committed as running */
    mr_trail_release(ticket_named(&fleet->rig, "a")->trail);
    crash(fleet);
    start_worker(fleet);
    assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, 2);
    assert_int_equal(ticket_named(&fleet->rig, "a")->intake.start.crashes, 0);
    crash(fleet);
}

/* A failover of Redis loses the entry of the release, which is also in the commit. */
static void a_release_that_only_a_commit_knows_is_no_crash(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    run(fleet, "a");
    fleet->redis.failing = true;
    post(&fleet->rig, &ticket_named(&fleet->rig, "a")->done, MR_MAIL_RETURNED);
    step(fleet);
    mr_commit_schedule_by(&fleet->rig.intake->schedule, 0);
    step(fleet);
    crash(fleet);
    fleet->redis.failing = false;
    start_worker(fleet);
    assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, 2);
    assert_int_equal(ticket_named(&fleet->rig, "a")->intake.start.crashes, 0);
    crash(fleet);
}

/* The first start is recorded only in Redis, the second only in a commit. */
static void attempts_in_redis_and_in_commits_add_up(void **state)
{
    struct fleet *fleet = *state;
    produce_to(fleet, 0, NAMED("a"));
    start_worker(fleet);
    fleet->rig.kafka.refuse = MR_UNREACHABLE;
    run(fleet, "a");
    crash(fleet);
    start_worker(fleet);
    assert_int_equal(ticket_named(&fleet->rig, "a")->attempt, 2);
    fleet->redis.failing = true;
    run(fleet, "a");
    crash(fleet);
    start_worker(fleet); /* Redis is still away */
    assert_poison(fleet, "a");
    crash(fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_that_no_commit_can_record_waits_until_another_request_ends),
        PLAIN(a_request_that_crashes_its_first_step_takes_two_workers),
        PLAIN(a_start_waits_for_its_commit_and_starts_share_one),
        PLAIN(a_start_whose_commit_fails_waits_for_the_next_one),
        PLAIN(a_request_may_end_while_its_start_is_committed),
        PLAIN(a_request_that_is_returned_unstarted_has_not_crashed),
        PLAIN(a_start_survives_a_suspension_of_its_partition),
        PLAIN(a_request_of_a_partition_that_is_lost_does_not_start),
        REDIS(with_redis_a_start_needs_no_commit),
        REDIS(a_redis_that_does_not_answer_is_waited_for_and_then_a_commit),
        REDIS(a_redis_that_fails_is_replaced_by_a_commit),
        REDIS(a_release_that_only_redis_knows_is_no_crash),
        REDIS(a_release_that_only_a_commit_knows_is_no_crash),
        REDIS(attempts_in_redis_and_in_commits_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
