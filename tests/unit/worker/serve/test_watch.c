#include "worker/serve/watch.h"

#include "tests/unit/worker/serving.h"
#include "worker/base/clock.h"
#include "worker/serve/drain.h"
#include "worker/serve/health.h"
#include "worker/serve/worker.h"

#include <unistd.h>

#define TINY_MODEL "tests/golden/models/grouped_tied"

struct watching {
    struct serving serving;
    struct mr_worker *worker;
    FILE *file; /* of the log */
    char text[1 << 16];
};

static const char *logged(struct watching *watching)
{
    ssize_t length = pread(fileno(watching->file), watching->text, sizeof watching->text - 1, 0);
    watching->text[length > 0 ? length : 0] = '\0';
    return watching->text;
}

static unsigned count(struct watching *watching, const char *text)
{
    unsigned found = 0;
    for (const char *at = logged(watching); (at = strstr(at, text)); at += strlen(text))
        found++;
    return found;
}

static int start(void **state)
{
    struct watching *watching = calloc(1, sizeof *watching);
    enum mr_exit code;
    struct mr_error err = {0};
    open_serving(&watching->serving, TINY_MODEL, NULL);
    watching->file = tmpfile();
    mr_log_destroy(watching->serving.log);
    const struct mr_log_options log = {
        .fd = fileno(watching->file), .format = MR_LOG_JSON, .level = MR_LOG_INFO, .worker = "w"};
    assert_int_equal(mr_log_create(&watching->serving.log, &log, NULL), MR_OK);
    const struct mr_worker_options options = {
        .config = watching->serving.config, .join_group = true, .log = watching->serving.log};
    if (mr_worker_create(&watching->worker, &options, &code, &err) != MR_OK)
        fail_msg("%s", err.detail);
    *state = watching;
    return 0;
}

static int stop(void **state)
{
    struct watching *watching = *state;
    mr_worker_drain(watching->worker, 0, NULL, NULL, NULL);
    fclose(watching->file);
    close_serving(&watching->serving);
    free(watching);
    return 0;
}

/* The group assigns partitions a while after the start: "ready" must not come before. */
static void ready_is_said_once_when_readyz_turns_200(void **state)
{
    struct watching *watching = *state;
    bool ready = false;
    assert_int_equal(count(watching, "\"msg\":\"ready\""), 0);
    for (unsigned i = 0; i < 300 && !ready; i++) {
        bool before = mr_health_is_ready(watching->worker, NULL);
        ready = mr_watch_readiness(watching->worker);
        assert_int_equal(count(watching, "\"msg\":\"ready\""), ready);
        if (before) assert_true(ready);
        if (!ready) mr_clock_sleep_ms(100);
    }
    assert_true(ready && mr_health_is_ready(watching->worker, NULL));
    assert_true(mr_watch_readiness(watching->worker));
    assert_int_equal(count(watching, "\"msg\":\"ready\""), 1);
    assert_int_equal(count(watching, "\"group_seconds\":"), 1);
}

static void watch_until(struct watching *watching, const char *text)
{
    for (unsigned i = 0; i < 100 && count(watching, text) == 0; i++) {
        mr_watch_kafka(watching->worker);
        mr_clock_sleep_ms(200);
    }
    if (count(watching, text) != 1) fail_msg("%s: %s", text, logged(watching));
}

/* One line in plain words, and one at the end; the lines of librdkafka are debug. */
static void an_outage_of_kafka_is_two_lines(void **state)
{
    struct watching *watching = *state;
    mr_kafka_mock_set_down(watching->serving.broker.mock, 1, true);
    watch_until(watching, "Kafka is unreachable at 127.0.0.1:");
    for (unsigned i = 0; i < 10; i++) {
        mr_watch_kafka(watching->worker);
        mr_clock_sleep_ms(100);
    }
    assert_int_equal(count(watching, "Kafka is unreachable"), 1);
    assert_int_equal(count(watching, "; retrying; 0 requests keep running"), 1);
    mr_kafka_mock_set_down(watching->serving.broker.mock, 1, false);
    watch_until(watching, "Kafka answers again after ");
    assert_int_equal(count(watching, "\"msg\":\"kafka"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ready_is_said_once_when_readyz_turns_200, start, stop),
        cmocka_unit_test_setup_teardown(an_outage_of_kafka_is_two_lines, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
