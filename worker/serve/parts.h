/* parts - a worker as one object: its components (engine, intake, publish, remote cache and so on),
 * its options, its statistics, its first failure, and how all of it is freed. worker/serve/worker.h
 * creates a worker, worker/serve/health.h serves its status pages and worker/serve/drain.h ends it
 * gracefully. struct mr_worker is in worker/serve/parts_state.h.
 *
 * Owner: the main thread, except where another is named. Memory: the worker owns all its
 * components. */
#ifndef MR_WORKER_SERVE_PARTS_H
#define MR_WORKER_SERVE_PARTS_H

#include "worker/engine/engine_thread.h"
#include "worker/intake/intake.h"
#include "worker/publish/publish.h"
#include "worker/remote_cache/redis_cache.h"

#include <stdio.h>

struct mr_worker;

/* Exit codes of the process millrace. */
enum mr_exit {
    MR_EXIT_DONE = 0,
    MR_EXIT_FAILED = 1,
    MR_EXIT_USAGE = 2,       /* wrong usage or configuration */
    MR_EXIT_UNREACHABLE = 3, /* a server, such as the Kafka broker, could not be reached */
    MR_EXIT_MODEL = 4        /* the model could not be loaded */
};

struct mr_worker_options {
    const struct mr_config *config;
    const char *brokers; /* replaces config->brokers; NULL: use config->brokers */
    bool join_group;     /* false: read all partitions without joining the consumer group */
    struct mr_log *log;
    FILE *banner; /* where the start-up summary is printed; NULL: nowhere */
    /* polled while waiting for the Kafka broker; true: stop waiting. May be NULL */
    bool (*give_up)(void *context);
    void *context; /* argument of give_up */
};

struct mr_worker_stats {
    struct mr_engine_thread_stats engine;
    struct mr_publish_stats publish;
    struct mr_intake_stats intake;
    struct mr_redis_cache_stats
        remote; /* statistics of the remote cache; all zero without --redis */
};

/* This wake is rung when a component of the worker fails. */
const struct mr_wake *mr_worker_wake(const struct mr_worker *worker);
/* MR_OK, or the first failure of any component (also in err, which may be NULL). Threads: any. */
enum mr_status mr_worker_health(struct mr_worker *worker, struct mr_error *err);
/* After SIGHUP: reads the passwords that come from files (sasl.password=@FILE,
 * --redis-password-file) again. The next login to Kafka and to Redis uses them. Logs the outcome;
 * if a file cannot be read, its old password stays. Other secrets need a restart. */
void mr_worker_reread_secrets(struct mr_worker *worker);
struct mr_worker_stats mr_worker_stats(struct mr_worker *worker);
const struct mr_model_info *mr_worker_model(const struct mr_worker *worker);

/* The exit code of a process that ends with this status. */
enum mr_exit mr_worker_exit_code(enum mr_status status);

/* Ends all threads without waiting for running requests, and frees the worker. Components that were
 * never created may be NULL. timeout_ms limits the flush of the Kafka producer, the last commit,
 * leaving the consumer group, transactions and Redis together. It does not limit the engine's
 * current step or the opening of a model. False when not everything could be written or ended in
 * time: threads may then still run, their data is not freed, and the process should end soon. */
bool mr_worker_destroy(struct mr_worker *worker, uint32_t timeout_ms);

#endif
