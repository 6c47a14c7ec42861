#include "worker/serve/drain.h"

#include "tests/unit/worker/producing.h"
#include "tests/unit/worker/serving.h"
#include "worker/intake/intake_state.h"
#include "worker/serve/parts_state.h"
#include "worker/serve/worker.h"

static bool at_once(void *context)
{
    *(int *)context += 1;
    return true;
}

/* A worker that runs a long request. */
static struct mr_worker *busy_worker(struct serving *serving, struct producing *producing)
{
    struct mr_worker *worker = NULL;
    enum mr_exit exit_code;
    struct mr_error err = {0};
    open_serving(serving, NULL, NULL);
    const struct mr_worker_options options = {.config = serving->config, .log = serving->log};
    if (mr_worker_create(&worker, &options, &exit_code, &err) != MR_OK) fail_msg("%s", err.detail);
    open_producing(producing, &serving->broker);
    produce(producing, "millrace.requests", 0, "k",
            "{\"id\":\"long\",\"prompt\":\"x\",\"max_tokens\":1500,\"ignore_eos\":true}");
    while (mr_worker_stats(worker).engine.engine.running == 0)
        mr_wake_wait(mr_worker_wake(worker), 10000000u);
    return worker;
}

/* On a busy machine a worker's threads may not end in time and use the serving until the process
 * ends, so it is static. */
static void close_both(struct serving *serving, struct producing *producing, bool ended)
{
    mr_kafka_out_destroy(producing->out);
    if (ended) close_serving(serving);
}

static void a_drain_ends_at_its_timeout_or_when_told_to_stop_now(void **state)
{
    (void)state;
    static struct serving servings[2];
    for (int stop_now = 0; stop_now < 2; stop_now++) {
        struct serving *serving = &servings[stop_now];
        struct producing producing;
        int asked = 0;
        bool ended = false;
        struct mr_worker *worker = busy_worker(serving, &producing);
        enum mr_exit code = stop_now
                                ? mr_worker_drain(worker, UINT64_MAX / 2, at_once, &asked, &ended)
                                : mr_worker_drain(worker, 0, NULL, NULL, &ended);
        assert_int_equal(code, MR_EXIT_DONE);
        assert_int_equal(asked, stop_now);
        close_both(serving, &producing, ended);
    }
}

static void a_failed_worker_drains_with_the_failure_code(void **state)
{
    (void)state;
    static struct serving serving;
    struct producing producing;
    bool ended = false;
    struct mr_worker *worker = busy_worker(&serving, &producing);
    pthread_mutex_lock(&worker->mutex);
    mr_fail(&worker->failure, MR_BACKEND, "a part has failed");
    pthread_mutex_unlock(&worker->mutex);
    assert_int_equal(mr_worker_drain(worker, UINT64_MAX / 2, NULL, NULL, &ended), MR_EXIT_FAILED);
    close_both(&serving, &producing, ended);
}

static void a_drain_does_not_wait_for_requests_that_wait_in_intake(void **state)
{
    (void)state;
    struct serving serving;
    struct mr_worker *worker = NULL;
    enum mr_exit exit_code;
    int asked = 0;
    bool ended = false;
    open_serving(&serving, NULL, NULL);
    const struct mr_worker_options options = {.config = serving.config, .log = serving.log};
    assert_int_equal(mr_worker_create(&worker, &options, &exit_code, NULL), MR_OK);
    struct mr_intake *intake = worker->intake;
    mr_thread_stop(intake->thread); /* its figures stay as they are set here */
    intake->thread = NULL;
    intake->shown.in_flight = intake->shown.parked = 1;
    assert_int_equal(mr_worker_drain(worker, UINT64_MAX / 2, at_once, &asked, &ended),
                     MR_EXIT_DONE);
    assert_int_equal(asked, 0); /* it did not wait */
    assert_true(ended);
    close_serving(&serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drain_ends_at_its_timeout_or_when_told_to_stop_now),
        cmocka_unit_test(a_failed_worker_drains_with_the_failure_code),
        cmocka_unit_test(a_drain_does_not_wait_for_requests_that_wait_in_intake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
