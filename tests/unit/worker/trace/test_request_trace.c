#include "worker/trace/request_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/trace/traces.h"

static void texts_are_copied(void **state)
{
    (void)state;
    char topic[] = "topic", id[] = "id", tenant[] = "", tracestate[] = "x=y";
    struct mr_trace_context context = {.sampled = true};
    struct mr_trace_place place = {topic, 1, 2, 3};
    struct mr_trace_texts texts = {.id = {id, 2}, .tenant = {tenant, 0}, .state = {tracestate, 3}};
    struct mr_request_trace *trace = mr_request_trace_create(&context, &place, &texts);
    memset(topic, '?', sizeof topic);
    memset(id, '?', sizeof id);
    memset(tracestate, '?', sizeof tracestate);
    assert_string_equal(trace->place.topic, "topic");
    assert_string_equal(trace->id, "id");
    assert_string_equal(trace->tenant, "");
    assert_string_equal(trace->state, "x=y");
    assert_int_equal(trace->place.offset, 2);
    mr_request_trace_destroy(trace);
    mr_request_trace_destroy(NULL);
}

static void short_chunks_and_those_beyond_the_bound_are_left_out(void **state)
{
    (void)state;
    struct mr_request_trace *trace = make_trace(1);
    mr_request_trace_chunk(trace, &(struct mr_chunk){10, 5 * MS, 5 * MS + MR_TRACE_CHUNK_NS - 1});
    assert_int_equal(trace->chunk_count, 0);
    for (uint32_t i = 0; i < MR_TRACE_CHUNKS_MAX + 5; i++)
        mr_request_trace_chunk(
            trace, &(struct mr_chunk){i + 1, i * 60 * MS, i * 60 * MS + MR_TRACE_CHUNK_NS});
    assert_int_equal(trace->chunk_count, MR_TRACE_CHUNKS_MAX);
    assert_int_equal(trace->chunks[0].tokens, 1);
    assert_int_equal(trace->chunks[MR_TRACE_CHUNKS_MAX - 1].tokens, MR_TRACE_CHUNKS_MAX);
    mr_request_trace_destroy(trace);
}

static void the_copy_of_the_beginning_knows_nothing_of_the_rest(void **state)
{
    (void)state;
    struct mr_request_trace *trace = make_trace(1);
    struct mr_request_trace *begin = mr_request_trace_begin(trace);
    assert_true(begin->begins);
    assert_int_equal(begin->asked_ns, trace->asked_ns);
    assert_int_equal(begin->attempt, 1);
    assert_int_equal(begin->made_ns, 0);
    assert_ptr_not_equal(begin->id, trace->id);
    mr_request_trace_destroy(trace);
    assert_string_equal(begin->id, "id-1");
    assert_string_equal(begin->state, "a=b");
    mr_request_trace_destroy(begin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_copied),
        cmocka_unit_test(short_chunks_and_those_beyond_the_bound_are_left_out),
        cmocka_unit_test(the_copy_of_the_beginning_knows_nothing_of_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
