#include "worker/trace/otlp.h"

#include "codec/sha256.h"
#include "codec/wire/json_writer.h"
#include "worker/base/version.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BODY_BYTES_MAX ((size_t)64 << 20)

/* numbers of the spans of an attempt (mr_trace_span_id); chunks follow the last one */
enum span { ROOT, INTAKE, QUEUE, START, PREFILL, DECODE, PUBLISH, SPANS };

/* SpanKind of opentelemetry-proto */
enum kind { KIND_INTERNAL = 1, KIND_PRODUCER = 4, KIND_CONSUMER = 5 };

#define STATUS_ERROR  2
#define FLAGS_SAMPLED 0x101u /* flags: sampled, and the next flag is valid */
#define FLAG_REMOTE   0x200u /* the parent is in another process */

struct writer {
    const struct mr_otlp_worker *worker;
    const struct mr_request_trace *trace;
    struct mr_json_writer json;
    size_t spans;
};

/* ---- attributes ---- */

static void begin_attribute(struct writer *writer, const char *name, const char *type)
{
    mr_json_begin_object(&writer->json);
    mr_json_name(&writer->json, "key");
    mr_json_put_string(&writer->json, name);
    mr_json_name(&writer->json, "value");
    mr_json_begin_object(&writer->json);
    mr_json_name(&writer->json, type);
}

static void end_attribute(struct writer *writer)
{
    mr_json_end(&writer->json);
    mr_json_end(&writer->json);
}

static void put_text(struct writer *writer, const char *name, const char *text)
{
    begin_attribute(writer, name, "stringValue");
    mr_json_put_string(&writer->json, text);
    end_attribute(writer);
}

static void put_long(struct writer *writer, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, number);
    mr_json_put_string(&writer->json, digits);
}

static void put_int(struct writer *writer, const char *name, int64_t number)
{
    begin_attribute(writer, name, "intValue");
    put_long(writer, number);
    end_attribute(writer);
}

static void put_double(struct writer *writer, const char *name, double number)
{
    if (!isfinite(number)) return;
    begin_attribute(writer, name, "doubleValue");
    mr_json_put_double(&writer->json, number);
    end_attribute(writer);
}

static void put_bool(struct writer *writer, const char *name, bool value)
{
    begin_attribute(writer, name, "boolValue");
    mr_json_put_bool(&writer->json, value);
    end_attribute(writer);
}

static void put_list(struct writer *writer, const char *name, const char *text)
{
    begin_attribute(writer, name, "arrayValue");
    mr_json_begin_object(&writer->json);
    mr_json_name(&writer->json, "values");
    mr_json_begin_array(&writer->json);
    mr_json_begin_object(&writer->json);
    mr_json_name(&writer->json, "stringValue");
    mr_json_put_string(&writer->json, text);
    mr_json_end(&writer->json);
    mr_json_end(&writer->json);
    mr_json_end(&writer->json);
    end_attribute(writer);
}

static void put_record(struct writer *writer)
{
    const struct mr_request_trace *trace = writer->trace;
    char partition[16];
    snprintf(partition, sizeof partition, "%" PRId32, trace->place.partition);
    put_text(writer, "messaging.system", "kafka");
    put_text(writer, "messaging.operation.name", "process");
    put_text(writer, "messaging.operation.type", "process");
    put_text(writer, "messaging.destination.name", trace->place.topic);
    put_text(writer, "messaging.destination.partition.id", partition);
    put_text(writer, "messaging.consumer.group.name", writer->worker->group);
    put_int(writer, "messaging.kafka.offset", trace->place.offset);
    put_text(writer, "millrace.tenant", trace->tenant);
    put_int(writer, "millrace.attempt", trace->attempt);
    if (trace->waited_ms >= 0) put_double(writer, "millrace.kafka_wait_ms", trace->waited_ms);
    if (trace->attempt <= 1) return;
    put_bool(writer, "millrace.resume", true);
    put_int(writer, "millrace.resumed_tokens", trace->resumed_tokens);
}

