#include "worker/engine/engine_thread.h"

#include "ops/cpu_kernels/parallel.h"
#include "tests/fakes/fake_request.h"
#include "tests/unit/worker/serving.h"
#include "worker/engine/engine_setup.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket.h"

#include <stdatomic.h>
#include <time.h>

struct rig {
    struct serving serving;
    struct mr_engine_setup setup;
    struct mr_engine_thread *thread;
    struct mr_wake wake;
    struct mr_mailbox *publish, *intake;
    atomic_int failures;
    struct mr_ticket ticket;
};

static void on_failed(void *context, const struct mr_error *err)
{
    (void)err;
    atomic_fetch_add(&((struct rig *)context)->failures, 1);
}

static void make_rig(struct rig *rig, const char *model)
{
    *rig = (struct rig){.thread = NULL};
    open_serving(&rig->serving, model, NULL);
    struct mr_mailbox_options mailbox = {256, 1 << 20, &rig->wake};
    rig->setup = (struct mr_engine_setup){.config = rig->serving.config, .log = rig->serving.log};
    assert_int_equal(mr_wake_open(&rig->wake, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->publish, &mailbox, NULL), MR_OK);
    assert_int_equal(mr_mailbox_create(&rig->intake, &mailbox, NULL), MR_OK);
}

static void start_rig(struct rig *rig)
{
    struct mr_engine_thread_options options = {
        .source = mr_engine_setup_source(&rig->setup), .failed = on_failed, .context = rig};
    assert_int_equal(mr_engine_thread_create(&rig->thread, &options, NULL), MR_OK);
    assert_int_equal(mr_engine_thread_start(rig->thread, NULL), MR_OK);
}

static void open_rig(struct rig *rig, const char *model)
{
    make_rig(rig, model);
    start_rig(rig);
}

static void close_rig(struct rig *rig)
{
    mr_engine_thread_destroy(rig->thread);
    assert_int_equal(atomic_load(&rig->failures), 0);
    mr_mailbox_destroy(rig->publish);
    mr_mailbox_destroy(rig->intake);
    mr_wake_close(&rig->wake);
    close_serving(&rig->serving);
}

/* Writes a file below a folder and makes the folders in between. */
static void write_below(const char *root, const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "mkdir -p %s$(dirname %s) && printf '%s' >%s%s", root, path, text,
             root, path);
    assert_int_equal(system(whole), 0); /* NOLINT: a folder of this test */
}

/* A control group with one CPU and 64 MiB. */
static void the_limits_of_the_control_group_bound_threads_and_kv_pool(void **state)
{
    (void)state;
    struct rig rig;
    char root[] = "/tmp/millrace-root-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    write_below(root, "/proc/self/cgroup", "0::/\n");
    write_below(root, "/proc/self/mountinfo", "1 2 0:1 / /cg rw - cgroup2 cgroup2 rw\n");
    write_below(root, "/cg/cpu.max", "100000 100000\n");
    write_below(root, "/cg/memory.max", "67108864\n");
    make_rig(&rig, "tests/golden/models/grouped_tied");
    rig.setup.machine_root = root;
    rig.serving.config->kv_memory_given = false;
    start_rig(&rig);
    assert_int_equal(mr_engine_thread_wait_ready(rig.thread, NULL), MR_OK);
    assert_false(mr_engine_thread_has_failed(rig.thread));
    assert_int_equal(rig.setup.thread_count, 1);
    assert_int_equal(mr_parallel_thread_count(), 1);
    uint64_t pool_bytes = mr_engine_thread_model(rig.thread)->kv_pool_bytes;
    assert_true(pool_bytes > 0 && pool_bytes <= (uint64_t)32 << 20);
    close_rig(&rig);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
}

static void waiting_returns_the_error_of_a_model_that_does_not_open(void **state)
{
    (void)state;
    struct rig rig;
    struct mr_error err = {0};
    open_rig(&rig, "none.gguf");
    assert_int_equal(mr_engine_thread_wait_ready(rig.thread, &err), MR_BAD_FILE);
    assert_non_null(strstr(err.detail, "none.gguf"));
    assert_true(mr_engine_thread_has_failed(rig.thread));
    assert_int_equal(mr_engine_thread_wait_ready(rig.thread, NULL), MR_BAD_FILE);
    close_rig(&rig);
    mr_engine_thread_destroy(NULL);
}

static void submit(struct rig *rig, const char *id, uint32_t max_tokens)
{
    const uint32_t tokens[] = {1, 2, 3, 4};
    struct mr_request *request = mr_fake_request(id, tokens, 4);
    request->max_tokens = max_tokens;
    request->ignore_eos = true;
    struct mr_submission submission = {
        .request = request, .ticket = (uint64_t)(uintptr_t)&rig->ticket, .tenant = "default"};
    struct mr_engine_port port = mr_engine_thread_port(rig->thread);
    assert_int_equal(port.submit(port.self, &submission, NULL), MR_OK);
}

/* Reads publish's mailbox up to the result; returns the number of tokens before it. */
static uint32_t wait_result(struct rig *rig)
{
    uint32_t tokens = 0;
    bool ended = false;
    while (!ended) {
        for (struct mr_mail *mail = mr_mailbox_take(rig->publish), *next; mail; mail = next) {
            next = mail->next;
            assert_false(ended);
            if (mail->kind == MR_MAIL_TOKENS)
                tokens += (uint32_t)((struct mr_tokens_mail *)mail)->record.token_count;
            ended = mail->kind == MR_MAIL_RESULT;
            mr_mail_free(mail);
        }
        if (!ended) mr_wake_wait(&rig->wake, UINT64_MAX);
    }
    return tokens;
}

