#include "worker/trace/tracer.h"

#include "worker/base/thread.h"
#include "worker/trace/collector.h"

#include <pthread.h>
#include <stdlib.h>

/* Longest time of one step: a name lookup and a POST. */
#define STEP_MAX_NS  ((uint64_t)120000000000)
#define PAUSE_MIN_NS ((uint64_t)1000000000)
#define PAUSE_MAX_NS ((uint64_t)30000000000)
/* Longer than the interval at which a POST reads its deadline, plus the time of a step on a busy
 * machine. */
#define STOP_MS        2000u
#define MILLISECOND_NS UINT64_C(1000000)

struct mr_tracer {
    struct mr_tracer_options options;
    struct mr_collector collector;
    struct mr_wake wake, done; /* done: rung when nothing is left after end_ns was set */
    struct mr_thread *thread;
    atomic_uint_least64_t deadline_ns; /* latest end of the current POST */
    /* when the remaining spans are dropped because the worker ends; UINT64_MAX: the worker runs */
    atomic_uint_least64_t end_ns;

    pthread_mutex_t mutex; /* protects the next four fields */
    struct mr_request_trace *first, **last;
    uint32_t count;
    struct mr_tracer_stats stats;

    /* owned by the thread: the body to be delivered, and since when */
    char *body;
    size_t length, spans;
    uint32_t requests;
    uint64_t since_ns, pause_ns, retry_ns; /* retry_ns: not sent again before */
    bool failing;                          /* the last POST failed, and that was logged */
};

/* ---- the queue ---- */

void mr_tracer_send(struct mr_tracer *tracer, struct mr_request_trace *trace)
{
    if (!trace) return;
    bool taken = false, full = false;
    if (tracer) {
        pthread_mutex_lock(&tracer->mutex);
        taken = tracer->count < MR_TRACER_QUEUE_MAX;
        if (taken) {
            trace->next = NULL;
            *tracer->last = trace;
            tracer->last = &trace->next;
            tracer->count++;
        } else {
            tracer->stats.dropped++;
        }
        full = tracer->count == MR_TRACER_BATCH;
        pthread_mutex_unlock(&tracer->mutex);
    }
    if (full) mr_wake_ring(&tracer->wake);
    if (!taken) mr_request_trace_destroy(trace);
}

/* Removes up to MR_TRACER_BATCH requests from the queue, linked by `next`. */
static struct mr_request_trace *take(struct mr_tracer *tracer, uint32_t *count)
{
    struct mr_request_trace *first, **link = &first;
    pthread_mutex_lock(&tracer->mutex);
    first = tracer->first;
    for (*count = 0; *link && *count < MR_TRACER_BATCH; (*count)++)
        link = &(*link)->next;
    tracer->first = *link;
    *link = NULL;
    if (!tracer->first) tracer->last = &tracer->first;
    tracer->count -= *count;
    pthread_mutex_unlock(&tracer->mutex);
    return first;
}

static void free_list(struct mr_request_trace *trace)
{
    for (struct mr_request_trace *next; trace; trace = next) {
        next = trace->next;
        mr_request_trace_destroy(trace);
    }
}

/* ---- the body ---- */

static void add_stats(struct mr_tracer *tracer, const struct mr_tracer_stats *more)
{
    pthread_mutex_lock(&tracer->mutex);
    tracer->stats.spans += more->spans;
    tracer->stats.rejected += more->rejected;
    tracer->stats.dropped += more->dropped;
    tracer->stats.failures += more->failures;
    pthread_mutex_unlock(&tracer->mutex);
}

static void end_body(struct mr_tracer *tracer)
{
    free(tracer->body);
    tracer->body = NULL;
    tracer->pause_ns = 0;
}

/* Drops the present body. */
static void drop_body(struct mr_tracer *tracer)
{
    add_stats(tracer, &(struct mr_tracer_stats){.dropped = tracer->requests});
    end_body(tracer);
}

/* Makes the next body from the queue, if it is not empty. */
static void make_body(struct mr_tracer *tracer, uint64_t now_ns)
{
    struct mr_error err = {0};
    struct mr_request_trace *traces = take(tracer, &tracer->requests);
    if (!traces) return;
    enum mr_status status = mr_otlp_encode(&tracer->options.worker, traces, &tracer->body,
                                           &tracer->length, &tracer->spans, &err);
    free_list(traces);
    tracer->since_ns = now_ns;
    if (status != MR_OK) drop_body(tracer);
}

static void note_failure(struct mr_tracer *tracer, const struct mr_error *err)
{
    add_stats(tracer, &(struct mr_tracer_stats){.failures = 1});
    if (!tracer->failing)
        mr_log_warn(tracer->options.log, "spans cannot be delivered: %s", err->detail);
    tracer->failing = true;
}

/* True when the undelivered body must be dropped. */
static bool is_hopeless(struct mr_tracer *tracer, enum mr_status status, uint64_t now_ns)
{
    return status == MR_BACKEND || atomic_load(&tracer->end_ns) != UINT64_MAX ||
           now_ns >= tracer->since_ns + MR_TRACER_RETRY_NS;
}

/* Limits the next POST. Reads end_ns after the deadline is set, because _destroy sets the two in
 * the opposite order. */