static void put_answer(struct writer *writer)
{
    const struct mr_trace_answer *answer = &writer->trace->answer;
    const char *model = answer->model[0] ? answer->model : writer->worker->model;
    put_text(writer, "gen_ai.provider.name", "millrace");
    put_text(writer, "gen_ai.request.model", model);
    put_text(writer, "gen_ai.response.model", writer->worker->model);
    put_text(writer, "gen_ai.response.id", writer->trace->id);
    if (answer->finish) put_list(writer, "gen_ai.response.finish_reasons", answer->finish);
    if (answer->error) put_text(writer, "error.type", answer->error);
    if (!answer->operation) return;
    put_text(writer, "gen_ai.operation.name", answer->operation);
    put_int(writer, "gen_ai.request.max_tokens", answer->max_tokens);
    put_int(writer, "gen_ai.request.choice.count", answer->choices);
    put_double(writer, "gen_ai.request.temperature", answer->temperature);
    put_int(writer, "gen_ai.usage.input_tokens", answer->input_tokens);
    put_int(writer, "gen_ai.usage.output_tokens", answer->output_tokens);
    put_int(writer, "gen_ai.usage.cache_read.input_tokens", answer->cached_tokens);
}

/* ---- spans ---- */

static void put_id(struct writer *writer, const char *name, const unsigned char *id, size_t bytes)
{
    char hex[2 * MR_TRACE_ID_BYTES];
    mr_sha256_hex(id, bytes, hex);
    mr_json_name(&writer->json, name);
    mr_json_put_text(&writer->json, (struct mr_text){hex, 2 * bytes});
}

static void put_span_id(struct writer *writer, const char *name, uint32_t attempt, uint32_t number)
{
    unsigned char id[MR_SPAN_ID_BYTES];
    mr_trace_span_id(&writer->trace->context, &writer->trace->place, attempt, number, id);
    put_id(writer, name, id, sizeof id);
}

static void put_time(struct writer *writer, const char *name, uint64_t time_ns)
{
    mr_json_name(&writer->json, name);
    put_long(writer, (int64_t)time_ns + writer->trace->unix_ns);
}

/* parent: number of the span's parent. For the outermost span it is the span's own number, and the
 * parent is the producer's span. The attributes follow, then end_span. */
static void begin_span(struct writer *writer, uint32_t number, uint32_t parent, const char *name,
                       enum kind kind)
{
    const struct mr_request_trace *trace = writer->trace;
    bool remote = number == ROOT && trace->context.has_parent;
    writer->spans++;
    mr_json_begin_object(&writer->json);
    put_id(writer, "traceId", trace->context.trace_id, MR_TRACE_ID_BYTES);
    put_span_id(writer, "spanId", trace->attempt, number);
    if (trace->state[0]) {
        mr_json_name(&writer->json, "traceState");
        mr_json_put_string(&writer->json, trace->state);
    }
    if (remote)
        put_id(writer, "parentSpanId", trace->context.parent_id, MR_SPAN_ID_BYTES);
    else if (number != ROOT)
        put_span_id(writer, "parentSpanId", trace->attempt, parent);
    mr_json_name(&writer->json, "flags");
    mr_json_put_uint(&writer->json, FLAGS_SAMPLED | (remote ? FLAG_REMOTE : 0));
    mr_json_name(&writer->json, "name");
    mr_json_put_string(&writer->json, name);
    mr_json_name(&writer->json, "kind");
    mr_json_put_int(&writer->json, kind);
}

static void begin_attributes(struct writer *writer, uint64_t begin_ns, uint64_t end_ns)
{
    put_time(writer, "startTimeUnixNano", begin_ns);
    put_time(writer, "endTimeUnixNano", end_ns > begin_ns ? end_ns : begin_ns);
    mr_json_name(&writer->json, "attributes");
    mr_json_begin_array(&writer->json);
}

