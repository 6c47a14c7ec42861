/* Publish stepped under virtual time: the reasons to hold mail back, and the end of draining. */
#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/list_redis.h"
#include "tests/unit/worker/stepping.h"

/* A stepping rig that stores tokens in a Redis whose replies the test holds back. */
struct storing {
    struct stepping rig;
    struct list_redis redis;
    struct mr_resume *resume;
    struct mr_metrics *metrics;
    struct mr_ticket ticket;
};

static void open_storing(struct storing *storing)
{
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    const struct mr_progress_origin origin = {.group = "g", .tenant = "t", .topic = "r"};
    const struct mr_request request = {.choice_count = 1};
    memset(storing, 0, sizeof *storing);
    assert_int_equal(mr_metrics_create(&storing->metrics, &info, NULL), MR_OK);
    struct mr_resume_options options = {.call = list_redis_call,
                                        .context = &storing->redis,
                                        .ttl_ns = 60000 * MS,
                                        .bytes_max = 1 << 20,
                                        .metrics = storing->metrics};
    assert_int_equal(mr_resume_create(&storing->resume, &options, NULL), MR_OK);
    open_stepping(&storing->rig, storing->resume);
    make_ticket(&storing->ticket, "a");
    storing->ticket.trail =
        mr_resume_lookup(storing->resume, &origin, &request, &storing->ticket, NULL);
    mr_trail_start(storing->ticket.trail, &(struct mr_trail_start){.attempt = 1}, NULL,
                   storing->rig.now.ns);
    storing->redis.holding = true;
}

static void close_storing(struct storing *storing)
{
    list_redis_answer_held(&storing->redis);
    close_stepping(&storing->rig);
    mr_trail_drop(storing->ticket.trail);
    mr_resume_destroy(storing->resume);
    mr_metrics_destroy(storing->metrics);
}

static void post_generated(struct storing *storing, uint32_t index)
{
    const struct mr_sample sample = {.token_id = index};
    post_mail(&storing->rig, &mr_drawn_mail_create(&storing->ticket, index, &sample)->mail);
    post_token(&storing->rig, &storing->ticket, index);
}

static void tokens_are_produced_when_redis_has_stored_them(void **state)
{
    (void)state;
    struct storing storing;
    open_storing(&storing);
    post_generated(&storing, 0);
    assert_int_equal(step_publish(&storing.rig), MR_RESUME_WAIT_NS);
    assert_int_equal(storing.rig.producer.count, 0);
    step_to(&storing.rig, storing.rig.now.ns + 5 * MS);
    post_generated(&storing, 1); /* stays in the mailbox while the first batch is held */
    assert_int_equal(step_publish(&storing.rig), MR_RESUME_WAIT_NS - 5 * MS);
    list_redis_answer_held(&storing.redis);
    storing.redis.holding = false; /* Redis replies at once from now on */
    step_publish(&storing.rig);
    assert_int_equal(storing.rig.producer.count, 2);
    assert_int_equal(storing.redis.count, 3); /* the start and two tokens */
    assert_counter(storing.metrics, "kept_tokens", 2);
    assert_counter(storing.rig.metrics, "token_records", 2);
    close_storing(&storing);
}

static void tokens_are_produced_without_a_redis_that_does_not_answer(void **state)
{
    (void)state;
    struct storing storing;
    open_storing(&storing);
    post_generated(&storing, 0);
    uint64_t wait_ns = step_publish(&storing.rig);
    step_to(&storing.rig, storing.rig.now.ns + wait_ns);
    step_publish(&storing.rig);
    assert_int_equal(storing.rig.producer.count, 1);
    post_generated(&storing, 1); /* not held: Redis has not replied since the timeout */
    step_publish(&storing.rig);
    assert_int_equal(storing.rig.producer.count, 2);
    close_storing(&storing);
}

static void only_a_request_that_ends_needs_delivery_reports_at_once(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    rig.producer.holding = true;
    post_token(&rig, &ticket, 0);
    step_publish(&rig);
    assert_int_equal(rig.producer.count, 1);
    assert_false(rig.producer.attending);
    post_result(&rig, &ticket); /* waits for its token record, then for its own */
    step_publish(&rig);
    assert_true(rig.producer.attending);
    rig.producer.holding = false;
    while (rig.producer.attending)
        step_publish(&rig);
    expect_done(&rig, 1);
    rig.producer.room = 0;
    make_ticket(&ticket, "b");
    post_token(&rig, &ticket, 0);
    step_publish(&rig); /* waits for room */
    assert_true(rig.producer.attending);
    rig.producer.room = FAKE_RECORDS_MAX;
    step_publish(&rig);
    assert_false(rig.producer.attending);
    mr_publish_drain(rig.publish, rig.now.ns + 50 * MS);
    step_publish(&rig);
    close_stepping(&rig);
}

