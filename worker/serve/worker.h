/* worker - builds the parts in the order of the flow, joins them, and takes them apart again.
 *
 *     engine thread (opens the model)  |  meanwhile: broker, topics
 *     publish -> intake -> banner      the group is joined only when the model is ready
 *
 * Owner:  the main thread. Memory: all parts. Errors: _create says why and with which exit code the
 *         process should end (CONTRACT section 8). */
#ifndef MR_WORKER_SERVE_WORKER_H
#define MR_WORKER_SERVE_WORKER_H

#include "worker/engine/engine_thread.h"
#include "worker/intake/intake.h"
#include "worker/publish/publish.h"
#include "worker/redis/tier_redis.h"

#include <stdio.h>

struct mr_worker;

enum mr_exit {
    MR_EXIT_DONE = 0,
    MR_EXIT_FAILED = 1,
    MR_EXIT_USAGE = 2,       /* or configuration */
    MR_EXIT_UNREACHABLE = 3, /* a server could not be reached */
    MR_EXIT_MODEL = 4        /* the model could not be loaded */
};

struct mr_worker_options {
    const struct mr_config *config;
    const char *brokers; /* instead of the configuration's; NULL: that one */
    bool join_group;
    struct mr_log *log;
    FILE *banner;                   /* where the start is described; NULL: nowhere */
    bool (*give_up)(void *context); /* asked while a start waits for its broker; may be NULL */
    void *context;
};

struct mr_worker_stats {
    struct mr_engine_thread_stats engine;
    struct mr_publish_stats publish;
    struct mr_intake_stats intake;
    struct mr_tier_redis_stats tier; /* all zero without --redis */
};

/* Blocks until requests are being taken, or something failed. Signals that the process handles must
 * be blocked already: threads are made here. */
enum mr_status mr_worker_create(struct mr_worker **out, const struct mr_worker_options *options,
                                enum mr_exit *exit_code, struct mr_error *err);
/* Rung when the worker failed by itself. */
const struct mr_wake *mr_worker_wake(const struct mr_worker *worker);
/* MR_OK while it works; otherwise why it does not. Threads: any. */
enum mr_status mr_worker_health(struct mr_worker *worker, struct mr_error *err);
struct mr_worker_stats mr_worker_stats(struct mr_worker *worker);
const struct mr_model_info *mr_worker_model(const struct mr_worker *worker);

/* Stops taking requests, hands back those that have not started, lets the running ones end until
 * timeout_ns have passed or `hurry` (may be NULL) says so; commits, leaves the group, ends all
 * threads and frees all. Returns MR_EXIT_DONE, or MR_EXIT_FAILED when the worker had failed or
 * something could not be said to the broker. */
enum mr_exit mr_worker_drain(struct mr_worker *worker, uint64_t timeout_ns,
                             bool (*hurry)(void *context), void *context);

#endif
