/* millrace serve: runs a worker until SIGTERM or SIGINT. */
#include "worker/base/clock.h"
#include "worker/base/log_file.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/remote_cache/remote_metrics.h"
#include "worker/serve/drain.h"
#include "worker/serve/shutdown.h"
#include "worker/serve/watch.h"
#include "worker/serve/worker.h"

#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define HEAP_ARENAS       2
#define HEAP_MAPPED_BYTES (128 << 10) /* larger blocks are returned to the kernel when freed */

struct serving {
    struct mr_worker *worker;
    struct mr_cli_signals signals; /* read by the thread of `shutdown` */
    struct mr_shutdown *shutdown;
    struct mr_log *log;
    struct mr_log_file log_file; /* the file that stderr is open on */
    unsigned reopened;           /* how many SIGHUP the thread of `shutdown` has obeyed */
    atomic_uint hangups;         /* the same, for the main thread */
    unsigned reread;             /* how many SIGHUP the main thread has obeyed */
    /* the worker's statistics at the time of the last stats line in the log */
    struct mr_worker_stats before;
    uint64_t before_ns; /* when the last stats line was logged */
};

/* True when a signal came while the worker starts. The start is then abandoned; there is nothing to
 * drain yet. */
static bool is_signalled(void *context)
{
    const struct serving *serving = context;
    return mr_shutdown_signals(serving->shutdown) > 0;
}

/* Called while the worker drains, that is, after the first signal. True when a second signal came,
 * which ends the drain early. */
static bool stop_now(void *context)
{
    const struct serving *serving = context;
    return mr_shutdown_signals(serving->shutdown) > 1;
}

/* Handles SIGHUP: reopens the log file, which may have been renamed, and wakes the main thread,
 * which owns the worker and rereads the secrets. */
static void reopen_log(struct serving *serving)
{
    struct mr_error err = {0};
    serving->reopened = serving->signals.hangups;
    if (mr_log_file_reopen(&serving->log_file, &err) == MR_OK)
        mr_log_info(serving->log, "SIGHUP: the log file was opened again");
    else
        mr_log_error(serving->log, "SIGHUP: %s", err.detail);
    atomic_store(&serving->hangups, serving->reopened);
    mr_wake_ring(mr_shutdown_wake(serving->shutdown));
}

static void reread_secrets(struct serving *serving)
{
    unsigned hangups = atomic_load(&serving->hangups);
    if (hangups != serving->reread) mr_worker_reread_secrets(serving->worker);
    serving->reread = hangups;
}

static unsigned count_signals(void *context)
{
    struct serving *serving = context;
    mr_cli_signals_wait(&serving->signals, -1, 0);
    if (serving->signals.hangups != serving->reopened) reopen_log(serving);
    return serving->signals.count;
}

/* Ends the process at once. Does not call exit, whose handlers are unsafe while threads run. */
static void end_process(void *context, enum mr_exit code)
{
    const struct serving *serving = context;
    mr_log_warn(serving->log, "the worker did not end in time; the process ends with %d", code);
    _exit((int)code);
}

static double percent_of(double part, double whole)
{
    return whole > 0 ? round(100 * part / whole) : 0;
}

/* Logs the transactions since the last statistics line, if this worker uses any. */
static void log_transactions(struct serving *serving, const struct mr_transactions_stats *now)
{
    const struct mr_transactions_stats *before = &serving->before.intake.transactions;
    uint64_t aborted = now->aborted - before->aborted;
    uint64_t committed = now->transactions - before->transactions - aborted;
    double mean_ms =
        committed > 0 ? round((double)(now->ns_sum - before->ns_sum) / 1e6 / (double)committed) : 0;
    if (now->transactions == 0) return;
    mr_log_event(serving->log, MR_LOG_INFO, NULL, "transactions",
                 MR_LOG_NUMBER("committed", committed), MR_LOG_NUMBER("mean_ms", mean_ms),
                 MR_LOG_NUMBER("aborted", aborted));
}

static void log_engine(struct serving *serving, const struct mr_worker_stats *now, double seconds)
{
    const struct mr_engine_stats *before = &serving->before.engine.engine,
                                 *after = &now->engine.engine;
    double prompt_tokens = (double)(after->prompt_tokens - before->prompt_tokens);
    double output_tokens = (double)(after->generated_tokens - before->generated_tokens);
    mr_log_event(
        serving->log, MR_LOG_INFO, NULL, "statistics",
        MR_LOG_NUMBER("prompt_tokens_per_second", round(prompt_tokens / seconds)),
        MR_LOG_NUMBER("output_tokens_per_second", round(output_tokens / seconds)),
        MR_LOG_NUMBER("running", after->running), MR_LOG_NUMBER("waiting", after->waiting),
        MR_LOG_NUMBER("kv_percent", percent_of(after->cache.held_count, after->cache.block_count)),
        MR_LOG_NUMBER("prefix_hit_percent", percent_of((double)after->cache.hit_tokens,
                                                       (double)after->cache.queries_tokens)),
        MR_LOG_NUMBER("preemptions", after->preemptions),
        MR_LOG_NUMBER("lag", now->intake.backlog));
    log_transactions(serving, &now->intake.transactions);
}

