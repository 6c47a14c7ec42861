/* The start of a request is durable before its first engine step: several workers in turn over a
 * Kafka in memory. A worker that crashes runs no further step. */
#include "worker/intake/starts.h"

#include "tests/unit/worker/intake_rig.h"
#include "tests/unit/worker/list_redis.h"

#define NAMED(id) "{\"id\":\"" id "\",\"prompt\":\"hello\"}"
#define MS        ((uint64_t)1000000)

struct fleet {
    struct intake_rig rig; /* the worker of now */
    struct memory_partition log[MEMORY_PARTITIONS];
    bool with_redis;
    struct list_redis redis;
    struct mr_resume *resume;
};

static int make_fleet(void **state)
{
    struct fleet *fleet = *state = calloc(1, sizeof *fleet);
    assert_non_null(fleet);
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        fleet->log[i].committed = -1;
    return 0;
}

static int make_fleet_with_redis(void **state)
{
    make_fleet(state);
    ((struct fleet *)*state)->with_redis = true;
    return 0;
}

static void step(struct fleet *fleet)
{
    step_intake(&fleet->rig);
}

/* A worker takes over partitions 0 and 1 and their records. */
static void start_worker(struct fleet *fleet)
{
    struct intake_rig *rig = &fleet->rig;
    create_intake_rig(rig);
    memcpy(rig->kafka.partitions, fleet->log, sizeof fleet->log);
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        rig->kafka.partitions[i].position = 0;
    struct mr_resume_options options = {.call = list_redis_call,
                                        .context = &fleet->redis,
                                        .ttl_ns = 60000000000u,
                                        .intake = mr_intake_mailbox(rig->intake),
                                        .metrics = rig->metrics};
    if (fleet->with_redis)
        assert_int_equal(mr_resume_create(&fleet->resume, &options, NULL), MR_OK);
    open_intake_with(rig, fleet->resume, NULL);
    memory_kafka_assign(&rig->kafka, 0, 2);
    for (int i = 0; i < 4; i++)
        step(fleet);
}

/* No step follows, and nothing is written any more. */
static void crash(struct fleet *fleet)
{
    struct intake_rig *rig = &fleet->rig;
    memcpy(fleet->log, rig->kafka.partitions, sizeof fleet->log);
    for (int i = 0; i < MEMORY_PARTITIONS; i++)
        fleet->log[i].assigned = false;
    rig_end(&rig->engine);
    mr_intake_forget_engine(rig->intake);
    mr_admission_drop_all(&rig->intake->admission);
    mr_lookups_close(&rig->intake->lookups, mr_intake_mailbox(rig->intake));
    list_redis_answer_held(&fleet->redis);
    rig->intake->lookups.resume = NULL;
    close_intake_rig(rig);
    mr_resume_destroy(fleet->resume);
    fleet->resume = NULL;
}

static int end_fleet(void **state)
{
    free(*state);
    return 0;
}

static void produce_to(struct fleet *fleet, int32_t partition, const char *value)
{
    struct memory_partition *log = &fleet->log[partition];
    log->records[log->end++] = (struct memory_record){value, RIG_START_MS};
}

static void ask(struct fleet *fleet, const char *id)
{
    struct mr_ticket *ticket = ticket_named(&fleet->rig, id);
    assert_non_null(ticket);
    post(&fleet->rig, &ticket->starting, MR_MAIL_STARTING);
    step(fleet);
}

static bool may_start(struct fleet *fleet, const char *id)
{
    return atomic_load(&ticket_named(&fleet->rig, id)->may_start);
}

/* Steps until the request may start; the time advances as the steps say. */
static void run(struct fleet *fleet, const char *id)
{
    ask(fleet, id);
    for (int i = 0; !may_start(fleet, id); i++) {
        assert_true(i < 100);
        pass_ms(&fleet->rig, 1);
        step(fleet);
    }
}

static enum mr_status refusal(struct fleet *fleet, bool *dead_letter)
{
    struct mr_ticket *ticket = NULL;
    enum mr_status status = take_refusal(&fleet->rig, &ticket, dead_letter);
    mr_admission_done(&fleet->rig.intake->admission, ticket);
    return status;
}

static void assert_poison(struct fleet *fleet, const char *id)
{
    bool dead_letter = false;
    assert_null(ticket_named(&fleet->rig, id));
    assert_int_equal(refusal(fleet, &dead_letter), MR_POISON);
    assert_true(dead_letter);
}

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

/* A drain gives the request back before its start was durable: no crash is counted. */
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

/* An eager rebalance takes the partition away and gives it back while the start is committed. */
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
        assert_false(may_start(fleet, "a")); /* what is committed says that it was released */
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

/* ---- several requests ---- */

static void finish(struct fleet *fleet, const char *id)
{
    post(&fleet->rig, &ticket_named(&fleet->rig, id)->done, MR_MAIL_DONE);
    step(fleet);
}

static bool is_submitted(struct fleet *fleet, const char *id)
{
    return ticket_named(&fleet->rig, id) != NULL;
}

static void run_all(struct fleet *fleet, const char *const *ids)
{
    for (; *ids; ids++)
        run(fleet, *ids);
}

/* After one crash, all of them run together again. */
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

/* It is noted that it has company, before the company starts. */
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

/* A crash alone after one among others is enough. */
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

/* Redis knows that the attempt was released, and the commit does not. */
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

/* The first start is in Redis alone, the second in a commit alone. */
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

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, make_fleet, end_fleet)
#define REDIS(name) cmocka_unit_test_setup_teardown(name, make_fleet_with_redis, end_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(a_request_that_crashes_its_first_step_takes_two_workers),
        PLAIN(a_start_waits_for_its_commit_and_starts_share_one),
        PLAIN(a_start_whose_commit_fails_waits_for_the_next_one),
        PLAIN(a_request_may_end_while_its_start_is_committed),
        PLAIN(a_request_that_is_returned_unstarted_has_not_crashed),
        PLAIN(a_start_survives_a_suspension_of_its_partition),
        PLAIN(a_request_of_a_partition_that_is_lost_does_not_start),
        PLAIN(one_crash_makes_nobody_wait),
        PLAIN(of_several_suspects_only_the_one_that_crashes_again_is_refused),
        PLAIN(a_request_that_ran_alone_until_another_started_is_a_suspect),
        PLAIN(the_company_at_the_last_crash_counts),
        REDIS(with_redis_a_start_needs_no_commit),
        REDIS(a_redis_that_does_not_answer_is_waited_for_and_then_a_commit),
        REDIS(a_redis_that_fails_is_replaced_by_a_commit),
        REDIS(a_release_that_only_redis_knows_is_no_crash),
        REDIS(attempts_in_redis_and_in_commits_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
