#include "worker/ticket/ticket_trace.h"

#include "worker/ticket/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/quiet_log.h"
#include "tests/unit/worker/result_mail.h"

#define MS UINT64_C(1000000)

static const struct mr_time now = {.ns = 50 * MS, .unix_ms = 1700000000000};

/* Nobody listens there: sent spans stay in the queue or are dropped. */
static struct mr_tracer *open_tracer(double ratio)
{
    struct mr_tracer *tracer = NULL;
    struct mr_tracer_options options = {
        .url = "http://127.0.0.1:1", .ratio = ratio, .worker = {"w", "m", "g", "r"}, .log = quiet};
    assert_int_equal(mr_tracer_create(&tracer, &options, NULL), MR_OK);
    return tracer;
}

static struct mr_ticket *ticket_with(const char *traceparent)
{
    const struct mr_kafka_record record = {.partition = 3, .offset = 41};
    const struct mr_kafka_header echo[] = {
        {"traceparent", traceparent, traceparent ? strlen(traceparent) : 0},
        {"tracestate", "a=b", 3}};
    const struct mr_ticket_answer answer = {.echo = echo, .echo_count = traceparent ? 2 : 0};
    struct mr_ticket *ticket = NULL;
    assert_int_equal(mr_ticket_create(&ticket, &record, &answer, NULL), MR_OK);
    memcpy(ticket->id, "id", 3);
    ticket->topic = "requests";
    ticket->attempt = 1;
    ticket->arrival_ns = now.ns;
    return ticket;
}

static void close_all(struct mr_ticket *ticket, struct mr_tracer *tracer)
{
    mr_ticket_destroy(ticket);
    assert_true(mr_tracer_destroy(tracer, 0));
}

static const char sampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
static const char silent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
static const char trace_id[] = "4bf92f3577b34da6a3ce929d0e0e4736";

static void log_lines_name_the_trace_of_the_producer_without_a_tracer_too(void **state)
{
    (void)state;
    struct mr_ticket *ticket = ticket_with(silent);
    mr_ticket_trace_open(ticket, NULL, 0, &now);
    assert_true(mr_text_is(mr_ticket_log_place(ticket).trace_id, trace_id));
    assert_null(ticket->trace);
    mr_ticket_destroy(ticket);
    ticket = ticket_with("nonsense");
    mr_ticket_trace_open(ticket, NULL, 0, &now);
    assert_int_equal(mr_ticket_log_place(ticket).trace_id.length, 0);
    mr_ticket_destroy(ticket);
}

static void the_producer_decides_whether_its_trace_is_sampled(void **state)
{
    (void)state;
    struct mr_tracer *tracer = open_tracer(1);
    struct mr_ticket *ticket = ticket_with(silent);
    mr_ticket_trace_open(ticket, tracer, 0, &now);
    assert_null(ticket->trace);
    close_all(ticket, tracer);
    tracer = open_tracer(0);
    ticket = ticket_with(sampled);
    mr_ticket_trace_open(ticket, tracer, 0, &now);
    assert_non_null(ticket->trace);
    assert_string_equal(ticket->trace->state, "a=b");
    assert_string_equal(ticket->trace->tenant, "default");
    assert_int_equal(ticket->trace->unix_ns + (int64_t)ticket->trace->received_ns,
                     INT64_C(1700000000000) * 1000000);
    close_all(ticket, tracer);
}

static void the_ratio_decides_for_requests_without_a_trace(void **state)
{
    (void)state;
    struct mr_tracer *tracer = open_tracer(0);
    struct mr_ticket *ticket = ticket_with(NULL);
    mr_ticket_trace_open(ticket, tracer, 0, &now);
    assert_null(ticket->trace);
    assert_string_equal(ticket->trace_id, "");
    close_all(ticket, tracer);
    tracer = open_tracer(1);
    ticket = ticket_with(NULL);
    mr_ticket_trace_open(ticket, tracer, 0, &now);
    assert_non_null(ticket->trace);
    assert_false(ticket->trace->context.has_parent);
    assert_int_equal(strlen(ticket->trace_id), 32);
    close_all(ticket, tracer);
}