static uint32_t wait_intake(struct rig *rig)
{
    struct mr_mail *mail = NULL;
    while (!(mail = mr_mailbox_take(rig->intake)))
        mr_wake_wait(&rig->wake, 100000000u);
    assert_null(mail->next);
    return mail->kind;
}

/* Allows the request with the rig's ticket to start, as intake does when the start is durable. */
static void let_start(struct rig *rig)
{
    struct mr_engine_port port = mr_engine_thread_port(rig->thread);
    assert_int_equal(wait_intake(rig), MR_MAIL_STARTING);
    atomic_store(&rig->ticket.may_start, true);
    port.wake(port.self);
}

static void tokens_and_result_are_posted_and_an_intake_that_wants_room_is_rung(void **state)
{
    (void)state;
    struct rig rig;
    struct mr_error err = {0};
    open_rig(&rig, NULL);
    if (mr_engine_thread_wait_ready(rig.thread, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_true(mr_engine_thread_context_tokens(rig.thread) > 0);
    assert_non_null(mr_engine_thread_tokenizer(rig.thread));
    assert_true(mr_engine_thread_model(rig.thread)->vocab_size > 0);
    struct mr_wake rung; /* for this alone */
    assert_int_equal(mr_wake_open(&rung, NULL), MR_OK);
    struct mr_engine_thread_links links = {rig.publish, rig.intake, &rung, NULL};
    struct mr_engine_port port = mr_engine_thread_port(rig.thread);
    port.set_wanted(port.self, 1);
    mr_engine_thread_link(rig.thread, &links);
    submit(&rig, "a", 5);
    let_start(&rig);
    assert_int_equal(wait_result(&rig), 5);
    assert_true(mr_wake_wait(&rung, UINT64_MAX));
    assert_true(mr_engine_thread_stats(rig.thread).steps > 0);
    atomic_store(&rig.ticket.dropped, true); /* no messages for its tokens */
    submit(&rig, "b", 3);
    assert_int_equal(wait_result(&rig), 0);
    assert_null(mr_mailbox_take(rig.intake)); /* its start was noted before */
    close_rig(&rig);
    mr_wake_close(&rung);
}

static void a_drain_returns_requests_that_have_not_started(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, NULL);
    assert_int_equal(mr_engine_thread_wait_ready(rig.thread, NULL), MR_OK);
    submit(&rig, "a", 5); /* no step runs before the thread is linked */
    mr_engine_thread_drain(rig.thread);
    struct mr_engine_thread_links links = {rig.publish, rig.intake, &rig.wake, NULL};
    mr_engine_thread_link(rig.thread, &links);
    assert_int_equal(wait_intake(&rig), MR_MAIL_RETURNED);
    assert_non_null(rig.ticket.intake.request);
    assert_int_equal(rig.ticket.intake.request->max_tokens, 5);
    mr_request_destroy(rig.ticket.intake.request);
    assert_null(mr_mailbox_take(rig.publish));
    close_rig(&rig);
}

/* The thread is woken while it is being stopped. */
static void the_thread_may_be_stopped_at_any_time(void **state)
{
    (void)state;
    for (long pause_us = 0; pause_us < 20; pause_us += 6) {
        struct rig rig;
        open_rig(&rig, NULL);
        assert_int_equal(mr_engine_thread_wait_ready(rig.thread, NULL), MR_OK);
        struct mr_engine_thread_links links = {rig.publish, rig.intake, &rig.wake, NULL};
        mr_engine_thread_link(rig.thread, &links);
        mr_engine_thread_drain(rig.thread);
        nanosleep(&(struct timespec){.tv_nsec = pause_us * 1000}, NULL);
        close_rig(&rig);
    }
}

/* Intake may still be encoding a prompt when the engine thread is stopped, and ends after it. */
static void the_tokenizer_outlives_the_thread(void **state)
{
    (void)state;
    struct rig rig;
    uint32_t ids[16];
    struct mr_id_list list = {.ids = ids, .max = 16};
    open_rig(&rig, NULL);
    assert_int_equal(mr_engine_thread_wait_ready(rig.thread, NULL), MR_OK);
    struct mr_engine_thread_links links = {rig.publish, rig.intake, &rig.wake, NULL};
    mr_engine_thread_link(rig.thread, &links);
    const struct mr_tokenizer *tokenizer = mr_engine_thread_tokenizer(rig.thread);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    mr_engine_thread_stop(rig.thread);
    assert_int_equal(mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){"Hello", 5},
                                         (struct mr_encode_options){0}, &list, NULL),
                     MR_OK);
    assert_true(list.count > 0);
    mr_tokenizer_scratch_destroy(scratch);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limits_of_the_control_group_bound_threads_and_kv_pool),
        cmocka_unit_test(waiting_returns_the_error_of_a_model_that_does_not_open),
        cmocka_unit_test(tokens_and_result_are_posted_and_an_intake_that_wants_room_is_rung),
        cmocka_unit_test(a_drain_returns_requests_that_have_not_started),
        cmocka_unit_test(the_thread_may_be_stopped_at_any_time),
        cmocka_unit_test(the_tokenizer_outlives_the_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
