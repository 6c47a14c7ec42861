/* request_trace - times and facts of one sampled request, recorded on its path through the worker;
 * worker/trace/otlp.h makes spans from them. A request that is not sampled has none.
 *
 * Times are monotonic nanoseconds; 0: the request did not reach that point.
 *
 * Owner: the thread that has the request's ticket: intake until the submission, the engine thread
 * (chunks only), publish from the result on, intake again at the end; then the tracer.
 * Memory: one block with copies of all texts. Errors: _create returns NULL without memory; the
 * request then has no spans. */
#ifndef MR_WORKER_TRACE_REQUEST_TRACE_H
#define MR_WORKER_TRACE_REQUEST_TRACE_H

#include "batching/sequence/submission.h"
#include "worker/trace/trace_context.h"

#define MR_TRACE_CHUNKS_MAX 64u
/* a shorter chunk of a prompt has no span */
#define MR_TRACE_CHUNK_NS    ((uint64_t)50000000)
#define MR_TRACE_MODEL_BYTES ((size_t)128)

/* Facts about the request and its answer, from the result. */
struct mr_trace_answer {
    const char *operation;            /* static: chat or text_completion; NULL: unknown */
    const char *finish;               /* static: the finish reason; NULL: there is no answer */
    const char *error;                /* static: the error code; NULL: none */
    char model[MR_TRACE_MODEL_BYTES]; /* named by the request; "": none */
    uint32_t input_tokens, output_tokens, cached_tokens, cached_tokens_redis;
    uint32_t max_tokens, choices, prefill_chunks, preemptions;
    double temperature, gap_mean_ms, gap_max_ms; /* temperature NaN: not given */
};

struct mr_request_trace {
    struct mr_request_trace *next; /* link in the tracer's queue */
    struct mr_trace_context context;
    struct mr_trace_place place;
    const char *id, *tenant, *state; /* state: the header `tracestate`; "": none */
    uint32_t attempt, resumed_tokens;
    double waited_ms;      /* time in Kafka by the record's timestamp; negative: unknown */
    int64_t unix_ns;       /* add it to a monotonic time to get the time since 1970 */
    uint64_t received_ns;  /* intake has taken the record */
    uint64_t submitted_ns; /* the engine has the request */
    uint64_t asked_ns;     /* the engine was about to run the first step */
    uint64_t started_ns;   /* the first step begins: the start is durable */
    uint64_t token_ns;     /* the first token of this attempt */
    uint64_t made_ns;      /* the result is made */
    uint64_t ended_ns;     /* the result is on the broker, or the request was dropped */
    bool begins;   /* only the spans up to asked_ns, sent early so that a crash does not lose all
                      spans */
    bool begun;    /* the spans up to asked_ns were sent */
    bool answered; /* the result is on the broker */
    struct mr_trace_answer answer;
    struct mr_chunk chunks[MR_TRACE_CHUNKS_MAX];
    uint32_t chunk_count;
};

/* The texts of a new trace, which _create copies. */
struct mr_trace_texts {
    struct mr_text id, tenant, state;
};

struct mr_request_trace *mr_request_trace_create(const struct mr_trace_context *context,
                                                 const struct mr_trace_place *place,
                                                 const struct mr_trace_texts *texts);
/* Returns a copy with the spans up to asked_ns only. */
struct mr_request_trace *mr_request_trace_begin(const struct mr_request_trace *trace);
/* trace may be NULL. */
void mr_request_trace_destroy(struct mr_request_trace *trace);
/* Records a chunk of at least MR_TRACE_CHUNK_NS, up to MR_TRACE_CHUNKS_MAX of them. Engine thread.
 */
void mr_request_trace_chunk(struct mr_request_trace *trace, const struct mr_chunk *chunk);

#endif
