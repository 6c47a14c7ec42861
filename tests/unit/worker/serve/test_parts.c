#include "worker/serve/parts.h"

#include "tests/unit/worker/serving.h"
#include "worker/serve/parts_state.h"

static void a_partly_created_worker_is_destroyed(void **state)
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
        assert_true(mr_worker_destroy(worker, 1000));
    }
    close_serving(&serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partly_created_worker_is_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
