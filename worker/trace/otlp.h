/* otlp - writes the spans of requests as the body of an OTLP/HTTP request in JSON
 * (ExportTraceServiceRequest, opentelemetry-proto 1.x: ids in hexadecimal, enums and 32-bit numbers
 * as numbers, 64-bit numbers as text).
 *
 * The spans of one attempt at a request:
 *
 *     process TOPIC    CONSUMER, child of the producer's span: from the record to its result
 *       intake         decoding, tokenizing, the lookup of earlier attempts in Redis
 *       queue          waiting in the engine's queue
 *       start          the start is made durable (worker/intake/starts.h)
 *       prefill        to the first token; with a child `chunk` for each step of at least
 *                      MR_TRACE_CHUNK_NS that computed a part of the prompt
 *       decode         from the first token to the result
 *       publish        PRODUCER: until the result is on the broker
 *
 * `intake` and `queue` are sent when the request starts, the others at its end. If the worker
 * crashes, the next attempt's spans join the same trace, with a link to the outermost span of the
 * previous attempt.
 *
 * Attributes have the names of OpenTelemetry's semantic conventions for messaging and for
 * generative AI; other names begin with `millrace.`. They never hold text of a prompt or answer.
 *
 * Threads: any (pure function). Memory: *body is malloc'ed. Errors: MR_NOMEM. */
#ifndef MR_WORKER_TRACE_OTLP_H
#define MR_WORKER_TRACE_OTLP_H

#include "codec/status.h"
#include "worker/trace/request_trace.h"

/* Attributes that all spans of a worker share. */
struct mr_otlp_worker {
    const char *worker, *model, *group, *results_topic;
};

/* traces: a list linked by `next`. *spans: number of spans in the body. */
enum mr_status mr_otlp_encode(const struct mr_otlp_worker *worker,
                              const struct mr_request_trace *traces, char **body, size_t *length,
                              size_t *spans, struct mr_error *err);

#endif
