/* tracer - the thread that sends the spans of sampled requests to a collector (OTLP over HTTP).
 *
 * Every MR_TRACER_INTERVAL_NS the thread takes up to MR_TRACER_BATCH requests from its queue, makes
 * one body of their spans and sends it. A body that the collector cannot accept now is sent again
 * after a pause that grows to half a minute. After MR_TRACER_RETRY_NS the body is dropped. Requests
 * that find the queue full are dropped. Dropped spans and failed sends are counted, and neither
 * delays a request.
 *
 * Threads: any thread calls _send and _stats; the main thread the others. Memory: at most
 * MR_TRACER_QUEUE_MAX requests, some kB each. Errors: MR_BAD_CONFIG and MR_NOMEM at creation. */
#ifndef MR_WORKER_TRACE_TRACER_H
#define MR_WORKER_TRACE_TRACER_H

#include "worker/base/heartbeat.h"
#include "worker/base/log.h"
#include "worker/trace/otlp.h"

#define MR_TRACER_QUEUE_MAX   4096u
#define MR_TRACER_BATCH       512u
#define MR_TRACER_INTERVAL_NS ((uint64_t)1000000000)
#define MR_TRACER_TIMEOUT_NS  ((uint64_t)5000000000) /* of one POST */
#define MR_TRACER_RETRY_NS    ((uint64_t)300000000000)

struct mr_tracer;

/* All texts but the URL are borrowed. */
struct mr_tracer_options {
    const char *url;
    double ratio; /* share of the requests without a traceparent header that are sampled */
    struct mr_otlp_worker worker;
    struct mr_log *log;
    struct mr_heartbeats *heartbeats; /* watches the thread; NULL: none */
};

struct mr_tracer_stats {
    uint64_t spans;    /* accepted by the collector */
    uint64_t rejected; /* rejected by the collector, which accepted the rest of their body */
    uint64_t dropped;  /* requests whose spans were dropped */
    uint64_t failures; /* bodies that could not be delivered, each attempt counted */
    uint32_t waiting;  /* requests whose spans are in the queue */
};

/* Starts the thread; the collector need not answer yet. */
enum mr_status mr_tracer_create(struct mr_tracer **out, const struct mr_tracer_options *options,
                                struct mr_error *err);
double mr_tracer_ratio(const struct mr_tracer *tracer);
/* Takes ownership of the trace, which may be NULL; tracer NULL: only frees it. Never blocks. */
void mr_tracer_send(struct mr_tracer *tracer, struct mr_request_trace *trace);
struct mr_tracer_stats mr_tracer_stats(struct mr_tracer *tracer);
/* Sends the rest for at most timeout_ms and ends the thread, for which it waits at most two seconds
 * more. False: the thread hangs in the lookup of a name, and nothing is freed. tracer may be NULL.
 */
bool mr_tracer_destroy(struct mr_tracer *tracer, uint32_t timeout_ms);

#endif
