/* Steps the engine thread and publish in turn, in one thread and under virtual time, over a fake
 * model and a producer in memory. The test takes the place of intake. */
#include "tests/fakes/engine_rig.h"
#include "tests/unit/worker/list_redis.h"
#include "tests/unit/worker/stepping.h"
#include "worker/engine/engine_thread.h"

struct flow {
    struct stepping publish; /* its clock is set to the fake model's clock */
    struct engine_rig engine;
    struct mr_engine_thread *thread;
    struct mr_ticket ticket;
    struct list_redis redis;
    struct mr_resume *resume;
    struct mr_metrics *metrics;
    struct mr_mailbox *narrow; /* in place of publish's mailbox; NULL: none */
    enum mr_status open_status;
    bool closed;
};

/* ---- the source ---- */

static enum mr_status open_fake(void *self, const struct mr_engine_user *user,
                                struct mr_engine_parts *parts, struct mr_error *err)
{
    struct flow *flow = self;
    if (flow->open_status != MR_OK) return mr_fail(err, flow->open_status, "no model");
    flow->engine.options.wake = user->wake;
    flow->engine.options.wake_context = user->context;
    rig_start_with(&flow->engine, &user->sink);
    flow->engine.fake->now_ns = flow->publish.now.ns;
    *parts = (struct mr_engine_parts){
        .engine = flow->engine.engine, .tokenizer = flow->engine.tokenizer, .context_tokens = 2048};
    return MR_OK;
}

static bool nothing_to_populate(void *self)
{
    (void)self;
    return false;
}

static uint64_t fake_clock(void *self)
{
    return ((struct flow *)self)->engine.fake->now_ns;
}

static void close_fake(void *self)
{
    struct flow *flow = self;
    flow->closed = true;
    if (flow->engine.engine) rig_end(&flow->engine);
}

/* ---- the rig ---- */

static void make_flow(struct flow *flow, bool with_redis)
{
    struct mr_metrics_info info = {
        "w", "m",    "fp32", "cpu",
        16,  64,     1,      &(struct mr_request_topic){.name = "r", .tenant = "default"},
        1,   "2.0.2"};
    memset(flow, 0, sizeof *flow);
    rig_init(&flow->engine);
    if (with_redis) {
        assert_int_equal(mr_metrics_create(&flow->metrics, &info, NULL), MR_OK);
        struct mr_resume_options resume = {.call = list_redis_call,
                                           .context = &flow->redis,
                                           .ttl_ns = 60000 * MS,
                                           .bytes_max = 1 << 20,
                                           .metrics = flow->metrics};
        assert_int_equal(mr_resume_create(&flow->resume, &resume, NULL), MR_OK);
    }
    open_stepping(&flow->publish, flow->resume);
    make_ticket(&flow->ticket, "a");
    struct mr_engine_source source = {flow, open_fake, nothing_to_populate, fake_clock, close_fake};
    struct mr_engine_thread_options options = {
        .source = source, .failed = count_failure, .context = &flow->publish};
    assert_int_equal(mr_engine_thread_create(&flow->thread, &options, NULL), MR_OK);
}

static void link_flow(struct flow *flow, struct mr_mailbox *narrow)
{
    flow->narrow = narrow;
    assert_int_equal(mr_engine_thread_step(flow->thread, flow->publish.now),
                     0); /* opens the model */
    assert_int_equal(mr_engine_thread_wait_ready(flow->thread, NULL), MR_OK);
    assert_true(mr_engine_thread_step(flow->thread, flow->publish.now) == UINT64_MAX);
    struct mr_engine_thread_links links = {
        .publish = narrow ? narrow : mr_publish_mailbox(flow->publish.publish),
        .intake = flow->publish.intake,
        .intake_wake = &flow->publish.wake};
    mr_engine_thread_link(flow->thread, &links);
    assert_int_equal(mr_engine_thread_step(flow->thread, flow->publish.now), 0);
}

static void open_flow(struct flow *flow, bool with_redis, struct mr_mailbox *narrow)
{
    make_flow(flow, with_redis);
    link_flow(flow, narrow);
}

static void close_flow(struct flow *flow)
{
    mr_engine_thread_destroy(flow->thread);
    assert_true(flow->closed);
    mr_mailbox_take(flow->publish.intake); /* messages inside tickets: nothing to free */
    assert_int_equal(flow->publish.failures, 0);
    list_redis_answer_held(&flow->redis);
    close_stepping(&flow->publish);
    mr_trail_drop(flow->ticket.trail);
    mr_resume_destroy(flow->resume);
    mr_metrics_destroy(flow->metrics);
}

