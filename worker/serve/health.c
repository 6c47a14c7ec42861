#include "worker/serve/health.h"

#include "worker/base/clock.h"
#include "worker/redis/tier_metrics.h"
#include "worker/serve/worker_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The engine thread is stuck when it is not idle and has ended no step for this long, far longer
 * than the longest step. */
#define STUCK_NS ((uint64_t)60000000000)

static void say(struct mr_http_reply *reply, unsigned code, const char *text)
{
    reply->code = code;
    reply->body = strdup(text);
    reply->length = reply->body ? strlen(text) : 0;
}

/* Alive: the model is loading, the engine is idle, or it runs steps. */
static void answer_livez(struct mr_worker *worker, struct mr_http_reply *reply)
{
    struct mr_error err = {0};
    if (mr_worker_health(worker, &err) != MR_OK) {
        say(reply, 503, err.detail);
        return;
    }
    if (!atomic_load(&worker->built)) {
        say(reply, 200, "loading\n");
        return;
    }
    struct mr_engine_thread_stats stats = mr_engine_thread_stats(worker->engine);
    uint64_t now_ns = mr_clock_ns();
    bool stuck = !stats.idle && now_ns > stats.step_ns && now_ns - stats.step_ns > STUCK_NS;
    char text[96];
    snprintf(text, sizeof text, "%s, %llu steps\n", stuck ? "stuck" : "alive",
             (unsigned long long)stats.steps);
    say(reply, stuck ? 503 : 200, text);
}

static void answer_readyz(struct mr_worker *worker, struct mr_http_reply *reply)
{
    struct mr_error err = {0};
    if (mr_worker_health(worker, &err) != MR_OK)
        say(reply, 503, err.detail);
    else if (!atomic_load(&worker->ready))
        say(reply, 503, "not ready\n");
    else
        say(reply, 200, "ready\n");
}

static void answer_metrics(struct mr_worker *worker, struct mr_http_reply *reply)
{
    if (!atomic_load(&worker->built)) {
        say(reply, 503, "loading\n");
        return;
    }
    struct mr_engine_thread_stats stats = mr_engine_thread_stats(worker->engine);
    struct mr_error err = {0};
    enum mr_status status =
        mr_metrics_render(worker->metrics, &stats.engine, atomic_load(&worker->ready), &reply->body,
                          &reply->length, &err);
    if (status == MR_OK && worker->tier) {
        struct mr_tier_redis_stats tier = mr_tier_redis_stats(worker->tier);
        status = mr_tier_metrics_append(&tier, &reply->body, &reply->length, &err);
    }
    if (status != MR_OK) say(reply, 503, err.detail);
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
}

/* Threads: the HTTP library's. */
static void answer(void *context, enum mr_http_page page, struct mr_http_reply *reply)
{
    struct mr_worker *worker = context;
    if (page == MR_HTTP_LIVEZ)
        answer_livez(worker, reply);
    else if (page == MR_HTTP_READYZ)
        answer_readyz(worker, reply);
    else
        answer_metrics(worker, reply);
}

enum mr_status mr_worker_open_health(struct mr_worker *worker, struct mr_error *err)
{
    const char *address = worker->options.config->http;
    if (!address[0] || strcmp(address, "off") == 0) return MR_OK;
    return mr_http_start(&worker->http, address, answer, worker, err);
}

enum mr_status mr_worker_health(struct mr_worker *worker, struct mr_error *err)
{
    pthread_mutex_lock(&worker->mutex);
    struct mr_error failure = worker->failure;
    pthread_mutex_unlock(&worker->mutex);
    if (failure.status != MR_OK && err) *err = failure;
    return failure.status;
}

struct mr_worker_stats mr_worker_stats(struct mr_worker *worker)
{
    struct mr_worker_stats stats = {.engine = mr_engine_thread_stats(worker->engine),
                                    .publish = mr_publish_stats(worker->publish),
                                    .intake = mr_intake_stats(worker->intake)};
    if (worker->tier) stats.tier = mr_tier_redis_stats(worker->tier);
    return stats;
}