static void times_and_counts_of_the_result_are_noted(void **state)
{
    (void)state;
    struct mr_tracer *tracer = open_tracer(0);
    struct mr_ticket *ticket = ticket_with(sampled);
    mr_ticket_trace_open(ticket, tracer, 0, &now);
    mr_ticket_trace_submit(ticket);
    assert_int_not_equal(ticket->trace->submitted_ns, 0);
    mr_ticket_trace_start(ticket, tracer, 52 * MS);
    assert_true(ticket->trace->begun);
    assert_int_equal(ticket->trace->asked_ns, 52 * MS);
    mr_ticket_trace_chunk(ticket, &(struct mr_chunk){300, 60 * MS, 120 * MS});
    assert_int_equal(ticket->trace->chunk_count, 1);
    struct mr_mail *mail = result_mail(ticket, 200 * MS);
    struct mr_result *result = &((struct mr_result_mail *)mail)->result;
    result->prompt_tokens = 300;
    result->queue_ms = 4;
    result->first_token_ms = 80;
    mr_ticket_trace_answer(ticket, mail, 201 * MS);
    const struct mr_request_trace *trace = ticket->trace;
    assert_int_equal(trace->started_ns, 54 * MS);
    assert_int_equal(trace->token_ns, 130 * MS);
    assert_int_equal(trace->made_ns, 200 * MS);
    assert_int_equal(trace->answer.input_tokens, 300);
    assert_string_equal(trace->answer.finish, "length");
    assert_string_equal(trace->answer.operation, "text_completion");
    assert_null(trace->answer.error);
    mr_ticket_trace_answered(ticket);
    assert_true(trace->answered);
    mr_ticket_trace_end(ticket, tracer, 210 * MS);
    assert_null(ticket->trace);
    mr_mail_free(mail);
    close_all(ticket, tracer);
}

static void a_request_that_ends_in_the_queue_has_no_first_step(void **state)
{
    (void)state;
    struct mr_tracer *tracer = open_tracer(0);
    struct mr_ticket *ticket = ticket_with(sampled);
    mr_ticket_trace_open(ticket, tracer, 0, &now);
    mr_ticket_trace_submit(ticket);
    struct mr_mail *mail = result_mail(ticket, 90 * MS);
    ((struct mr_result_mail *)mail)->result.queue_ms = 40;
    mr_ticket_trace_answer(ticket, mail, 91 * MS);
    assert_int_equal(ticket->trace->started_ns, 0);
    assert_int_equal(ticket->trace->made_ns, 90 * MS);
    mr_mail_free(mail);
    close_all(ticket, tracer);
}

static void a_refusal_is_noted(void **state)
{
    (void)state;
    struct mr_tracer *tracer = open_tracer(0);
    struct mr_ticket *ticket = ticket_with(sampled);
    mr_ticket_trace_open(ticket, tracer, 0, &now);
    struct mr_refusal_mail *refusal = mr_refusal_mail_create(ticket, NULL, (struct mr_text){0});
    refusal->finish = MR_FINISH_REJECTED;
    refusal->error.status = MR_EMPTY_PROMPT;
    mr_ticket_trace_answer(ticket, &refusal->mail, 55 * MS);
    assert_string_equal(ticket->trace->answer.error, "empty_prompt");
    assert_string_equal(ticket->trace->answer.finish, "rejected");
    assert_int_equal(ticket->trace->made_ns, 55 * MS);
    mr_ticket_trace_answer(ticket, &refusal->mail, ticket->trace->received_ns - 1);
    assert_int_equal(ticket->trace->made_ns, ticket->trace->received_ns);
    mr_mail_free(&refusal->mail);
    close_all(ticket, tracer);
}

static void a_ticket_without_a_trace_is_left_alone(void **state)
{
    (void)state;
    struct mr_ticket *ticket = ticket_with(NULL);
    struct mr_mail *mail = result_mail(ticket, 1);
    mr_ticket_trace_open(ticket, NULL, 0, &now);
    mr_ticket_trace_submit(ticket);
    mr_ticket_trace_start(ticket, NULL, 1);
    mr_ticket_trace_chunk(ticket, &(struct mr_chunk){1, 0, 100 * MS});
    mr_ticket_trace_answer(ticket, mail, 1);
    mr_ticket_trace_answered(ticket);
    mr_ticket_trace_end(ticket, NULL, 1);
    assert_null(ticket->trace);
    mr_mail_free(mail);
    mr_ticket_destroy(ticket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_lines_name_the_trace_of_the_producer_without_a_tracer_too),
        cmocka_unit_test(the_producer_decides_whether_its_trace_is_sampled),
        cmocka_unit_test(the_ratio_decides_for_requests_without_a_trace),
        cmocka_unit_test(times_and_counts_of_the_result_are_noted),
        cmocka_unit_test(a_request_that_ends_in_the_queue_has_no_first_step),
        cmocka_unit_test(a_refusal_is_noted),
        cmocka_unit_test(a_ticket_without_a_trace_is_left_alone),
    };
    return cmocka_run_group_tests(tests, quiet_log_open, quiet_log_close);
}
