#include "worker/serve/drain.h"

#include "worker/base/clock.h"
#include "worker/serve/parts_state.h"

/* time between two checks whether requests are still running */
#define POLL_NS             ((uint64_t)20000000)
#define STOP_NOW_TIMEOUT_MS 500u

/* Number of requests that may still end. Those that wait in intake no longer start. */
static uint32_t count_running(struct mr_worker *worker)
{
    struct mr_intake_stats stats = mr_intake_stats(worker->intake);
    return stats.in_flight - stats.parked;
}

/* Waits until no request is running, but not after until_ns; true if stop_now ended the wait. */
static bool wait_for_running(struct mr_worker *worker, uint64_t until_ns,
                             bool (*stop_now)(void *context), void *context)
{
    while (count_running(worker) > 0 && mr_clock_ns() < until_ns) {
        if (stop_now && stop_now(context)) return true;
        if (mr_worker_health(worker, NULL) != MR_OK) return false;
        mr_wake_wait(&worker->wake, POLL_NS);
    }
    return false;
}

/* Time for ending all parts, after the requests have ended or the drain has timed out. */
static uint32_t end_timeout_ms(uint64_t until_ns)
{
    uint64_t now_ns = mr_clock_ns();
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    left_ns = left_ns < MR_DRAIN_END_MAX_NS ? left_ns + MR_DRAIN_END_NS : MR_DRAIN_END_MAX_NS;
    return (uint32_t)((left_ns < MR_DRAIN_END_MAX_NS ? left_ns : MR_DRAIN_END_MAX_NS) / 1000000);
}

enum mr_exit mr_worker_drain(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*stop_now)(void *context), void *context, bool *ended)
{
    struct mr_log *log = worker->options.log;
    uint64_t now_ns = mr_clock_ns();
    uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
    atomic_store(&worker->ready, false);
    mr_intake_drain(worker->intake, timeout_ns);
    mr_engine_thread_drain(worker->engine);
    mr_log_event(log, MR_LOG_INFO, NULL, "draining",
                 MR_LOG_NUMBER("in_flight", mr_intake_stats(worker->intake).in_flight));
    bool stopped = wait_for_running(worker, until_ns, stop_now, context);
    uint32_t unfinished = mr_intake_stats(worker->intake).in_flight;
    bool healthy = mr_worker_health(worker, NULL) == MR_OK;
    if (unfinished > 0)
        mr_log_event(log, MR_LOG_WARN, NULL, "drain ended; Kafka redelivers unfinished requests",
                     MR_LOG_NUMBER("unfinished", unfinished));
    bool complete =
        mr_worker_destroy(worker, stopped ? STOP_NOW_TIMEOUT_MS : end_timeout_ms(until_ns));
    if (!complete) mr_log_warn(log, "the broker did not acknowledge all records before the exit");
    if (ended) *ended = complete;
    return healthy && (complete || stopped) ? MR_EXIT_DONE : MR_EXIT_FAILED;
}
