#include "worker/resume/resume.h"

#include "tests/unit/worker/counters.h"
#include "tests/unit/worker/list_redis.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket.h"

#define NOW_NS ((uint64_t)5000000000)

/* A mr_resume over a stand-in for Redis that has one list. */
struct rig {
    uint32_t silent_count, answering_count; /* calls of on_silence */
    struct list_redis redis;
    struct mr_wake wake, publish;
    struct mr_mailbox *intake;
    struct mr_metrics *metrics;
    struct mr_resume *resume;
    struct mr_request request;
    uint32_t prompt[4];
};

static const struct mr_progress_origin somewhere = {
    .group = "g", .tenant = "t", .topic = "r", .id = {"a", 1}, .value = {"{}", 2}};

static bool call_redis(void *context, const struct mr_redis_call *calls, size_t count)
{
    return list_redis_call(&((struct rig *)context)->redis, calls, count);
}

static void on_silence(void *context, bool silent)
{
    struct rig *rig = context;
    ++*(silent ? &rig->silent_count : &rig->answering_count);
}

static void open_with(struct rig *rig, uint64_t bytes_max, const struct mr_frame_secret *secrets,
                      size_t secret_count)
{
    struct mr_metrics_info info = {"w",
                                   "fake",
                                   "fp32",
                                   "cpu",
                                   MR_BLOCK_TOKENS,
                                   2048,
                                   8,
                                   &(struct mr_request_topic){.name = "r", .tenant = "default"},
                                   1,
                                   "2.0.2"};
    struct mr_mailbox_options mailbox = {256, 1 << 20, &rig->wake};
    *rig = (struct rig){.prompt = {1, 2, 3, 4}};
    rig->request = (struct mr_request){
        .token_ids = rig->prompt, .token_count = 4, .choice_count = 1, .id = {"a", 1}};
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_wake_open(&rig->publish, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->intake, &mailbox, NULL), MR_OK);
    assert_int_equal(mr_metrics_create(&rig->metrics, &info, NULL), MR_OK);
    struct mr_resume_options options = {.call = call_redis,
                                        .silence = on_silence,
                                        .context = rig,
                                        .secrets = secrets,
                                        .secret_count = secret_count,
                                        .ttl_ns = 60000000000u,
                                        .bytes_max = bytes_max,
                                        .intake = rig->intake,
                                        .metrics = rig->metrics};
    assert_int_equal(mr_resume_create(&rig->resume, &options, NULL), MR_OK);
}

static int open_rig(void **state)
{
    *state = malloc(sizeof(struct rig));
    open_with(*state, 1 << 20, NULL, 0);
    return 0;
}

static void close_rig(struct rig *rig)
{
    assert_true(mr_resume_flush(rig->resume, 1000));
    mr_resume_destroy(rig->resume);
    mr_metrics_destroy(rig->metrics);
    mr_mailbox_destroy(rig->intake);
    mr_wake_close(&rig->publish);
    mr_wake_close(&rig->wake);
}

static int drop_rig(void **state)
{
    close_rig(*state);
    free(*state);
    return 0;
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, open_rig, drop_rig)

static struct mr_found_mail *take_answer(struct rig *rig)
{
    struct mr_mail *mail = mr_mailbox_take(rig->intake);
    assert_non_null(mail);
    assert_null(mail->next);
    assert_int_equal(mail->kind, MR_MAIL_FOUND);
    return (struct mr_found_mail *)mail;
}

/* Makes the trail of the one request and takes the answer to its lookup. */
static struct mr_trail *start_lookup(struct rig *rig, struct mr_progress_history *history)
{
    struct mr_found_mail *found = NULL;
    struct mr_trail *trail = mr_resume_lookup(rig->resume, &somewhere, &rig->request, NULL, &found);
    assert_non_null(trail);
    assert_non_null(found);
    assert_ptr_equal(take_answer(rig), found);
    *history = found->history;
    found->history.samples = NULL;
    mr_found_mail_free(found);
    return trail;
}

static void draw(struct mr_trail *trail, uint32_t index, uint32_t shown)
{
    struct mr_sample sample = {.token_id = 50 + index, .logprob = -1, .probability = 0.5f};
    mr_trail_keep(trail, index, shown, &sample, NOW_NS);
}

/* A step with one token. */
static void keep(struct rig *rig, struct mr_trail *trail, uint32_t index, uint32_t shown)
{
    draw(trail, index, shown);
    store_tokens(rig->resume, NOW_NS);
}