static void draining_ends_when_every_record_is_reported(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    post_token(&rig, &ticket, 0);
    post_result(&rig, &ticket);
    rig.producer.holding = true;
    mr_publish_drain(rig.publish, rig.now.ns + 50 * MS);
    assert_int_equal(step_publish(&rig), 50 * MS);
    rig.producer.holding = false;
    step_publish(&rig); /* the result is produced now */
    assert_false(mr_publish_is_drained(rig.publish));
    step_publish(&rig);
    assert_true(mr_publish_is_drained(rig.publish));
    expect_done(&rig, 1);
    assert_true(step_publish(&rig) == UINT64_MAX);
    assert_true(close_stepping(&rig));
}

static void draining_ends_at_its_deadline(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    open_stepping(&rig, NULL);
    make_ticket(&ticket, "a");
    rig.producer.room = 1;
    rig.producer.holding = true;
    post_token(&rig, &ticket, 0);
    post_token(&rig, &ticket, 1); /* the producer has no room for it */
    post_result(&rig, &ticket);
    mr_publish_drain(rig.publish, rig.now.ns + 50 * MS);
    step_to(&rig, rig.now.ns + 49 * MS);
    assert_int_equal(step_publish(&rig), 1 * MS);
    assert_false(mr_publish_is_drained(rig.publish));
    step_to(&rig, rig.now.ns + 1 * MS);
    step_publish(&rig);
    assert_true(mr_publish_is_drained(rig.publish));
    expect_done(&rig, 0);
    assert_int_equal(mr_publish_stats(rig.publish).unreported, 1);
    assert_false(close_stepping(&rig));
}

static void draining_does_not_wait_for_a_partition_that_may_be_revoked(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket ticket;
    struct mr_write_gate gate;
    open_stepping(&rig, NULL);
    make_gated_ticket(&ticket, "a", &gate, false);
    post_result(&rig, &ticket);
    mr_publish_drain(rig.publish, rig.now.ns + 50 * MS);
    step_publish(&rig);
    assert_true(mr_publish_is_drained(rig.publish));
    assert_false(close_stepping(&rig));
    mr_mail_free(ticket.publish.terminal);
}

static void post_refusal(struct stepping *rig, struct mr_ticket *ticket, const char *id)
{
    static const struct mr_kafka_record record = {.topic = "r", .value = {"bad", 3}};
    make_ticket(ticket, id);
    struct mr_refusal_mail *mail = mr_refusal_mail_create(ticket, &record, (struct mr_text){0});
    mail->write_result = true;
    mail->finish = MR_FINISH_REJECTED;
    mr_fail(&mail->error, MR_MALFORMED, "no request");
    post_mail(rig, &mail->mail);
}

/* Only publish has the tickets of refusals. */
static void refusals_that_were_not_written_return(void **state)
{
    (void)state;
    struct stepping rig;
    struct mr_ticket first, second;
    uint32_t returned = 0;
    open_stepping(&rig, NULL);
    post_refusal(&rig, &first, "a");
    step_publish(&rig); /* produced, and not acknowledged */
    post_refusal(&rig, &second, "b");
    mr_publish_destroy(rig.publish, 0);
    rig.publish = NULL;
    for (struct mr_mail *mail = mr_mailbox_take(rig.intake); mail; mail = mail->next)
        returned += mail->kind == MR_MAIL_RETURNED;
    assert_int_equal(returned, 2);
    assert_null(first.publish.terminal);
    close_stepping(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_produced_when_redis_has_stored_them),
        cmocka_unit_test(tokens_are_produced_without_a_redis_that_does_not_answer),
        cmocka_unit_test(only_a_request_that_ends_needs_delivery_reports_at_once),
        cmocka_unit_test(draining_ends_when_every_record_is_reported),
        cmocka_unit_test(draining_ends_at_its_deadline),
        cmocka_unit_test(draining_does_not_wait_for_a_partition_that_may_be_revoked),
        cmocka_unit_test(refusals_that_were_not_written_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
