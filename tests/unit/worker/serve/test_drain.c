#include "worker/serve/drain.h"

#include "tests/unit/worker/producing.h"
#include "tests/unit/worker/serving.h"
#include "worker/serve/worker_state.h"

static void a_start_that_failed_is_taken_apart_where_it_stood(void **state)
{
    (void)state;
    struct serving serving;
    open_serving(&serving, "none.gguf", NULL);
    for (int parts = 0; parts < 3; parts++) {
        struct mr_worker *worker = calloc(1, sizeof *worker);
        struct mr_intake_options intake = {.config = serving.config, .log = serving.log};
        assert_non_null(worker);
        worker->engine_setup =
            (struct mr_engine_setup){.config = serving.config, .log = serving.log};
        struct mr_engine_thread_options engine = {
            .source = mr_engine_setup_source(&worker->engine_setup)};
        assert_int_equal(mr_wake_open(&worker->wake, NULL), MR_OK);
        pthread_mutex_init(&worker->mutex, NULL);
        if (parts > 0) assert_int_equal(mr_intake_create(&worker->intake, &intake, NULL), MR_OK);
        if (parts > 1) {
            assert_int_equal(mr_engine_thread_create(&worker->engine, &engine, NULL), MR_OK);
            assert_int_equal(mr_engine_thread_start(worker->engine, NULL), MR_OK);
        }
        assert_true(mr_worker_take_apart(worker, 1000));
    }
    close_serving(&serving);
}

static bool at_once(void *context)
{
    *(int *)context += 1;
    return true;
}

/* A worker that computes a request which will not end by itself before long. */
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

static void a_drain_ends_when_its_time_is_over_or_somebody_hurries(void **state)
{
    (void)state;
    for (int hurried = 0; hurried < 2; hurried++) {
        struct serving serving;
        struct producing producing;
        int asked = 0;
        struct mr_worker *worker = busy_worker(&serving, &producing);
        enum mr_exit code = hurried ? mr_worker_drain(worker, UINT64_MAX / 2, at_once, &asked)
                                    : mr_worker_drain(worker, 0, NULL, NULL);
        assert_int_equal(code, MR_EXIT_DONE);
        assert_int_equal(asked, hurried);
        mr_kafka_out_destroy(producing.out);
        close_serving(&serving);
    }
}

static void a_worker_that_failed_ends_as_failed(void **state)
{
    (void)state;
    struct serving serving;
    struct producing producing;
    struct mr_worker *worker = busy_worker(&serving, &producing);
    pthread_mutex_lock(&worker->mutex);
    mr_fail(&worker->failure, MR_BACKEND, "a part has failed");
    pthread_mutex_unlock(&worker->mutex);
    assert_int_equal(mr_worker_drain(worker, UINT64_MAX / 2, NULL, NULL), MR_EXIT_FAILED);
    mr_kafka_out_destroy(producing.out);
    close_serving(&serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_that_failed_is_taken_apart_where_it_stood),
        cmocka_unit_test(a_drain_ends_when_its_time_is_over_or_somebody_hurries),
        cmocka_unit_test(a_worker_that_failed_ends_as_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
