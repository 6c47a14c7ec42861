#include "worker/serve/health.h"
#include "worker/adapters/adapter_metrics.h"

#include "worker/base/clock.h"
#include "worker/remote_cache/remote_metrics.h"
#include "worker/serve/parts_state.h"
#include "worker/trace/tracer_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An engine thread that has work and completes no step for this long is stuck: no step takes nearly
 * as long. */
#define STUCK_NS ((uint64_t)60000000000)
/* least time between two /metrics pages that are made */
#define METRICS_NS ((uint64_t)100000000)

static void reply_text(struct mr_http_reply *reply, unsigned code, const char *text)
{
    reply->code = code;
    reply->body = strdup(text);
    reply->length = reply->body ? strlen(text) : 0;
}

static void answer_livez(struct mr_worker *worker, struct mr_http_reply *reply)
{
    char text[128];
    struct mr_error err = {0};
    if (mr_worker_health(worker, &err) != MR_OK) {
        reply_text(reply, 503, err.detail);
        return;
    }
    uint64_t now_ns = mr_clock_ns(), since_ns;
    const char *hung = mr_heartbeat_stuck(&worker->heartbeats, now_ns, &since_ns);
    if (hung) {
        snprintf(text, sizeof text, "stuck: the thread %s has been in one step for %.0f s\n", hung,
                 (double)(now_ns - since_ns) / 1e9);
        reply_text(reply, 503, text);
        return;
    }
    if (!atomic_load(&worker->built)) {
        reply_text(reply, 200, "loading\n");
        return;
    }
    struct mr_engine_thread_stats stats = mr_engine_thread_stats(worker->engine);
    bool stuck = !stats.idle && now_ns > stats.step_ns && now_ns - stats.step_ns > STUCK_NS;
    snprintf(text, sizeof text, "%s, %llu steps\n", stuck ? "stuck" : "alive",
             (unsigned long long)stats.steps);
    reply_text(reply, stuck ? 503 : 200, text);
}

/* Describes the worker for /readyz. Until every part exists, the page describes only the start. */
static struct mr_readiness readiness_of(struct mr_worker *worker)
{
    struct mr_readiness readiness = {.loaded = atomic_load(&worker->built)};
    if (!readiness.loaded) return readiness;
    struct mr_intake_stats intake = mr_intake_stats(worker->intake);
    readiness.draining = !atomic_load(&worker->ready);
    readiness.joined = intake.assigned;
    readiness.partitions = intake.partitions;
    readiness.heard_ns = intake.heard_ns;
    readiness.now_ns = mr_clock_ns();
    readiness.session_timeout_ns = worker->options.config->session_timeout_ns;
    readiness.refused_topic = mr_publish_stats(worker->publish).refused_topic;
    readiness.redis = worker->remote_cache != NULL;
    if (!worker->remote_cache) return readiness;
    struct mr_redis_cache_stats redis = mr_redis_cache_stats(worker->remote_cache);
    readiness.redis_up = redis.rates.up;
    readiness.redis_refuses = redis.queue.refusing;
    return readiness;
}

static void answer_readyz(struct mr_worker *worker, struct mr_http_reply *reply)
{
    char text[MR_READINESS_BYTES];
    struct mr_error err = {0};
    struct mr_readiness readiness = readiness_of(worker);
    if (mr_worker_health(worker, &err) != MR_OK) readiness.failure = err.detail;
    reply_text(reply, mr_readiness_write(&readiness, text, NULL) ? 200 : 503, text);
    reply->content_type = "application/json";
}

bool mr_health_is_ready(struct mr_worker *worker, char *reason)
{
    char text[MR_READINESS_BYTES], why[MR_READINESS_REASON_BYTES];
    struct mr_readiness readiness = readiness_of(worker);
    bool ready = mr_readiness_write(&readiness, text, why);
    if (reason) memcpy(reason, why, sizeof why);
    return mr_worker_health(worker, NULL) == MR_OK && ready;
}

