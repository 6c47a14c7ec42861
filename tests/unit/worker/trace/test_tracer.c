#include "worker/trace/tracer.h"

#include "worker/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/quiet_log.h"
#include "tests/unit/worker/trace/answering.h"
#include "tests/unit/worker/trace/traces.h"

#define SECOND_NS  UINT64_C(1000000000)
#define PATIENT_MS 60000u

static const char taken[] = "HTTP/1.1 200 OK\r\n\r\n{}";

static struct mr_tracer *open_tracer(const char *url)
{
    struct mr_tracer *tracer = NULL;
    struct mr_tracer_options options = {
        .url = url, .ratio = 0.25, .worker = {"w", "m", "g", "r"}, .log = quiet};
    assert_int_equal(mr_tracer_create(&tracer, &options, NULL), MR_OK);
    return tracer;
}

static struct answering *open_server(const char *first, const char *second)
{
    struct answering *server = calloc(1, sizeof *server);
    server->answers[0] = first;
    server->answers[1] = second;
    start_answering(server);
    return server;
}

static void close_server(struct answering *server)
{
    stop_answering(server);
    free(server);
}

static void wait_for_spans(struct mr_tracer *tracer, uint64_t count)
{
    uint64_t until_ns = mr_clock_ns() + PATIENT_MS * (SECOND_NS / 1000);
    while (mr_tracer_stats(tracer).spans < count && mr_clock_ns() < until_ns)
        usleep(5000);
    assert_int_equal(mr_tracer_stats(tracer).spans, count);
}

static void spans_are_sent_and_counted(void **state)
{
    (void)state;
    struct answering *server = open_server(taken, NULL);
    struct mr_tracer *tracer = open_tracer(server->url);
    assert_true(mr_tracer_ratio(tracer) == 0.25);
    mr_tracer_send(tracer, make_trace(1));
    mr_tracer_send(tracer, make_trace(2));
    wait_for_spans(tracer, 14);
    assert_int_equal(mr_tracer_stats(tracer).dropped, 0);
    assert_true(mr_tracer_destroy(tracer, PATIENT_MS));
    close_server(server);
}

static void a_body_that_is_refused_for_now_is_sent_again(void **state)
{
    (void)state;
    struct answering *server = open_server("HTTP/1.1 503 Busy\r\n\r\n", taken);
    struct mr_tracer *tracer = open_tracer(server->url);
    mr_tracer_send(tracer, make_trace(1));
    wait_for_spans(tracer, 7);
    assert_int_equal(mr_tracer_stats(tracer).failures, 1);
    assert_int_equal(atomic_load(&server->count), 2);
    assert_true(mr_tracer_destroy(tracer, PATIENT_MS));
    close_server(server);
}

static void a_body_that_is_refused_for_good_is_dropped(void **state)
{
    (void)state;
    struct answering *server = open_server("HTTP/1.1 400 Bad\r\n\r\n", taken);
    struct mr_tracer *tracer = open_tracer(server->url);
    mr_tracer_send(tracer, make_trace(1));
    while (mr_tracer_stats(tracer).dropped == 0)
        usleep(5000);
    mr_tracer_send(tracer, make_trace(2));
    wait_for_spans(tracer, 7);
    assert_int_equal(mr_tracer_stats(tracer).dropped, 1);
    assert_true(mr_tracer_destroy(tracer, PATIENT_MS));
    close_server(server);
}

static void the_last_spans_are_sent_at_the_end(void **state)
{
    (void)state;
    struct answering *server = open_server(taken, NULL);
    struct mr_tracer *tracer = open_tracer(server->url);
    for (int64_t i = 0; i < 3; i++)
        mr_tracer_send(tracer, make_trace(i));
    assert_true(mr_tracer_destroy(tracer, PATIENT_MS));
    assert_int_not_equal(atomic_load(&server->count), 0);
    close_server(server);
}

static void a_full_queue_drops_and_counts(void **state)
{
    (void)state;
    struct answering *server = open_server("", NULL); /* takes a body and never answers */
    struct mr_tracer *tracer = open_tracer(server->url);
    for (int64_t i = 0; i < 3 * MR_TRACER_QUEUE_MAX; i++)
        mr_tracer_send(tracer, make_trace(i));
    struct mr_tracer_stats stats = mr_tracer_stats(tracer);
    assert_in_range(stats.dropped, 2 * MR_TRACER_QUEUE_MAX - MR_TRACER_BATCH,
                    2 * MR_TRACER_QUEUE_MAX);
    assert_in_range(stats.waiting, MR_TRACER_QUEUE_MAX - MR_TRACER_BATCH, MR_TRACER_QUEUE_MAX);
    uint64_t began_ns = mr_clock_ns();
    assert_true(mr_tracer_destroy(tracer, 100));
    assert_in_range(mr_clock_ns() - began_ns, 0, 60 * SECOND_NS);
    close_server(server);
}

static void without_a_tracer_a_trace_is_freed(void **state)
{
    (void)state;
    mr_tracer_send(NULL, make_trace(1));
    mr_tracer_send(NULL, NULL);
    assert_true(mr_tracer_destroy(NULL, 0));
}

static void the_url_is_checked_at_creation(void **state)
{
    (void)state;
    struct mr_tracer *tracer = NULL;
    struct mr_tracer_options options = {.url = "https://x"};
    assert_int_equal(mr_tracer_create(&tracer, &options, NULL), MR_BAD_CONFIG);
    assert_null(tracer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_sent_and_counted),
        cmocka_unit_test(a_body_that_is_refused_for_now_is_sent_again),
        cmocka_unit_test(a_body_that_is_refused_for_good_is_dropped),
        cmocka_unit_test(the_last_spans_are_sent_at_the_end),
        cmocka_unit_test(a_full_queue_drops_and_counts),
        cmocka_unit_test(without_a_tracer_a_trace_is_freed),
        cmocka_unit_test(the_url_is_checked_at_creation),
    };
    return cmocka_run_group_tests(tests, quiet_log_open, quiet_log_close);
}
