#include "worker/serve/drain.h"

#include "worker/base/clock.h"
#include "worker/serve/worker_state.h"

#include <stdlib.h>
#include <time.h>

#define LOOK_NS           20000000L /* how often the end of the running requests is looked for */
#define FLUSH_TIMEOUT_MS  10000u
#define HURRY_TIMEOUT_MS  500u
#define RESUME_TIMEOUT_MS 1000u

static uint32_t in_flight(struct mr_worker *worker)
{
    return mr_intake_stats(worker->intake).in_flight;
}

/* Waits until everything taken has ended; true if it was cut short by `hurry`. */
static bool wait_for_running(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*hurry)(void *context), void *context)
{
    uint64_t until_ns = mr_clock_ns() + timeout_ns;
    while (in_flight(worker) > 0 && mr_clock_ns() < until_ns) {
        struct timespec pause = {.tv_nsec = LOOK_NS};
        if (hurry && hurry(context)) return true;
        if (mr_worker_health(worker, NULL) != MR_OK) return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* The engine ends first, so that nothing new is posted; then publish, which empties its mailbox and
 * acknowledges to intake; then intake, which commits and leaves the group. */
bool mr_worker_take_apart(struct mr_worker *worker, uint32_t timeout_ms)
{
    mr_http_stop(worker->http);
    if (worker->intake) mr_intake_forget_engine(worker->intake);
    mr_tier_redis_close(worker->tier);
    mr_engine_thread_destroy(worker->engine);
    bool flushed = mr_publish_destroy(worker->publish, timeout_ms);
    bool left = mr_intake_destroy(worker->intake, timeout_ms);
    mr_transactions_destroy(worker->transactions);
    if (worker->resume) mr_resume_flush(worker->resume, RESUME_TIMEOUT_MS);
    mr_tier_redis_destroy(worker->tier);
    mr_resume_destroy(worker->resume);
    mr_metrics_destroy(worker->metrics);
    mr_wake_close(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
    return flushed && left;
}

enum mr_exit mr_worker_drain(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*hurry)(void *context), void *context)
{
    struct mr_log *log = worker->options.log;
    atomic_store(&worker->ready, false);
    mr_intake_drain(worker->intake);
    mr_engine_thread_drain(worker->engine);
    mr_log_info(log, "draining: %u requests in flight", in_flight(worker));
    bool hurried = wait_for_running(worker, timeout_ns, hurry, context);
    uint32_t left = in_flight(worker);
    bool healthy = mr_worker_health(worker, NULL) == MR_OK;
    if (left > 0) mr_log_warn(log, "%u requests are left to other workers", left);
    bool well = mr_worker_take_apart(worker, hurried ? HURRY_TIMEOUT_MS : FLUSH_TIMEOUT_MS);
    if (!well) mr_log_warn(log, "the broker did not acknowledge everything in time");
    return healthy && (well || hurried) ? MR_EXIT_DONE : MR_EXIT_FAILED;
}
