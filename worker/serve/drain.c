#include "worker/serve/drain.h"

#include "worker/base/clock.h"
#include "worker/serve/parts_state.h"

/* time between two checks whether requests are still running */
#define POLL_NS             ((uint64_t)20000000)
#define FLUSH_TIMEOUT_MS    10000u
#define STOP_NOW_TIMEOUT_MS 500u

static uint32_t in_flight(struct mr_worker *worker)
{
    return mr_intake_stats(worker->intake).in_flight;
}

/* Waits until no request is in flight, for at most timeout_ms; true if stop_now ended the wait. */
static bool wait_for_running(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*stop_now)(void *context), void *context)
{
    uint64_t until_ns = mr_clock_ns() + timeout_ns;
    while (in_flight(worker) > 0 && mr_clock_ns() < until_ns) {
        if (stop_now && stop_now(context)) return true;
        if (mr_worker_health(worker, NULL) != MR_OK) return false;
        mr_wake_wait(&worker->wake, POLL_NS);
    }
    return false;
}

enum mr_exit mr_worker_drain(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*stop_now)(void *context), void *context)
{
    struct mr_log *log = worker->options.log;
    atomic_store(&worker->ready, false);
    mr_intake_drain(worker->intake);
    mr_engine_thread_drain(worker->engine);
    mr_log_info(log, "draining: %u requests in flight", in_flight(worker));
    bool stopped = wait_for_running(worker, timeout_ns, stop_now, context);
    uint32_t unfinished = in_flight(worker);
    bool healthy = mr_worker_health(worker, NULL) == MR_OK;
    if (unfinished > 0)
        mr_log_warn(log, "drain ended with %u unfinished requests; Kafka redelivers them",
                    unfinished);
    bool complete = mr_worker_destroy(worker, stopped ? STOP_NOW_TIMEOUT_MS : FLUSH_TIMEOUT_MS);
    if (!complete) mr_log_warn(log, "the broker did not acknowledge all records before the exit");
    return healthy && (complete || stopped) ? MR_EXIT_DONE : MR_EXIT_FAILED;
}