static void set_deadline(struct mr_tracer *tracer, uint64_t now_ns)
{
    atomic_store(&tracer->deadline_ns, now_ns + MR_TRACER_TIMEOUT_NS);
    uint64_t end_ns = atomic_load(&tracer->end_ns);
    if (end_ns < now_ns + MR_TRACER_TIMEOUT_NS) atomic_store(&tracer->deadline_ns, end_ns);
}

static void send_body(struct mr_tracer *tracer, uint64_t now_ns)
{
    struct mr_error err = {0};
    uint64_t rejected = 0;
    set_deadline(tracer, now_ns);
    enum mr_status status =
        mr_collector_post(&tracer->collector, (struct mr_text){tracer->body, tracer->length},
                          &tracer->deadline_ns, &rejected, &err);
    if (status == MR_OK) {
        if (tracer->failing) mr_log_info(tracer->options.log, "spans are delivered again");
        tracer->failing = false;
        if (rejected > tracer->spans) rejected = tracer->spans;
        add_stats(tracer, &(struct mr_tracer_stats){.spans = tracer->spans - rejected,
                                                    .rejected = rejected});
        end_body(tracer);
        return;
    }
    note_failure(tracer, &err);
    if (is_hopeless(tracer, status, now_ns)) {
        drop_body(tracer);
        return;
    }
    tracer->pause_ns = tracer->pause_ns == 0 ? PAUSE_MIN_NS : 2 * tracer->pause_ns;
    if (tracer->pause_ns > PAUSE_MAX_NS) tracer->pause_ns = PAUSE_MAX_NS;
    tracer->retry_ns = now_ns + tracer->pause_ns;
}

static bool has_batch(struct mr_tracer *tracer)
{
    pthread_mutex_lock(&tracer->mutex);
    bool full = tracer->count >= MR_TRACER_BATCH;
    pthread_mutex_unlock(&tracer->mutex);
    return full;
}

static uint64_t step(void *state, struct mr_time now)
{
    struct mr_tracer *tracer = state;
    bool ending = atomic_load(&tracer->end_ns) != UINT64_MAX;
    if (ending && now.ns >= atomic_load(&tracer->end_ns) && tracer->body) drop_body(tracer);
    if (!tracer->body) make_body(tracer, now.ns);
    if (!tracer->body) {
        if (ending) mr_wake_ring(&tracer->done);
        return now.ns + MR_TRACER_INTERVAL_NS;
    }
    if (!ending && now.ns < tracer->retry_ns) return tracer->retry_ns;
    send_body(tracer, now.ns);
    if (tracer->body) return tracer->retry_ns;
    return ending || has_batch(tracer) ? 0 : now.ns + MR_TRACER_INTERVAL_NS;
}

/* ---- other threads ---- */

enum mr_status mr_tracer_create(struct mr_tracer **out, const struct mr_tracer_options *options,
                                struct mr_error *err)
{
    *out = NULL;
    struct mr_tracer *tracer = calloc(1, sizeof *tracer);
    if (!tracer) return mr_fail(err, MR_NOMEM, "no memory for the tracer");
    tracer->options = *options;
    tracer->last = &tracer->first;
    atomic_store(&tracer->end_ns, UINT64_MAX);
    pthread_mutex_init(&tracer->mutex, NULL);
    struct mr_thread_options thread = {.name = "tracer",
                                       .step = step,
                                       .state = tracer,
                                       .wake = &tracer->wake,
                                       .heartbeats = options->heartbeats,
                                       .step_max_ns = STEP_MAX_NS};
    enum mr_status status = mr_collector_parse(&tracer->collector, options->url, err);
    if (status != MR_OK) goto fail;
    status = mr_wake_open(&tracer->wake, err);
    if (status != MR_OK) goto fail;
    status = mr_wake_open(&tracer->done, err);
    if (status != MR_OK) goto fail_wake;
    status = mr_thread_start(&tracer->thread, &thread, err);
    if (status != MR_OK) goto fail_done;
    *out = tracer;
    return MR_OK;

fail_done:
    mr_wake_close(&tracer->done);
fail_wake:
    mr_wake_close(&tracer->wake);
fail:
    pthread_mutex_destroy(&tracer->mutex);
    free(tracer);
    return status;
}

double mr_tracer_ratio(const struct mr_tracer *tracer)
{
    return tracer->options.ratio;
}

struct mr_tracer_stats mr_tracer_stats(struct mr_tracer *tracer)
{
    pthread_mutex_lock(&tracer->mutex);
    struct mr_tracer_stats stats = tracer->stats;
    stats.waiting = tracer->count;
    pthread_mutex_unlock(&tracer->mutex);
    return stats;
}

bool mr_tracer_destroy(struct mr_tracer *tracer, uint32_t timeout_ms)
{
    if (!tracer) return true;
    uint64_t end_ns = mr_clock_ns() + timeout_ms * MILLISECOND_NS;
    atomic_store(&tracer->end_ns, end_ns);
    if (atomic_load(&tracer->deadline_ns) > end_ns) atomic_store(&tracer->deadline_ns, end_ns);
    mr_wake_ring(&tracer->wake);
    mr_wake_wait(&tracer->done, timeout_ms * MILLISECOND_NS);
    if (!mr_thread_stop_within(tracer->thread, STOP_MS)) return false;
    free(tracer->body);
    free_list(tracer->first);
    mr_wake_close(&tracer->done);
    mr_wake_close(&tracer->wake);
    pthread_mutex_destroy(&tracer->mutex);
    free(tracer);
    return true;
}
