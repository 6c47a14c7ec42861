#include "worker/serve/watch.h"

#include "worker/base/clock.h"
#include "worker/serve/banner.h"
#include "worker/serve/health.h"
#include "worker/serve/parts_state.h"

#include <string.h>

#define ASK_TIMEOUT_MS 500u
/* time between two log lines of a worker that is not ready yet */
#define WAITING_NS ((uint64_t)30000000000)

/* A separate client, created for the outage: the worker's clients are busy with retries, and a new
 * one has no state of earlier connections. */
static bool broker_answers(struct mr_worker *worker)
{
    bool embedded;
    if (!worker->outage_admin &&
        mr_kafka_admin_open(&worker->outage_admin, &worker->kafka, NULL) != MR_OK)
        return false;
    return mr_kafka_admin_probe(worker->outage_admin, ASK_TIMEOUT_MS, &embedded, NULL) == MR_OK;
}

void mr_watch_kafka(struct mr_worker *worker)
{
    double seconds;
    char reason[MR_KAFKA_OUTAGE_REASON_BYTES];
    if (!mr_kafka_outage_must_ask(&worker->outage, mr_clock_ns())) return;
    bool answers = broker_answers(worker);
    enum mr_kafka_outage_change change =
        mr_kafka_outage_answer(&worker->outage, answers, mr_clock_ns(), &seconds, reason);
    struct mr_intake_stats stats = mr_intake_stats(worker->intake);
    if (change == MR_KAFKA_OUTAGE_BEGAN)
        mr_log_warn(worker->options.log,
                    "Kafka is unreachable at %.100s: %s; retrying; %u requests keep running",
                    worker->kafka.brokers, reason, stats.in_flight - stats.parked);
    if (change == MR_KAFKA_OUTAGE_ENDED)
        mr_log_info(worker->options.log, "Kafka answers again after %.0f s", seconds);
    if (!answers) return;
    mr_kafka_admin_close(worker->outage_admin);
    worker->outage_admin = NULL;
}

static void log_waiting(struct mr_worker *worker, const char *reason, uint64_t now_ns)
{
    if (worker->waiting_ns == 0) worker->waiting_ns = worker->built_ns;
    if (now_ns - worker->waiting_ns < WAITING_NS) return;
    worker->waiting_ns = now_ns;
    mr_log_info(worker->options.log, "not ready yet: %s", reason);
}

bool mr_watch_readiness(struct mr_worker *worker)
{
    char reason[MR_READINESS_REASON_BYTES];
    if (worker->announced) return true;
    const uint64_t now_ns = mr_clock_ns();
    if (!mr_health_is_ready(worker, reason)) {
        log_waiting(worker, reason, now_ns);
        return false;
    }
    const struct mr_banner_ready ready = {
        .start_seconds = (double)(worker->built_ns - worker->started_ns) / 1e9,
        .group_seconds = (double)(now_ns - worker->built_ns) / 1e9};
    worker->announced = true;
    if (worker->options.banner && !mr_log_is_json(worker->options.log))
        mr_banner_print_ready(&ready, worker->options.banner);
    else
        mr_banner_log_ready(&ready, worker->options.log);
    return true;
}
