#include "worker/serve/parts.h"

#include "worker/serve/parts_state.h"

#include <stdlib.h>

#define RESUME_TIMEOUT_MS 1000u

enum mr_exit mr_worker_exit_code(enum mr_status status)
{
    switch (status) {
    case MR_OK:
        return MR_EXIT_DONE;
    case MR_UNREACHABLE:
        return MR_EXIT_UNREACHABLE;
    case MR_BAD_CONFIG:
    case MR_INVALID_REQUEST:
        return MR_EXIT_USAGE;
    case MR_BAD_FILE:
        return MR_EXIT_MODEL;
    default:
        return MR_EXIT_FAILED;
    }
}

const struct mr_wake *mr_worker_wake(const struct mr_worker *worker)
{
    return &worker->wake;
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

const struct mr_model_info *mr_worker_model(const struct mr_worker *worker)
{
    return mr_engine_thread_model(worker->engine);
}

/* The engine ends first, because it posts results to publish; then publish, which empties its
 * mailbox and reports acknowledged results to intake; then intake, which commits offsets and leaves
 * the group. */
bool mr_worker_destroy(struct mr_worker *worker, uint32_t timeout_ms)
{
    mr_http_stop(worker->http);
    if (worker->intake) mr_intake_forget_engine(worker->intake);
    mr_tier_redis_close(worker->tier);
    mr_engine_thread_destroy(worker->engine);
    mr_model_source_close(&worker->model_files);
    bool flushed = mr_publish_destroy(worker->publish, timeout_ms);
    bool left_group = mr_intake_destroy(worker->intake, timeout_ms);
    mr_transactions_destroy(worker->transactions);
    if (worker->resume) mr_resume_flush(worker->resume, RESUME_TIMEOUT_MS);
    mr_tier_redis_destroy(worker->tier);
    mr_resume_destroy(worker->resume);
    mr_metrics_destroy(worker->metrics);
    mr_wake_close(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
    return flushed && left_group;
}
