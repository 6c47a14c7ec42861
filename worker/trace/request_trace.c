#include "worker/trace/request_trace.h"

#include <stdlib.h>
#include <string.h>

static const char *copy(char **at, struct mr_text text)
{
    char *begin = *at;
    if (text.length > 0) memcpy(begin, text.bytes, text.length);
    begin[text.length] = '\0';
    *at += text.length + 1;
    return begin;
}

struct mr_request_trace *mr_request_trace_create(const struct mr_trace_context *context,
                                                 const struct mr_trace_place *place,
                                                 const struct mr_trace_texts *texts)
{
    struct mr_text topic = {place->topic, strlen(place->topic)};
    size_t bytes = topic.length + texts->id.length + texts->tenant.length + texts->state.length + 4;
    struct mr_request_trace *trace = calloc(1, sizeof *trace + bytes);
    if (!trace) return NULL;
    char *at = (char *)(trace + 1);
    trace->context = *context;
    trace->place = *place;
    trace->place.topic = copy(&at, topic);
    trace->id = copy(&at, texts->id);
    trace->tenant = copy(&at, texts->tenant);
    trace->state = copy(&at, texts->state);
    return trace;
}

struct mr_request_trace *mr_request_trace_begin(const struct mr_request_trace *trace)
{
    struct mr_trace_texts texts = {.id = {trace->id, strlen(trace->id)},
                                   .tenant = {trace->tenant, strlen(trace->tenant)},
                                   .state = {trace->state, strlen(trace->state)}};
    struct mr_request_trace *begin =
        mr_request_trace_create(&trace->context, &trace->place, &texts);
    if (!begin) return NULL;
    begin->attempt = trace->attempt;
    begin->resumed_tokens = trace->resumed_tokens;
    begin->unix_ns = trace->unix_ns;
    begin->received_ns = trace->received_ns;
    begin->submitted_ns = trace->submitted_ns;
    begin->asked_ns = trace->asked_ns;
    begin->begins = true;
    return begin;
}

void mr_request_trace_destroy(struct mr_request_trace *trace)
{
    free(trace);
}

void mr_request_trace_chunk(struct mr_request_trace *trace, const struct mr_chunk *chunk)
{
    bool is_short = chunk->end_ns < chunk->begin_ns + MR_TRACE_CHUNK_NS;
    if (is_short || trace->chunk_count == MR_TRACE_CHUNKS_MAX) return;
    trace->chunks[trace->chunk_count++] = *chunk;
}