static void submit_prompt(struct flow *flow, const uint32_t *tokens, uint32_t count,
                          uint32_t max_tokens)
{
    struct mr_engine_port port = mr_engine_thread_port(flow->thread);
    struct mr_request *request = mr_fake_request("a", tokens, count);
    request->max_tokens = max_tokens;
    request->ignore_eos = true;
    struct mr_submission submission = {.request = request,
                                       .ticket = (uint64_t)(uintptr_t)&flow->ticket,
                                       .tenant = "default",
                                       .arrival_ns = flow->publish.now.ns};
    assert_true(port.room(port.self) & 1);
    assert_int_equal(port.submit(port.self, &submission, NULL), MR_OK);
}

static void submit(struct flow *flow, uint32_t max_tokens)
{
    const uint32_t tokens[] = {1, 2, 3, 4};
    submit_prompt(flow, tokens, 4, max_tokens);
}

/* One step of the engine, which advances the fake model's clock, and one step of publish. */
static void step_both(struct flow *flow)
{
    uint64_t next_ns = mr_engine_thread_step(flow->thread, flow->publish.now);
    step_to(&flow->publish, flow->engine.fake->now_ns);
    uint64_t pause_ns = step_publish(&flow->publish);
    if (next_ns == 0) return;
    if (pause_ns > 10 * MS) pause_ns = 10 * MS;
    step_to(&flow->publish, flow->publish.now.ns + pause_ns);
    flow->engine.fake->now_ns = flow->publish.now.ns;
}

/* Steps until the ticket has returned to intake. */
static void run_flow(struct flow *flow)
{
    for (uint32_t steps = 1; steps < 1000; steps++) {
        step_both(flow);
        for (struct mr_mail *mail = mr_mailbox_take(flow->publish.intake); mail; mail = mail->next)
            if (mail->kind == MR_MAIL_DONE) return;
    }
    fail_msg("the request does not end");
}

/* ---- the tests ---- */

static void a_request_ends_as_token_records_and_one_result(void **state)
{
    (void)state;
    struct flow flow;
    open_flow(&flow, false, NULL);
    submit(&flow, 5);
    run_flow(&flow);
    const struct fake_producer *producer = &flow.publish.producer;
    assert_int_equal(fake_count(producer, "tokens"), 5);
    assert_int_equal(fake_count(producer, "results"), 1);
    assert_string_equal(producer->records[producer->count - 1].topic, "results");
    struct mr_publish_stats stats = mr_publish_stats(flow.publish.publish);
    assert_int_equal(stats.delay_ns_max,
                     0); /* each record is produced at the time its step ended */
    assert_true(mr_engine_thread_stats(flow.thread).steps >= 5);
    assert_true(mr_engine_thread_stats(flow.thread).idle);
    close_flow(&flow);
}

/* Intake is notified once, and the engine sleeps until it is woken or must check deadlines.
 */
static void a_request_waits_until_its_start_is_durable(void **state)
{
    (void)state;
    struct flow flow;
    open_flow(&flow, false, NULL);
    atomic_store(&flow.ticket.may_start, false);
    submit(&flow, 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mr_engine_thread_step(flow.thread, flow.publish.now),
                         flow.publish.now.ns + 100 * MS);
    struct mr_mail *mail = mr_mailbox_take(flow.publish.intake);
    assert_non_null(mail);
    assert_null(mail->next);
    assert_int_equal(mail->kind, MR_MAIL_STARTING);
    assert_ptr_equal(MR_TICKET_OF(mail, starting), &flow.ticket);
    atomic_store(&flow.ticket.may_start, true);
    run_flow(&flow);
    assert_int_equal(fake_count(&flow.publish.producer, "tokens"), 2);
    close_flow(&flow);
}

static void a_full_producer_delays_records_and_loses_none(void **state)
{
    (void)state;
    struct flow flow;
    open_flow(&flow, false, NULL);
    flow.publish.producer.room = 2;
    flow.publish.producer.holding = true;
    submit(&flow, 8);
    for (int i = 0; i < 20; i++)
        step_both(&flow);
    assert_int_equal(flow.publish.producer.count, 2);
    flow.publish.producer.holding = false;
    run_flow(&flow);
    assert_int_equal(fake_count(&flow.publish.producer, "tokens"), 8);
    assert_int_equal(fake_count(&flow.publish.producer, "results"), 1);
    close_flow(&flow);
}

