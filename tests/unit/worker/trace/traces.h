/* traces - makes traces of requests for tests. */
#ifndef TESTS_UNIT_WORKER_TRACE_TRACES_H
#define TESTS_UNIT_WORKER_TRACE_TRACES_H

#include "worker/trace/request_trace.h"

#include <math.h>
#include <stdio.h>

#define MS UINT64_C(1000000)

/* A finished request with an answer of 7 tokens, at offset `offset`. */
static inline struct mr_request_trace *make_trace(int64_t offset)
{
    struct mr_trace_context context;
    struct mr_trace_place place = {"requests", 3, offset, 1700000000000};
    struct mr_trace_texts texts = {.id = {"id-1", 4}, .tenant = {"red", 3}, .state = {"a=b", 3}};
    mr_trace_context_make(&context, &place, 1);
    struct mr_request_trace *trace = mr_request_trace_create(&context, &place, &texts);
    assert_non_null(trace);
    trace->attempt = 1;
    trace->waited_ms = 1.5;
    trace->unix_ns = 1700000000000000000;
    trace->received_ns = 1 * MS;
    trace->submitted_ns = 2 * MS;
    trace->asked_ns = 3 * MS;
    trace->started_ns = 4 * MS;
    trace->token_ns = 200 * MS;
    trace->made_ns = 300 * MS;
    trace->ended_ns = 302 * MS;
    trace->answered = true;
    trace->answer = (struct mr_trace_answer){.operation = "chat",
                                             .finish = "eos",
                                             .model = "asked",
                                             .input_tokens = 90,
                                             .output_tokens = 7,
                                             .max_tokens = 20,
                                             .choices = 1,
                                             .prefill_chunks = 2,
                                             .temperature = (double)NAN};
    return trace;
}

#endif
