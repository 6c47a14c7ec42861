#include "worker/trace/otlp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/trace/traces.h"

/* tests/integration/test_trace.py checks whole bodies against the format of OTLP. */

static const struct mr_otlp_worker worker = {"w\"1", "served", "group", "results"};

static char *encode(const struct mr_request_trace *trace, size_t *spans)
{
    char *body = NULL;
    size_t length = 0;
    assert_int_equal(mr_otlp_encode(&worker, trace, &body, &length, spans, NULL), MR_OK);
    assert_int_equal(strlen(body), length);
    return body;
}

/* Encodes the one trace and frees it. */
static char *encode_one(struct mr_request_trace *trace, size_t count)
{
    size_t spans = 0;
    char *body = encode(trace, &spans);
    assert_int_equal(spans, count);
    mr_request_trace_destroy(trace);
    return body;
}

static void assert_has(const char *body, const char *text)
{
    if (!strstr(body, text)) fail_msg("%s is not in %s", text, body);
}

static void assert_lacks(const char *body, const char *text)
{
    if (strstr(body, text)) fail_msg("%s is in %s", text, body);
}

static void a_whole_request_has_seven_spans(void **state)
{
    (void)state;
    char *body = encode_one(make_trace(5), 7);
    assert_has(body, "\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"w\\\"1\"}");
    assert_has(body, "\"startTimeUnixNano\":\"1700000000001000000\"");
    assert_has(body, "\"endTimeUnixNano\":\"1700000000302000000\"");
    assert_has(body, "\"name\":\"process requests\",\"kind\":5");
    assert_has(body, "\"name\":\"publish\",\"kind\":4");
    assert_has(body, "\"name\":\"decode\",\"kind\":1");
    assert_has(body, "\"key\":\"gen_ai.usage.input_tokens\",\"value\":{\"intValue\":\"90\"}");
    assert_has(body, "\"key\":\"gen_ai.request.model\",\"value\":{\"stringValue\":\"asked\"}");
    assert_has(body, "{\"arrayValue\":{\"values\":[{\"stringValue\":\"eos\"}]}}");
    assert_has(body, "\"traceState\":\"a=b\"");
    assert_lacks(body, "temperature");
    assert_lacks(body, "links");
    assert_lacks(body, "given_up");
    free(body);
}

static void the_parent_of_the_outermost_span_is_that_of_the_producer(void **state)
{
    (void)state;
    struct mr_request_trace *trace = make_trace(5);
    trace->context.has_parent = true;
    memset(trace->context.parent_id, 0xab, MR_SPAN_ID_BYTES);
    char *body = encode_one(trace, 7);
    char *first = strstr(body, "\"parentSpanId\":\"abababababababab\",\"flags\":769");
    assert_non_null(first);
    assert_null(strstr(first + 40, "abababab"));
    free(body);
}

static void a_later_attempt_is_linked_to_the_one_before(void **state)
{
    (void)state;
    char link[96], hex[17] = {0};
    unsigned char id[MR_SPAN_ID_BYTES];
    struct mr_request_trace *trace = make_trace(5);
    mr_trace_span_id(&trace->context, &trace->place, 1, 0, id);
    for (unsigned i = 0; i < sizeof id; i++)
        snprintf(hex + 2 * (size_t)i, 3, "%02x", id[i]);
    snprintf(link, sizeof link, "\"spanId\":\"%s\",\"attributes\":[{\"key\":\"millrace.resume\"",
             hex);
    trace->attempt = 2;
    trace->resumed_tokens = 4;
    char *body = encode_one(trace, 7);
    assert_has(body, link);
    assert_has(body, "\"key\":\"millrace.resumed_tokens\",\"value\":{\"intValue\":\"4\"}");
    free(body);
}

static void the_beginning_is_sent_once(void **state)
{
    (void)state;
    struct mr_request_trace *trace = make_trace(5);
    char *body = encode_one(mr_request_trace_begin(trace), 2);
    assert_has(body, "\"name\":\"intake\"");
    assert_has(body, "\"name\":\"queue\"");
    free(body);
    trace->begun = true;
    body = encode_one(trace, 5);
    assert_lacks(body, "\"name\":\"queue\"");
    free(body);
}

static void a_refused_request_has_an_error_and_no_model_run(void **state)
{
    (void)state;
    struct mr_request_trace *trace = make_trace(5);
    trace->submitted_ns = trace->asked_ns = trace->started_ns = trace->token_ns = 0;
    trace->answer = (struct mr_trace_answer){.finish = "rejected", .error = "malformed"};
    char *body = encode_one(trace, 3);
    assert_has(body, "\"status\":{\"code\":2}");
    assert_has(body, "\"key\":\"error.type\",\"value\":{\"stringValue\":\"malformed\"}");
    assert_has(body, "\"key\":\"gen_ai.request.model\",\"value\":{\"stringValue\":\"served\"}");
    assert_lacks(body, "gen_ai.usage");
    free(body);
}

static void a_request_that_another_worker_has_to_answer_says_so(void **state)
{
    (void)state;
    struct mr_request_trace *trace = make_trace(5);
    trace->made_ns = trace->token_ns = 0;
    trace->answered = false;
    char *body = encode_one(trace, 5);
    assert_has(body, "\"key\":\"millrace.given_up\",\"value\":{\"boolValue\":true}");
    assert_lacks(body, "\"name\":\"publish\"");
    free(body);
}

static void no_part_begins_before_the_one_in_front_of_it_ends(void **state)
{
    (void)state;
    struct mr_request_trace *trace = make_trace(5);
    trace->started_ns = 2 * MS; /* the engine's step read the clock before intake's step */
    mr_request_trace_chunk(trace, &(struct mr_chunk){50, 4 * MS, 100 * MS});
    char *body = encode_one(trace, 8);
    char *start = strstr(body, "\"name\":\"start\"");
    assert_has(start, "\"startTimeUnixNano\":\"1700000000003000000\",\"endTimeUnixNano\":"
                      "\"1700000000003000000\"");
    assert_has(body, "\"key\":\"millrace.tokens\",\"value\":{\"intValue\":\"50\"}");
    free(body);
}

static void several_traces_share_a_body(void **state)
{
    (void)state;
    size_t spans = 0;
    struct mr_request_trace *one = make_trace(5), *two = make_trace(6);
    one->next = two;
    char *body = encode(one, &spans);
    assert_int_equal(spans, 14);
    char *scope = strstr(body, "\"scopeSpans\"");
    assert_null(strstr(scope + 1, "\"scopeSpans\""));
    free(body);
    mr_request_trace_destroy(one);
    mr_request_trace_destroy(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_request_has_seven_spans),
        cmocka_unit_test(the_parent_of_the_outermost_span_is_that_of_the_producer),
        cmocka_unit_test(a_later_attempt_is_linked_to_the_one_before),
        cmocka_unit_test(the_beginning_is_sent_once),
        cmocka_unit_test(a_refused_request_has_an_error_and_no_model_run),
        cmocka_unit_test(a_request_that_another_worker_has_to_answer_says_so),
        cmocka_unit_test(no_part_begins_before_the_one_in_front_of_it_ends),
        cmocka_unit_test(several_traces_share_a_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
