#include "worker/serve/parts.h"

#include "worker/base/clock.h"
#include "worker/serve/parts_state.h"

#include <stdlib.h>

#define RESUME_TIMEOUT_MS 1000u
/* after this time a Redis connection thread that waits for a name server is left running */
#define REDIS_TIMEOUT_MS 1000u
/* for sending the last spans */
#define TRACER_TIMEOUT_MS 1000u
/* part of the time that is reserved for committing and leaving the group */
#define LEAVE_MS 1500u

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

static void note_reread(struct mr_log *log, const char *server, enum mr_status status,
                        const struct mr_error *err)
{
    if (status == MR_OK)
        mr_log_info(log, "SIGHUP: the next login to %s uses the new content of its password file",
                    server);
    else
        mr_log_error(log, "SIGHUP: the password for %s is unchanged: %s", server, err->detail);
}

void mr_worker_reread_secrets(struct mr_worker *worker)
{
    const char *redis_file = worker->options.config->redis_password_file;
    struct mr_log *log = worker->options.log;
    struct mr_error err = {0};
    if (mr_kafka_login_has_files(worker->kafka_login))
        note_reread(log, "Kafka", mr_kafka_login_reread(worker->kafka_login, &err), &err);
    if (worker->remote_cache && redis_file[0])
        note_reread(log, "Redis", mr_redis_cache_reread(worker->remote_cache, redis_file, &err),
                    &err);
}

struct mr_worker_stats mr_worker_stats(struct mr_worker *worker)
{
    struct mr_worker_stats stats = {.engine = mr_engine_thread_stats(worker->engine),
                                    .publish = mr_publish_stats(worker->publish),
                                    .intake = mr_intake_stats(worker->intake)};
    if (worker->remote_cache) stats.remote = mr_redis_cache_stats(worker->remote_cache);
    return stats;
}

const struct mr_model_info *mr_worker_model(const struct mr_worker *worker)
{
    return mr_engine_thread_model(worker->engine);
}

static uint32_t least(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* Ends the parts that write, each in its share of the time until until_ns; false when one did not
 * end or not everything was written. */
static bool end_writers(struct mr_worker *worker, uint64_t until_ns)
{
    uint32_t left_ms = mr_clock_left_ms(mr_clock_ns(), until_ns);
    bool done = mr_publish_destroy(worker->publish, left_ms - least(LEAVE_MS, left_ms / 2));
    done &= mr_intake_destroy(worker->intake, mr_clock_left_ms(mr_clock_ns(), until_ns));
    done &=
        mr_transactions_destroy(worker->transactions, mr_clock_left_ms(mr_clock_ns(), until_ns));
    if (worker->resume)
        mr_resume_flush(worker->resume,
                        least(RESUME_TIMEOUT_MS, mr_clock_left_ms(mr_clock_ns(), until_ns)));
    return done;
}

/* Each thread ends before the threads that it posts to. The engine posts results to publish, so it
 * ends first. Publish then empties its mailbox and reports acknowledged results to intake. Intake
 * commits offsets and leaves the group. Until then intake may encode a prompt with the engine's
 * tokenizer, so the engine is freed after it. */
bool mr_worker_destroy(struct mr_worker *worker, uint32_t timeout_ms)
{
    uint64_t until_ns = mr_clock_ns() + timeout_ms * UINT64_C(1000000);
    atomic_store(&worker->ending, true);
    mr_http_stop(worker->http);
    free(worker->metrics_page);
    worker->metrics_page = NULL;
    if (worker->intake) mr_intake_forget_engine(worker->intake);
    bool redis = mr_redis_cache_close(worker->remote_cache, least(REDIS_TIMEOUT_MS, timeout_ms));
    mr_engine_thread_stop(worker->engine);
    if (worker->adapters) mr_adapters_set_wake(worker->adapters, NULL);
    mr_model_source_close(&worker->model_files);
    bool written = end_writers(worker, until_ns);
    uint32_t left_ms = mr_clock_left_ms(mr_clock_ns(), until_ns);
    bool traced = mr_tracer_destroy(worker->tracer, least(TRACER_TIMEOUT_MS, left_ms));
    if (!written || !redis || !traced) return false;
    mr_kafka_admin_close(worker->outage_admin);
    mr_kafka_outage_close(&worker->outage);
    mr_engine_thread_destroy(worker->engine);
    mr_adapters_destroy(worker->adapters);
    mr_redis_cache_destroy(worker->remote_cache);
    mr_resume_destroy(worker->resume);
    mr_metrics_destroy(worker->metrics);
    mr_kafka_stats_destroy(worker->kafka_stats);
    mr_kafka_login_destroy(worker->kafka_login);
    mr_wake_close(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
    return true;
}