/* Logs a statistics line if the engine has completed a step since the last one. */
static void log_stats(struct serving *serving, bool with_remote)
{
    struct mr_worker_stats now = mr_worker_stats(serving->worker);
    uint64_t now_ns = mr_clock_ns();
    if (now.engine.engine.steps != serving->before.engine.engine.steps) {
        log_engine(serving, &now, (double)(now_ns - serving->before_ns) / 1e9);
        if (with_remote)
            mr_remote_metrics_log(&now.remote, &now.engine.engine.remote, serving->log);
    }
    serving->before = now;
    serving->before_ns = now_ns;
}

static void serve_until_signal(struct serving *serving, const struct mr_config *config)
{
    uint64_t interval_ns = config->stats_interval_ns;
    bool ready = false;
    serving->before = mr_worker_stats(serving->worker);
    serving->before_ns = mr_clock_ns();
    for (;;) {
        struct pollfd failure[2] = {{.fd = mr_worker_wake(serving->worker)->fd, .events = POLLIN}};
        if (is_signalled(serving)) return;
        reread_secrets(serving);
        mr_wake_wait_sockets(mr_shutdown_wake(serving->shutdown), failure, 1,
                             ready ? MR_WATCH_KAFKA_NS : MR_WATCH_READINESS_NS);
        if (is_signalled(serving)) return;
        if (mr_worker_health(serving->worker, NULL) != MR_OK) return;
        if (!ready) ready = mr_watch_readiness(serving->worker);
        mr_watch_kafka(serving->worker);
        if (interval_ns > 0 && mr_clock_ns() - serving->before_ns >= interval_ns)
            log_stats(serving, config->redis[0]);
    }
}

static enum mr_status watch_signals(struct serving *serving, const struct mr_config *config,
                                    struct mr_error *err)
{
    struct mr_shutdown_options options = {.drain_ns = config->drain_timeout_ns,
                                          .signal_fd = serving->signals.fd,
                                          .count = count_signals,
                                          .end = end_process,
                                          .context = serving};
    enum mr_status status = mr_shutdown_create(&serving->shutdown, &options, err);
    return status == MR_OK ? mr_shutdown_start(serving->shutdown, err) : status;
}

/* Starts the worker, serves and drains; returns the exit code. */
static enum mr_exit serve(struct serving *serving, const struct mr_config *config)
{
    struct mr_error err = {0};
    enum mr_exit code = MR_EXIT_FAILED;
    struct mr_worker_options options = {.config = config,
                                        .join_group = true,
                                        .log = serving->log,
                                        .banner = stderr,
                                        .give_up = is_signalled,
                                        .context = serving};
    enum mr_status status = watch_signals(serving, config, &err);
    if (status == MR_OK) status = mr_worker_create(&serving->worker, &options, &code, &err);
    if (status != MR_OK) {
        if (serving->shutdown && is_signalled(serving)) return MR_EXIT_DONE;
        mr_log_error(serving->log, "%s", err.detail);
        return code;
    }
    mr_shutdown_serve(serving->shutdown);
    serve_until_signal(serving, config);
    bool ended = false;
    code = mr_worker_drain(serving->worker, config->drain_timeout_ns, stop_now, serving, &ended);
    /* threads that did not end may still run, so no library may be torn down */
    if (!ended) _exit((int)code);
    return code;
}

/* Limits the resident memory that remains after bursts. By default glibc gives each thread an
 * arena, and after the first free of a large block such blocks come from the arenas too. Every
 * burst then leaves holes in another arena that are never returned to the kernel. */
static void bound_heap(const struct mr_config *config)
{
    bool torch = strcmp(config->backend, "torch") == 0 || strcmp(config->dtype, "fp16") == 0;
    mallopt(M_ARENA_MAX, HEAP_ARENAS);
    /* LibTorch allocates the results of its operators in every step. Mapping new pages for them
     * each time would halve the speed of prefill. */
    if (!torch) mallopt(M_MMAP_THRESHOLD, HEAP_MAPPED_BYTES);
}

int mr_cli_serve(const struct mr_config *config, struct mr_log *log)
{
    struct serving serving = {.log = log};
    bound_heap(config);
    mr_log_file_remember(&serving.log_file, STDERR_FILENO);
    mr_cli_signals_open(&serving.signals);
    mr_cli_signals_watch_hangups(&serving.signals);
    enum mr_exit code = serve(&serving, config);
    mr_shutdown_destroy(serving.shutdown);
    mr_cli_signals_close(&serving.signals);
    return (int)code;
}