static void end_span(struct writer *writer)
{
    mr_json_end(&writer->json);
    mr_json_end(&writer->json);
}

/* A span below the outermost one. */
static void begin_part(struct writer *writer, enum span number, const char *name, uint64_t begin_ns,
                       uint64_t end_ns)
{
    begin_span(writer, number, ROOT, name, number == PUBLISH ? KIND_PRODUCER : KIND_INTERNAL);
    begin_attributes(writer, begin_ns, end_ns);
}

/* Links a later attempt to the outermost span of the previous attempt. */
static void put_link(struct writer *writer)
{
    const struct mr_request_trace *trace = writer->trace;
    if (trace->attempt <= 1) return;
    mr_json_name(&writer->json, "links");
    mr_json_begin_array(&writer->json);
    mr_json_begin_object(&writer->json);
    put_id(writer, "traceId", trace->context.trace_id, MR_TRACE_ID_BYTES);
    put_span_id(writer, "spanId", trace->attempt - 1, ROOT);
    mr_json_name(&writer->json, "attributes");
    mr_json_begin_array(&writer->json);
    put_bool(writer, "millrace.resume", true);
    mr_json_end(&writer->json);
    mr_json_end(&writer->json);
    mr_json_end(&writer->json);
}

static void put_root(struct writer *writer)
{
    const struct mr_request_trace *trace = writer->trace;
    char name[300];
    snprintf(name, sizeof name, "process %s", trace->place.topic);
    begin_span(writer, ROOT, ROOT, name, KIND_CONSUMER);
    put_link(writer);
    if (trace->answer.error) {
        mr_json_name(&writer->json, "status");
        mr_json_begin_object(&writer->json);
        mr_json_name(&writer->json, "code");
        mr_json_put_int(&writer->json, STATUS_ERROR);
        mr_json_end(&writer->json);
    }
    begin_attributes(writer, trace->received_ns, trace->ended_ns);
    put_record(writer);
    put_answer(writer);
    if (!trace->answered) put_bool(writer, "millrace.given_up", true);
    end_span(writer);
}

static void put_chunks(struct writer *writer)
{
    const struct mr_request_trace *trace = writer->trace;
    for (uint32_t i = 0; i < trace->chunk_count; i++) {
        const struct mr_chunk *chunk = &trace->chunks[i];
        begin_span(writer, SPANS + i, PREFILL, "chunk", KIND_INTERNAL);
        begin_attributes(writer, chunk->begin_ns, chunk->end_ns);
        put_int(writer, "millrace.tokens", chunk->tokens);
        end_span(writer);
    }
}

/* Makes times of consecutive parts increase, because threads read the clock at different moments.
 * 0 stays 0. */
static uint64_t not_before(uint64_t time_ns, uint64_t least_ns)
{
    return time_ns == 0 || time_ns > least_ns ? time_ns : least_ns;
}

static uint64_t first_of(uint64_t one, uint64_t other)
{
    return one != 0 ? one : other;
}

/* The parts up to the first step. */
static void put_begin(struct writer *writer)
{
    const struct mr_request_trace *trace = writer->trace;
    uint64_t end_ns = first_of(trace->made_ns, trace->ended_ns);
    uint64_t submitted_ns = trace->submitted_ns;
    begin_part(writer, INTAKE, "intake", trace->received_ns, first_of(submitted_ns, end_ns));
    put_int(writer, "millrace.attempt", trace->attempt);
    end_span(writer);
    if (submitted_ns == 0) return;
    begin_part(writer, QUEUE, "queue", submitted_ns, first_of(trace->asked_ns, end_ns));
    put_int(writer, "millrace.attempt", trace->attempt);
    end_span(writer);
}