/* Makes the page; holds the engine's lock for part of the time. */
static enum mr_status make_metrics(struct mr_worker *worker, char **page, size_t *length,
                                   struct mr_error *err)
{
    struct mr_engine_thread_stats stats = mr_engine_thread_stats(worker->engine);
    struct mr_intake_stats intake = mr_intake_stats(worker->intake);
    const struct mr_model_info *model = mr_engine_thread_model(worker->engine);
    struct mr_metrics_gauges gauges = {
        .engine = &stats.engine,
        .ready = mr_health_is_ready(worker, NULL),
        .in_flight = intake.in_flight,
        .parked = intake.parked,
        .unacknowledged = mr_publish_stats(worker->publish).unreported,
        .intake_mail = mr_mailbox_count(mr_intake_mailbox(worker->intake)),
        .publish_mail = mr_mailbox_count(mr_publish_mailbox(worker->publish)),
        .weight_bytes = model->weight_bytes,
        .kv_pool_bytes = model->kv_pool_bytes,
        .activation_bytes = model->activation_bytes};
    enum mr_status status = mr_metrics_render(worker->metrics, &gauges, page, length, err);
    if (status == MR_OK && worker->remote_cache) {
        struct mr_redis_cache_stats remote = mr_redis_cache_stats(worker->remote_cache);
        status = mr_remote_metrics_append(&remote, page, length, err);
    }
    if (status == MR_OK) status = mr_kafka_stats_append(worker->kafka_stats, page, length, err);
    if (status == MR_OK && worker->tracer) {
        struct mr_tracer_stats tracer = mr_tracer_stats(worker->tracer);
        status = mr_tracer_metrics_append(&tracer, page, length, err);
    }
    if (status == MR_OK && worker->adapters)
        status = mr_adapter_metrics_append(worker->adapters, page, length, err);
    return status;
}

/* Answers with the last page if it is younger than METRICS_NS: clients that fetch in a loop would
 * otherwise slow the engine. */
static void answer_metrics(struct mr_worker *worker, struct mr_http_reply *reply)
{
    struct mr_error err = {0};
    if (!atomic_load(&worker->built)) {
        reply_text(reply, 503, "loading\n");
        return;
    }
    uint64_t now_ns = mr_clock_ns();
    if (!worker->metrics_page || now_ns - worker->metrics_ns >= METRICS_NS) {
        free(worker->metrics_page);
        worker->metrics_page = NULL;
        char *page = NULL;
        if (make_metrics(worker, &page, &worker->metrics_length, &err) != MR_OK) {
            free(page);
            reply_text(reply, 503, err.detail);
            return;
        }
        worker->metrics_page = page;
        worker->metrics_ns = now_ns;
    }
    reply->body = malloc(worker->metrics_length);
    if (reply->body) memcpy(reply->body, worker->metrics_page, worker->metrics_length);
    reply->length = worker->metrics_length;
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
}

static void answer_requests(struct mr_worker *worker, struct mr_http_reply *reply)
{
    struct mr_oldest oldest;
    struct mr_error err = {0};
    if (!atomic_load(&worker->built)) {
        reply_text(reply, 503, "loading\n");
        return;
    }
    mr_intake_oldest_requests(worker->intake, &oldest);
    if (mr_oldest_write(&oldest, mr_clock_ns(), &reply->body, &reply->length, &err) != MR_OK) {
        reply_text(reply, 503, err.detail);
        return;
    }
    reply->content_type = "application/json";
}

/* Answers one page. Threads: runs on the HTTP library's thread. */
static void answer(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    struct mr_worker *worker = context;
    if (page == MR_HTTP_LIVEZ)
        answer_livez(worker, reply);
    else if (page == MR_HTTP_READYZ)
        answer_readyz(worker, reply);
    else if (page == MR_HTTP_REQUESTS)
        answer_requests(worker, reply);
    else if (page == MR_HTTP_LAG)
        reply->code = 404;
    else
        answer_metrics(worker, reply);
}

enum mr_status mr_health_open(struct mr_worker *worker, struct mr_error *err)
{
    const char *address = worker->options.config->http;
    if (!address[0] || strcmp(address, "off") == 0) return MR_OK;
    struct mr_error inner = {0};
    enum mr_status status = mr_http_start(&worker->http, address, answer, worker, &inner);
    if (status == MR_OK) return MR_OK;
    return mr_fail(err, status == MR_NOMEM ? MR_NOMEM : MR_BAD_CONFIG, "--http: %.180s",
                   inner.detail);
}