static void a_full_mailbox_stops_the_engine_until_there_is_room(void **state)
{
    (void)state;
    struct flow flow;
    struct mr_wake wake;
    struct mr_mailbox *narrow = NULL;
    struct mr_mailbox_options options = {1, 1 << 20, &wake};
    assert_int_equal(mr_wake_open(&wake, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&narrow, &options, NULL), MR_OK);
    open_flow(&flow, false, narrow);
    submit(&flow, 4);
    for (int i = 0; i < 10; i++)
        mr_engine_thread_step(flow.thread, flow.publish.now);
    assert_int_equal(mr_mailbox_count(narrow), 1); /* a second message waits in the engine thread */
    uint64_t steps = mr_engine_thread_stats(flow.thread).engine.steps;
    assert_int_equal(mr_engine_thread_step(flow.thread, flow.publish.now),
                     flow.publish.now.ns + 1000 * MS);
    assert_int_equal(mr_engine_thread_stats(flow.thread).engine.steps, steps);
    assert_false(mr_engine_thread_stats(flow.thread).idle);
    uint32_t tokens = 0, results = 0;
    for (int i = 0; i < 20; i++) {
        for (struct mr_mail *mail = mr_mailbox_take(narrow), *next; mail; mail = next) {
            next = mail->next;
            tokens += mail->kind == MR_MAIL_TOKENS;
            results += mail->kind == MR_MAIL_RESULT;
            mr_mail_free(mail);
        }
        mr_engine_thread_step(flow.thread, flow.publish.now);
    }
    assert_int_equal(tokens, 4);
    assert_int_equal(results, 1);
    close_flow(&flow);
    mr_mailbox_destroy(narrow);
    mr_wake_close(&wake);
}

static void a_late_redis_delays_records_and_loses_none(void **state)
{
    (void)state;
    struct flow flow;
    const struct mr_progress_origin origin = {.group = "g", .tenant = "t", .topic = "r"};
    const struct mr_request request = {.choice_count = 1};
    open_flow(&flow, true, NULL);
    flow.ticket.trail = mr_resume_lookup(flow.resume, &origin, &request, &flow.ticket, NULL);
    mr_trail_start(flow.ticket.trail, &(struct mr_trail_start){.attempt = 1}, NULL,
                   flow.publish.now.ns);
    submit(&flow, 4);
    step_both(&flow); /* Redis replies at once */
    assert_int_equal(flow.publish.producer.count, 1);
    flow.redis.holding = true;
    uint64_t began_ns = flow.publish.now.ns;
    while (flow.publish.producer.count == 1)
        step_both(&flow);
    assert_in_range(flow.publish.now.ns - began_ns, MR_RESUME_WAIT_NS, 3 * MR_RESUME_WAIT_NS);
    flow.redis.holding = false;
    list_redis_answer_held(&flow.redis);
    run_flow(&flow);
    assert_int_equal(fake_count(&flow.publish.producer, "tokens"), 4);
    assert_int_equal(fake_count(&flow.publish.producer, "results"), 1);
    close_flow(&flow);
}

static void a_model_that_does_not_open_is_reported_and_nothing_runs(void **state)
{
    (void)state;
    struct flow flow;
    struct mr_error err = {0};
    make_flow(&flow, false);
    flow.open_status = MR_BAD_FILE;
    assert_int_equal(mr_engine_thread_step(flow.thread, flow.publish.now), 0);
    assert_int_equal(mr_engine_thread_wait_ready(flow.thread, &err), MR_BAD_FILE);
    assert_string_equal(err.detail, "no model");
    assert_true(mr_engine_thread_step(flow.thread, flow.publish.now) == UINT64_MAX);
    close_flow(&flow);
}

static void a_step_that_fails_is_reported_once_and_nothing_runs_any_more(void **state)
{
    (void)state;
    struct flow flow;
    open_flow(&flow, false, NULL);
    submit(&flow, 5);
    flow.engine.fake->fail_after = 1;
    for (int i = 0; i < 5; i++)
        mr_engine_thread_step(flow.thread, flow.publish.now);
    assert_int_equal(flow.publish.failures, 1);
    assert_true(mr_engine_thread_step(flow.thread, flow.publish.now) == UINT64_MAX);
    atomic_store(&flow.publish.failures, 0);
    close_flow(&flow);
}

static void intake_is_rung_when_a_tenant_that_it_wants_has_room(void **state)
{
    (void)state;
    struct flow flow;
    open_flow(&flow, false, NULL);
    struct mr_engine_port port = mr_engine_thread_port(flow.thread);
    mr_wake_wait(&flow.publish.wake, 0);
    mr_engine_thread_step(flow.thread, flow.publish.now);
    assert_false(mr_wake_wait(&flow.publish.wake, 0));
    port.set_wanted(port.self, 1);
    mr_engine_thread_step(flow.thread, flow.publish.now);
    assert_true(mr_wake_wait(&flow.publish.wake, 0));
    assert_false(port.cancel(port.self, 0, (struct mr_text){"none", 4}));
    close_flow(&flow);
}