static void put_run(struct writer *writer)
{
    const struct mr_request_trace *trace = writer->trace;
    const struct mr_trace_answer *answer = &trace->answer;
    uint64_t end_ns = first_of(trace->made_ns, trace->ended_ns);
    uint64_t started_ns = not_before(trace->started_ns, trace->asked_ns);
    uint64_t token_ns = not_before(trace->token_ns, started_ns);
    if (trace->asked_ns == 0) return;
    begin_part(writer, START, "start", trace->asked_ns, first_of(started_ns, end_ns));
    end_span(writer);
    if (started_ns == 0) return;
    begin_part(writer, PREFILL, "prefill", started_ns, first_of(token_ns, end_ns));
    put_int(writer, "gen_ai.usage.input_tokens", answer->input_tokens);
    put_int(writer, "millrace.cached_tokens", answer->cached_tokens);
    put_int(writer, "millrace.cached_tokens_redis", answer->cached_tokens_redis);
    put_int(writer, "millrace.chunks", answer->prefill_chunks);
    end_span(writer);
    put_chunks(writer);
    if (token_ns == 0) return;
    begin_part(writer, DECODE, "decode", token_ns, end_ns);
    put_int(writer, "gen_ai.usage.output_tokens", answer->output_tokens);
    put_double(writer, "millrace.gap_mean_ms", answer->gap_mean_ms);
    put_double(writer, "millrace.gap_max_ms", answer->gap_max_ms);
    put_int(writer, "millrace.preemptions", answer->preemptions);
    end_span(writer);
}

static void put_trace(struct writer *writer)
{
    const struct mr_request_trace *trace = writer->trace;
    if (!trace->begun) put_begin(writer);
    if (trace->begins) return;
    put_run(writer);
    if (trace->made_ns != 0) {
        begin_part(writer, PUBLISH, "publish", trace->made_ns, trace->ended_ns);
        put_text(writer, "messaging.system", "kafka");
        put_text(writer, "messaging.operation.name", "send");
        put_text(writer, "messaging.operation.type", "send");
        put_text(writer, "messaging.destination.name", writer->worker->results_topic);
        end_span(writer);
    }
    put_root(writer);
}

/* ---- the body ---- */

static void put_resource(struct writer *writer)
{
    mr_json_name(&writer->json, "resource");
    mr_json_begin_object(&writer->json);
    mr_json_name(&writer->json, "attributes");
    mr_json_begin_array(&writer->json);
    put_text(writer, "service.name", "millrace");
    put_text(writer, "service.version", mr_version);
    put_text(writer, "service.instance.id", writer->worker->worker);
    mr_json_end(&writer->json);
    mr_json_end(&writer->json);
}

static void put_scope(struct writer *writer)
{
    mr_json_name(&writer->json, "scope");
    mr_json_begin_object(&writer->json);
    mr_json_name(&writer->json, "name");
    mr_json_put_string(&writer->json, "millrace");
    mr_json_name(&writer->json, "version");
    mr_json_put_string(&writer->json, mr_version);
    mr_json_end(&writer->json);
}

enum mr_status mr_otlp_encode(const struct mr_otlp_worker *worker,
                              const struct mr_request_trace *traces, char **body, size_t *length,
                              size_t *spans, struct mr_error *err)
{
    struct writer writer = {.worker = worker};
    struct mr_json_writer *json = &writer.json;
    mr_json_writer_init(json, BODY_BYTES_MAX);
    mr_json_begin_object(json);
    mr_json_name(json, "resourceSpans");
    mr_json_begin_array(json);
    mr_json_begin_object(json);
    put_resource(&writer);
    mr_json_name(json, "scopeSpans");
    mr_json_begin_array(json);
    mr_json_begin_object(json);
    put_scope(&writer);
    mr_json_name(json, "spans");
    mr_json_begin_array(json);
    for (const struct mr_request_trace *trace = traces; trace; trace = trace->next) {
        writer.trace = trace;
        put_trace(&writer);
    }
    for (int level = 0; level < 6; level++)
        mr_json_end(json);
    *spans = writer.spans;
    return mr_json_writer_take(json, body, length, err);
}
