/* tracer - the thread that sends the spans of sampled requests to a collector (OTLP over HTTP).
 *
 * Every MR_TRACER_INTERVAL_NS it takes what is in its queue, at most MR_TRACER_BATCH requests at a
 * time, makes one body of it and sends that. A body that the collector cannot take now is sent
 * again after a pause that grows to half a minute, for at most MR_TRACER_RETRY_NS; then it is
 * dropped. Meanwhile the queue fills, and what finds it full is dropped. All of this is counted,
 * and none of it delays a request.
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
    double ratio; /* share of the requests without a trace of their own that are sampled */
    struct mr_otlp_worker worker;
    struct mr_log *log;
    struct mr_heartbeats *heartbeats; /* watches the thread; NULL: none */
};

struct mr_tracer_stats {
    uint64_t spans;    /* that the collector has taken */
    uint64_t rejected; /* that it has not taken although it took the rest */
    uint64_t dropped;  /* requests whose spans were given up */
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
/* Sends what is left, for at most timeout_ms, and ends the thread, for which it waits two seconds
 * more at most. False: the thread hangs in the look-up of a name, and nothing is freed. tracer may
 * be NULL. */
bool mr_tracer_destroy(struct mr_tracer *tracer, uint32_t timeout_ms);

#endif