/* ---- waiting for the KV blocks of Redis ---- */

/* Runs a prompt of `count` tokens in an engine of its own, so that the remote cache has its blocks.
 */
static void fill_remote(struct fake_remote *remote, const uint32_t *tokens, uint32_t count)
{
    struct engine_rig rig;
    rig_init(&rig);
    rig.remote = remote;
    rig_start(&rig);
    struct mr_request *request = mr_fake_request("fill", tokens, count);
    request->max_tokens = 2;
    assert_int_equal(rig_submit(&rig, 0, request), MR_OK);
    rig_run(&rig);
    while (fake_remote_next_ns(remote) != UINT64_MAX) {
        rig.fake->now_ns = fake_remote_next_ns(remote);
        rig_step(&rig);
    }
    rig_end(&rig);
}

struct waiting {
    uint32_t steps, idle_steps; /* idle: without a forward pass */
    uint64_t waited_ns;
};

/* Steps the engine thread until the request has its first token. Time advances as in the thread:
 * until the step is due again, or until the remote cache's next answer, which wakes the thread. */
static struct waiting wait_for_token(struct flow *flow, struct fake_remote *remote, bool stalls)
{
    struct waiting seen = {0};
    struct mr_fake_model *fake = flow->engine.fake;
    struct mr_time now = flow->publish.now;
    while (mr_engine_thread_stats(flow->thread).engine.generated_tokens == 0) {
        uint64_t forwards = fake->forward_count;
        assert_true(++seen.steps < 1000);
        uint64_t next_ns = mr_engine_thread_step(flow->thread, now);
        if (stalls && remote->loads > 0 && remote->stalled_ns == 0) fake_remote_stall(remote);
        seen.idle_steps += fake->forward_count == forwards;
        if (fake_remote_next_ns(remote) < next_ns) next_ns = fake_remote_next_ns(remote);
        if (next_ns > fake->now_ns && fake->forward_count == forwards) {
            seen.waited_ns += next_ns - fake->now_ns;
            fake->now_ns = next_ns;
        }
        now.ns = fake->now_ns;
    }
    step_to(&flow->publish, fake->now_ns);
    return seen;
}

/* The lookup and each value of the load take 20 ms, or no value of the load arrives. */
static void a_thread_that_waits_for_redis_sleeps(void **state)
{
    (void)state;
    const uint32_t count = 4 * MR_BLOCK_TOKENS + 9;
    uint32_t tokens[4 * MR_BLOCK_TOKENS + 9];
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = 2 + i * 7 % 150;
    for (int stalls = 0; stalls < 2; stalls++) {
        struct flow flow;
        const struct fake_remote_options fast = {.latency_ns = 1000},
                                         slow = {.latency_ns = 20 * MS};
        struct fake_remote *home = fake_remote_create(&fast, NULL),
                           *remote = fake_remote_create(&slow, home);
        fill_remote(home, tokens, count);
        make_flow(&flow, false);
        flow.engine.remote = remote;
        link_flow(&flow, NULL);
        fake_remote_set_clock(remote, &flow.engine.fake->now_ns);
        submit_prompt(&flow, tokens, count, 4);
        struct waiting seen = wait_for_token(&flow, remote, stalls);
        assert_int_equal(remote->loads, 1);
        assert_true(seen.waited_ns >= 20 * MS);
        assert_true(seen.idle_steps <= 12);
        fake_remote_deliver_now(remote);
        run_flow(&flow);
        close_flow(&flow);
        fake_remote_destroy(remote);
        fake_remote_destroy(home);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_waits_for_redis_sleeps),
        cmocka_unit_test(a_request_ends_as_token_records_and_one_result),
        cmocka_unit_test(a_request_waits_until_its_start_is_durable),
        cmocka_unit_test(a_full_producer_delays_records_and_loses_none),
        cmocka_unit_test(a_full_mailbox_stops_the_engine_until_there_is_room),
        cmocka_unit_test(a_late_redis_delays_records_and_loses_none),
        cmocka_unit_test(a_model_that_does_not_open_is_reported_and_nothing_runs),
        cmocka_unit_test(a_step_that_fails_is_reported_once_and_nothing_runs_any_more),
        cmocka_unit_test(intake_is_rung_when_a_tenant_that_it_wants_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
