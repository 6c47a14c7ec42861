#include "worker/intake/lookups.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/intake_rig.h"
#include "tests/unit/worker/list_redis.h"

#define NAMED(id) "{\"id\":\"" id "\",\"prompt\":\"hello\"}"
#define VALUE     NAMED("a")

/* Intake with a Redis simulated by the test, which decides when answers arrive. */
struct rig {
    struct intake_rig intake;
    struct list_redis redis;
    struct mr_resume *resume;
};

static int open_rig(void **state)
{
    struct rig *rig = *state = calloc(1, sizeof *rig);
    assert_non_null(rig);
    create_intake_rig(&rig->intake);
    struct mr_resume_options options = {.call = list_redis_call,
                                        .context = &rig->redis,
                                        .ttl_ns = 60000000000u,
                                        .bytes_max = 1 << 20,
                                        .intake = mr_intake_mailbox(rig->intake.intake),
                                        .metrics = rig->intake.metrics};
    assert_int_equal(mr_resume_create(&rig->resume, &options, NULL), MR_OK);
    open_intake_with(&rig->intake, rig->resume, NULL);
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;
    struct mr_intake *intake = rig->intake.intake;
    struct mr_mailbox *mailbox = mr_intake_mailbox(intake);
    assert_int_equal(intake->lookups.bytes, 0);
    rig_end(&rig->intake.engine);
    mr_intake_forget_engine(intake);
    mr_admission_drop_all(&intake->admission);
    mr_lookups_close(&intake->lookups, mailbox);
    list_redis_answer_held(&rig->redis);
    assert_null(mr_mailbox_take(mailbox));
    mr_resume_destroy(rig->resume);
    intake->lookups.resume = NULL;
    close_intake_rig(&rig->intake);
    free(rig);
    return 0;
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

/* Intake takes the answers in. */
static void turn(struct rig *rig)
{
    struct mr_intake *intake = rig->intake.intake;
    for (struct mr_mail *mail = mr_mailbox_take(intake->mailbox), *next; mail; mail = next) {
        next = mail->next;
        if (mail->kind == MR_MAIL_NOTED) {
            mr_starts_answer(&intake->starts, (struct mr_found_mail *)mail);
            continue;
        }
        assert_int_equal(mail->kind, MR_MAIL_FOUND);
        if (mr_lookups_finish(&intake->lookups, (struct mr_found_mail *)mail))
            intake->flight.retry_parked = true;
    }
    if (intake->flight.retry_parked)
        mr_admission_retry_parked(&intake->admission, &rig->intake.now);
}

/* The time is now_ns. */
static void expire(struct rig *rig, uint64_t now_ns)
{
    struct mr_intake *intake = rig->intake.intake;
    if (mr_lookups_expire(&intake->lookups, intake->flight.parked, now_ns))
        intake->flight.retry_parked = true;
}

static void nothing_is_submitted_before_the_answer(void **state)
{
    struct rig *rig = *state;
    rig->redis.holding = true;
    assign_partition(&rig->intake, 0, "");
    arrive(&rig->intake, 0, VALUE);
    assert_null(ticket_named(&rig->intake, "a"));
    assert_int_equal(rig->intake.intake->flight.parked_count, 1);
    assert_true(rig->intake.intake->lookups.bytes > 0);
    mr_admission_retry_parked(&rig->intake.intake->admission, &rig->intake.now);
    assert_null(ticket_named(&rig->intake, "a"));
    list_redis_answer_held(&rig->redis);
    turn(rig);
    struct mr_ticket *ticket = ticket_named(&rig->intake, "a");
    assert_non_null(ticket);
    assert_int_equal(ticket->attempt, 1);
    assert_null(ticket->intake.refusal);
    assert_int_equal(rig->intake.intake->lookups.bytes, 0);
    rig->redis.holding = false;
}

/* Redis does not answer: one request waits for a moment, the next ones do not. After an answer the
 * next request is looked up again. */
static void an_answer_that_does_not_come_is_waited_for_once(void **state)
{
    struct rig *rig = *state;
    struct mr_intake *intake = rig->intake.intake;
    rig->redis.holding = true;
    assign_partition(&rig->intake, 0, "");
    uint64_t before_ns = rig->intake.now.ns;
    arrive(&rig->intake, 0, VALUE);
    assert_in_range(intake->lookups.due_ns, before_ns + MR_LOOKUP_WAIT_NS,
                    rig->intake.now.ns + MR_LOOKUP_WAIT_NS);
    uint64_t due_ns = intake->lookups.due_ns;
    expire(rig, due_ns - 1);
    turn(rig);
    assert_null(ticket_named(&rig->intake, "a"));
    expire(rig, due_ns);
    turn(rig);
    struct mr_ticket *ticket = ticket_named(&rig->intake, "a");
    assert_non_null(ticket);
    assert_null(ticket->intake.lookup);
    assert_non_null(ticket->trail);
    assert_int_equal(intake->lookups.bytes, 0);
    assert_int_equal(intake->lookups.due_ns, UINT64_MAX);
    unsigned calls = rig->redis.calls;
    arrive(&rig->intake, 1, NAMED("b"));
    assert_non_null(ticket_named(&rig->intake, "b"));
    assert_int_equal(rig->redis.calls, calls);
    list_redis_answer_held(&rig->redis);
    turn(rig); /* finds nobody */
    arrive(&rig->intake, 2, NAMED("c"));
    assert_int_equal(rig->redis.calls, calls + 1);
    assert_null(ticket_named(&rig->intake, "c"));
    rig->redis.key[0] = '\0'; /* another record, another list */
    list_redis_answer_held(&rig->redis);
    turn(rig);
    assert_non_null(ticket_named(&rig->intake, "c"));
    assert_counter(rig->intake.metrics, "unheard_requests", 2);
    rig->redis.holding = false;
}

/* The request may be poison, or nearly complete: only Redis has this information. */
static void what_was_begun_before_waits_for_its_answer(void **state)
{
    struct rig *rig = *state;
    static char metadata[MR_LEDGER_METADATA_TEXT_MAX];
    struct mr_ledger_history history;
    struct mr_intake *intake = rig->intake.intake;
    struct mr_partition *partition = assign_partition(&rig->intake, 0, "");
    assert_int_equal(mr_offset_ledger_receive(partition->ledger, 0, &history), MR_LEDGER_NEW);
    mr_offset_ledger_start(partition->ledger, 0, 0);
    mr_ledger_metadata_encode(partition->ledger, (struct mr_ledger_head){1, 0}, metadata);
    mr_partition_forget(partition);
    assign_partition(&rig->intake, 0, metadata);
    rig->redis.holding = true;
    arrive(&rig->intake, 0, VALUE);
    expire(rig, UINT64_MAX - 1);
    turn(rig);
    assert_null(ticket_named(&rig->intake, "a"));
    assert_int_equal(intake->flight.parked_count, 1);
    list_redis_answer_held(&rig->redis);
    turn(rig);
    assert_non_null(ticket_named(&rig->intake, "a"));
    rig->redis.holding = false;
}

static void after_a_failed_question_it_runs_as_if_there_were_no_redis(void **state)
{
    struct rig *rig = *state;
    rig->redis.failing = true;
    assign_partition(&rig->intake, 0, "");
    arrive(&rig->intake, 0, VALUE);
    turn(rig);
    assert_non_null(ticket_named(&rig->intake, "a"));
}

static void after_a_refused_question_too(void **state)
{
    struct rig *rig = *state;
    rig->redis.refusing = true;
    assign_partition(&rig->intake, 0, "");
    arrive(&rig->intake, 0, VALUE);
    assert_non_null(ticket_named(&rig->intake, "a"));
}

static void cancelled_while_it_waits_for_the_answer(void **state)
{
    struct rig *rig = *state;
    struct mr_ticket *ticket = NULL;
    const struct mr_kafka_record record = {.topic = "c", .key = {"a", 1}, .value = {"{}", 2}};
    rig->redis.holding = true;
    assign_partition(&rig->intake, 0, "");
    arrive(&rig->intake, 0, VALUE);
    mr_cancels_apply(&rig->intake.intake->admission, &record, &rig->intake.now);
    assert_int_equal(take_refusal(&rig->intake, &ticket, NULL), MR_CANCELLED);
    assert_int_equal(rig->intake.intake->lookups.bytes, 0);
    list_redis_answer_held(&rig->redis);
    turn(rig); /* the answer finds nobody */
    mr_admission_done(&rig->intake.intake->admission, answered(ticket));
    rig->redis.holding = false;
}

/* Writes the history of workers that crashed while they ran the record of this rig, one for each of
 * `crashes`. */
static void write_history(struct rig *rig, uint32_t crashes, uint32_t tokens)
{
    struct mr_intake *intake = rig->intake.intake;
    assign_partition(&rig->intake, 0, "");
    rig->redis.holding = true;
    arrive(&rig->intake, 0, VALUE);
    struct mr_ticket *ticket = intake->flight.parked;
    rig->redis.holding = false;
    assert_non_null(ticket->intake.lookup);
    for (uint32_t attempt = 1; attempt <= crashes; attempt++) {
        mr_trail_start(ticket->trail, &(struct mr_trail_start){.attempt = attempt}, NULL,
                       rig->intake.now.ns);
        for (uint32_t i = 0; i < tokens; i++) {
            struct mr_sample sample = {.token_id = 2 + i, .probability = 1};
            mr_trail_keep(ticket->trail, i, i, &sample, rig->intake.now.ns);
        }
        store_tokens(rig->resume, rig->intake.now.ns);
    }
    list_redis_answer_held(&rig->redis);
}

static void the_next_attempt_has_the_next_number_and_the_tokens(void **state)
{
    struct rig *rig = *state;
    write_history(rig, 1, 5);
    turn(rig);
    struct mr_ticket *ticket = ticket_named(&rig->intake, "a");
    assert_non_null(ticket);
    assert_int_equal(ticket->attempt, 2);
    assert_int_equal(ticket->intake.start.crashes, 1);
    assert_int_equal(ticket->kept_count, 5);
    assert_int_equal(ticket->kept_shown, 4);
    assert_null(ticket->intake.kept); /* the engine has it */
    assert_true(ticket->intake.start.crashed_alone);
    assert_int_equal(rig->intake.intake->flight.suspects, 0);
    assert_int_equal(rig->intake.intake->lookups.redelivered, 1);
    assert_counter(rig->intake.metrics, "redeliveries", 1);
    assert_counter(rig->intake.metrics, "resumed_requests", 1);
    assert_counter(rig->intake.metrics, "resumed_tokens", 5);
    /* From now on the commit's metadata contains it too. */
    struct mr_ledger_slot *slot = mr_offset_ledger_slot(ticket->intake.partition->ledger, 0);
    assert_int_equal(slot->attempts, 1);
    assert_int_equal(slot->crashes, 1);
}

static void two_workers_down_is_poison_whatever_the_commits_say(void **state)
{
    struct rig *rig = *state;
    struct mr_ticket *ticket = NULL;
    bool dead_letter = false;
    write_history(rig, 2, 3);
    turn(rig);
    assert_int_equal(take_refusal(&rig->intake, &ticket, &dead_letter), MR_POISON);
    assert_true(dead_letter);
    assert_int_equal(ticket->attempt, 3);
    assert_int_equal(rig->intake.intake->admission.stats.dead_lettered, 1);
    assert_true(rig->redis.count > 0);
    mr_admission_done(&rig->intake.intake->admission, answered(ticket));
    assert_int_equal(rig->redis.count,
                     0); /* the request is answered: no further lookup is needed */
}

static void a_list_is_deleted_when_the_result_is_on_the_broker(void **state)
{
    struct rig *rig = *state;
    assign_partition(&rig->intake, 0, "");
    arrive(&rig->intake, 0, VALUE);
    turn(rig);
    struct mr_ticket *ticket = ticket_named(&rig->intake, "a");
    begin(&rig->intake, ticket);
    assert_int_equal(rig->redis.count, 1);
    mr_admission_done(&rig->intake.intake->admission, answered(ticket));
    assert_int_equal(rig->redis.count, 0);
}

static void handing_back_is_noted_and_dropping_alone_is_not(void **state)
{
    struct rig *rig = *state;
    assign_partition(&rig->intake, 0, "");
    arrive(&rig->intake, 0, VALUE);
    turn(rig);
    struct mr_ticket *ticket = ticket_named(&rig->intake, "a");
    begin(&rig->intake, ticket);
    mr_partition_requests_change(&rig->intake.intake->requests, NULL, mr_starts_release);
    assert_int_equal(rig->redis.count, 2); /* began; was handed back */
    atomic_store(&ticket->dropped, true);
    mr_admission_done(&rig->intake.intake->admission, answered(ticket));
    assert_int_equal(rig->redis.count, 2); /* the next owner reads it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(nothing_is_submitted_before_the_answer),
        RIG_TEST(an_answer_that_does_not_come_is_waited_for_once),
        RIG_TEST(what_was_begun_before_waits_for_its_answer),
        RIG_TEST(after_a_failed_question_it_runs_as_if_there_were_no_redis),
        RIG_TEST(after_a_refused_question_too),
        RIG_TEST(cancelled_while_it_waits_for_the_answer),
        RIG_TEST(the_next_attempt_has_the_next_number_and_the_tokens),
        RIG_TEST(two_workers_down_is_poison_whatever_the_commits_say),
        RIG_TEST(a_list_is_deleted_when_the_result_is_on_the_broker),
        RIG_TEST(handing_back_is_noted_and_dropping_alone_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