/* The history that a worker would read now. */
static struct mr_progress_history read_history(struct rig *rig)
{
    struct mr_progress_history history;
    mr_trail_drop(start_lookup(rig, &history));
    return history;
}

static void a_crashed_request_continues_from_its_last_token(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    struct mr_trail *trail = start_lookup(rig, &history);
    assert_int_equal(history.attempts, 0);
    assert_true(mr_trail_keeps(trail));
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    for (uint32_t i = 0; i < 200; i++)
        draw(trail, i, i > 0 ? i - 1 : 0);
    store_tokens(rig->resume, NOW_NS);
    mr_trail_drop(trail);
    history = read_history(rig);
    assert_int_equal(history.attempts, 1);
    assert_int_equal(history.crashes, 1);
    assert_int_equal(history.count, 200);
    assert_int_equal(history.shown, 198);
    assert_int_equal(history.samples[199].token_id, 249);
    mr_progress_clear(&history);
}

static void a_list_expires_and_is_deleted_with_the_result(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    struct mr_trail *trail = start_lookup(rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    assert_int_equal(rig->redis.ttl_s, 60);
    assert_int_equal(rig->redis.count, 1);
    mr_trail_delete(trail);
    assert_int_equal(rig->redis.count, 0);
    keep(rig, trail, 0, 0); /* from a worker that lost the request */
    assert_int_equal(rig->redis.count, 0);
    assert_false(mr_trail_keeps(trail));
    mr_trail_drop(trail);
    trail = start_lookup(rig, &history);
    unsigned calls = rig->redis.calls;
    mr_trail_delete(trail); /* never started: there is no list */
    assert_int_equal(rig->redis.calls, calls);
    mr_trail_drop(trail);
}

static void a_released_attempt_is_no_crash(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    struct mr_trail *trail = start_lookup(rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    keep(rig, trail, 0, 0);
    mr_trail_release(trail);
    history = read_history(rig);
    assert_int_equal(history.attempts, 1);
    assert_int_equal(history.crashes, 0);
    assert_int_equal(history.count, 1);
    mr_progress_clear(&history);
    mr_trail_reclaim(trail);
    keep(rig, trail, 1, 1);
    history = read_history(rig);
    assert_int_equal(history.crashes, 1);
    assert_int_equal(history.count, 2);
    mr_progress_clear(&history);
    mr_trail_drop(trail);
}

static void a_write_that_fails_ends_the_trail_before_a_gap(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    struct mr_trail *trail = start_lookup(rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    keep(rig, trail, 0, 0);
    rig->redis.failing = true;
    keep(rig, trail, 1, 0);
    rig->redis.failing = false;
    assert_false(mr_trail_keeps(trail));
    assert_counter(rig->metrics, "lost_trails", 1);
    keep(rig, trail, 2, 0);
    mr_trail_drop(trail);
    history = read_history(rig);
    assert_int_equal(history.count, 1);
    assert_int_equal(rig->redis.count, 2);
    mr_progress_clear(&history);
}

static void without_redis_nothing_is_known_and_nothing_stored(void **state)
{
    struct rig *rig = *state;
    struct mr_found_mail *found = NULL;
    rig->redis.failing = true;
    struct mr_trail *trail = mr_resume_lookup(rig->resume, &somewhere, &rig->request, NULL, &found);
    assert_ptr_equal(take_answer(rig), found);
    assert_false(found->answered);
    mr_found_mail_free(found);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    assert_false(mr_trail_keeps(trail));
    mr_trail_release(trail);
    mr_trail_delete(trail);
    mr_trail_drop(trail);

    rig->redis.refusing = true; /* the connection thread has no room */
    trail = mr_resume_lookup(rig->resume, &somewhere, &rig->request, NULL, &found);
    assert_non_null(trail);
    assert_null(found);
    assert_null(mr_mailbox_take(rig->intake));
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    assert_false(mr_trail_keeps(trail));
    mr_trail_delete(trail);
    mr_trail_drop(trail);
}

static void a_token_that_is_refused_ends_the_trail(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    struct mr_trail *trail = start_lookup(rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    rig->redis.refusing = true;
    keep(rig, trail, 0, 0);
    assert_false(mr_trail_keeps(trail));
    mr_trail_drop(trail);
}

static void publish_waits_once_for_a_silent_redis(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    struct mr_trail *trail = start_lookup(rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    rig->redis.holding = true;
    keep(rig, trail, 0, 0); /* times out */
    keep(rig, trail, 1, 0); /* returns at once */
    assert_int_equal(rig->redis.held_count, 2);
    assert_int_equal(mr_resume_in_flight(rig->resume), 2);
    assert_false(mr_resume_flush(rig->resume, 1));
    mr_trail_drop(trail);
    list_redis_answer_held(&rig->redis);
    rig->redis.holding = false;
    history = read_history(rig);
    assert_int_equal(history.count, 2);
    mr_progress_clear(&history);
}

static void poll_is_pending_until_redis_has_stored_the_tokens(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    uint64_t retry_ns = 0;
    struct mr_trail *trail = start_lookup(rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    mr_resume_attach(rig->resume, &rig->publish);
    assert_int_equal(mr_resume_poll(rig->resume, NOW_NS, &retry_ns), MR_RESUME_READY);
    assert_true(retry_ns == UINT64_MAX); /* nothing was kept */
    rig->redis.holding = true;
    draw(trail, 0, 0);
    assert_int_equal(mr_resume_poll(rig->resume, NOW_NS, &retry_ns), MR_RESUME_PENDING);
    assert_true(retry_ns == NOW_NS + MR_RESUME_WAIT_NS);
    assert_int_equal(mr_resume_poll(rig->resume, retry_ns - 1, &retry_ns), MR_RESUME_PENDING);
    assert_false(mr_wake_wait(&rig->publish, 0));
    list_redis_answer_held(&rig->redis);
    assert_true(mr_wake_wait(&rig->publish, 0));
    assert_int_equal(mr_resume_poll(rig->resume, retry_ns, &retry_ns), MR_RESUME_READY);
    mr_resume_attach(rig->resume, NULL);
    mr_trail_drop(trail);
}

static void poll_times_out_once_and_not_again_before_redis_has_answered(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    uint64_t retry_ns = 0;
    struct mr_trail *trail = start_lookup(rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    rig->redis.holding = true;
    draw(trail, 0, 0);
    assert_int_equal(mr_resume_poll(rig->resume, NOW_NS, &retry_ns), MR_RESUME_PENDING);
    assert_int_equal(mr_resume_poll(rig->resume, retry_ns, &retry_ns), MR_RESUME_READY);
    draw(trail, 1, 0);
    assert_int_equal(mr_resume_poll(rig->resume, NOW_NS * 2, &retry_ns), MR_RESUME_READY);
    list_redis_answer_held(&rig->redis);
    draw(trail, 2, 0);
    assert_int_equal(mr_resume_poll(rig->resume, NOW_NS * 3, &retry_ns), MR_RESUME_PENDING);
    list_redis_answer_held(&rig->redis);
    mr_trail_drop(trail);
}

/* Two answers are abandoned; their arrival changes nothing about the trails. */
static void redis_is_silent_until_abandoned_answers_arrive(void **state)
{
    struct rig *rig = *state;
    struct mr_found_mail *found[2] = {NULL};
    struct mr_trail *trails[2];
    struct mr_progress_history history;
    struct mr_trail *before = start_lookup(rig, &history);
    mr_trail_start(before, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    rig->redis.holding = true;
    for (uint32_t i = 0; i < 2; i++)
        trails[i] = mr_resume_lookup(rig->resume, &somewhere, &rig->request, NULL, &found[i]);
    assert_false(mr_resume_is_silent(rig->resume));
    for (uint32_t i = 0; i < 2; i++)
        assert_true(mr_resume_abandon(rig->resume, found[i]));
    assert_true(mr_resume_is_silent(rig->resume));
    assert_true(rig->silent_count == 1 && rig->answering_count == 0);
    keep(rig, before, 0, 0); /* is sent nevertheless */
    assert_int_equal(rig->redis.held_count, 3);
    list_redis_answer_held(&rig->redis);
    assert_false(mr_resume_is_silent(rig->resume));
    assert_true(rig->silent_count == 1 && rig->answering_count == 1);
    rig->redis.holding = false;
    unsigned calls = rig->redis.calls;
    for (uint32_t i = 0; i < 2; i++) {
        struct mr_mail *mail = i == 0 ? mr_mailbox_take(rig->intake) : &found[1]->mail;
        assert_ptr_equal(mail, &found[i]->mail);
        assert_false(mr_resume_abandon(rig->resume, found[i])); /* it has arrived */
        mr_trail_delete(trails[i]); /* never started, no answer: no list is known */
        mr_trail_drop(trails[i]);
    }
    assert_int_equal(rig->redis.calls, calls);
    mr_found_mail_free(found[0]);
    mr_found_mail_free(found[1]);
    mr_trail_drop(before);
}

static void a_trail_may_start_without_a_lookup(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    struct mr_trail *trail = mr_resume_lookup(rig->resume, &somewhere, &rig->request, NULL, NULL);
    assert_int_equal(rig->redis.calls, 0);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    keep(rig, trail, 0, 0);
    history = read_history(rig);
    assert_int_equal(history.count, 1);
    mr_progress_clear(&history);
    mr_trail_drop(trail);
}

static void no_more_is_stored_than_allowed(void **state)
{
    struct rig rig;
    struct mr_progress_history history;
    (void)state;
    open_with(&rig, 1000, NULL, 0);
    struct mr_trail *trail = start_lookup(&rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    for (uint32_t i = 0; i < 100; i++)
        keep(&rig, trail, i, 0);
    assert_false(mr_trail_keeps(trail));
    history = read_history(&rig);
    assert_in_range(history.count, 10, 1000 / 20);
    mr_progress_clear(&history);
    mr_trail_drop(trail); /* returns its share of the limit */
    trail = start_lookup(&rig, &history);
    mr_progress_clear(&history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 2}, NULL, NOW_NS);
    keep(&rig, trail, 0, 0);
    assert_true(mr_trail_keeps(trail));
    mr_trail_drop(trail);
    close_rig(&rig);

    open_with(&rig, 0, NULL, 0); /* --no-resume: attempts are still counted */
    trail = start_lookup(&rig, &history);
    assert_false(mr_trail_keeps(trail));
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    keep(&rig, trail, 0, 0);
    history = read_history(&rig);
    assert_int_equal(history.attempts, 1);
    assert_int_equal(history.count, 0);
    mr_trail_drop(trail);
    close_rig(&rig);
}

static void tokens_of_several_choices_are_not_stored(void **state)
{
    struct rig *rig = *state;
    struct mr_progress_history history;
    rig->request.choice_count = 2;
    struct mr_trail *trail = start_lookup(rig, &history);
    assert_false(mr_trail_keeps(trail));
    mr_trail_drop(trail);
}

static void with_a_key_tokens_are_stored_encrypted(void **state)
{
    struct rig rig;
    struct mr_frame_secret secrets[] = {{.id = 4, .key = {1, 2, 3}}};
    struct mr_progress_history history;
    (void)state;
    open_with(&rig, 1 << 20, secrets, 1);
    struct mr_trail *trail = start_lookup(&rig, &history);
    mr_trail_start(trail, &(struct mr_trail_start){.attempt = 1}, NULL, NOW_NS);
    struct mr_sample sample = {.token_id = 0x41424344};
    mr_trail_keep(trail, 0, 0, &sample, NOW_NS);
    store_tokens(rig.resume, NOW_NS);
    mr_trail_drop(trail);
    for (size_t i = 0; i < rig.redis.count; i++)
        assert_null(memmem(rig.redis.items[i].bytes, rig.redis.items[i].length, "DCBA", 4));
    history = read_history(&rig);
    assert_int_equal(history.count, 1);
    assert_int_equal(history.samples[0].token_id, 0x41424344);
    mr_progress_clear(&history);
    close_rig(&rig);
}

static void an_answer_after_the_end_is_not_posted(void **state)
{
    struct rig *rig = *state;
    struct mr_found_mail *found = NULL;
    rig->redis.holding = true;
    struct mr_trail *trail = mr_resume_lookup(rig->resume, &somewhere, &rig->request, NULL, &found);
    assert_non_null(found);
    mr_trail_drop(trail);
    mr_resume_stop_answers(rig->resume);
    list_redis_answer_held(&rig->redis);
    assert_null(mr_mailbox_take(rig->intake));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_crashed_request_continues_from_its_last_token),
        RIG_TEST(a_list_expires_and_is_deleted_with_the_result),
        RIG_TEST(a_released_attempt_is_no_crash),
        RIG_TEST(a_write_that_fails_ends_the_trail_before_a_gap),
        RIG_TEST(without_redis_nothing_is_known_and_nothing_stored),
        RIG_TEST(a_token_that_is_refused_ends_the_trail),
        RIG_TEST(publish_waits_once_for_a_silent_redis),
        RIG_TEST(poll_is_pending_until_redis_has_stored_the_tokens),
        RIG_TEST(poll_times_out_once_and_not_again_before_redis_has_answered),
        RIG_TEST(redis_is_silent_until_abandoned_answers_arrive),
        RIG_TEST(a_trail_may_start_without_a_lookup),
        cmocka_unit_test(no_more_is_stored_than_allowed),
        RIG_TEST(tokens_of_several_choices_are_not_stored),
        cmocka_unit_test(with_a_key_tokens_are_stored_encrypted),
        RIG_TEST(an_answer_after_the_end_is_not_posted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
