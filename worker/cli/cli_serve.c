/* millrace serve: runs a worker until SIGTERM or SIGINT. */
#include "worker/base/clock.h"
#include "worker/cli/cli.h"
#include "worker/cli/cli_common.h"
#include "worker/redis/tier_metrics.h"
#include "worker/serve/drain.h"
#include "worker/serve/worker.h"

struct serving {
    struct mr_worker *worker;
    struct mr_cli_signals signals;
    struct mr_log *log;
    /* the worker's statistics at the time of the last stats line in the log */
    struct mr_worker_stats before;
    uint64_t before_ns; /* when the last stats line was logged */
};

/* True when a signal came while the worker starts: the start is then given up, and there is nothing
 * to drain yet. */
static bool is_signalled(void *context)
{
    struct serving *serving = context;
    return mr_cli_signals_wait(&serving->signals, -1, 0);
}

/* Called while the worker drains, which the first signal has started; true when a second signal
 * came, which ends the drain early. */
static bool stop_now(void *context)
{
    struct serving *serving = context;
    mr_cli_signals_wait(&serving->signals, -1, 0);
    return serving->signals.count > 1;
}

/* Writes the number of transactions since the last stats line; "" when this worker uses no
 * transactions. */
static void describe_transactions(char *text, size_t size,
                                  const struct mr_transactions_stats *before,
                                  const struct mr_transactions_stats *now)
{
    uint64_t aborted = now->aborted - before->aborted;
    uint64_t committed = now->transactions - before->transactions - aborted;
    text[0] = '\0';
    if (now->transactions == 0) return;
    snprintf(text, size, ", committed transactions %llu of %.0f ms, aborted %llu",
             (unsigned long long)committed,
             committed > 0 ? (double)(now->ns_sum - before->ns_sum) / 1e6 / (double)committed : 0.0,
             (unsigned long long)aborted);
}

static void log_engine(struct serving *serving, const struct mr_worker_stats *now, double seconds)
{
    const struct mr_engine_stats *before = &serving->before.engine.engine,
                                 *after = &now->engine.engine;
    char transactions[96];
    describe_transactions(transactions, sizeof transactions, &serving->before.intake.transactions,
                          &now->intake.transactions);
    mr_log_info(
        serving->log,
        "%.0f prompt tok/s, %.0f output tok/s, running %u, waiting %u, KV pool %u %%, "
        "prefix hits %.0f %%, shared cache hits %llu of %llu tokens, loaded %.0f MB, "
        "stored %.0f MB, "
        "preempted %llu, backlog in Kafka %llu%s",
        (double)(after->prompt_tokens - before->prompt_tokens) / seconds,
        (double)(after->generated_tokens - before->generated_tokens) / seconds, after->running,
        after->waiting,
        after->cache.block_count > 0 ? after->cache.held_count * 100 / after->cache.block_count : 0,
        after->cache.queries_tokens > 0
            ? 100.0 * (double)after->cache.hit_tokens / (double)after->cache.queries_tokens
            : 0.0,
        (unsigned long long)after->shared.loaded_tokens,
        (unsigned long long)after->shared.lookup_tokens, (double)after->shared.loaded_bytes / 1e6,
        (double)after->shared.stored_bytes / 1e6, (unsigned long long)after->preemptions,
        (unsigned long long)now->intake.backlog, transactions);
}

static void log_tier(struct serving *serving, const struct mr_tier_redis_stats *tier)
{
    char line[MR_TIER_LINE_BYTES];
    mr_tier_metrics_line(tier, line);
    mr_log_info(serving->log, "Redis: %s", line);
}

/* Logs a stats line if the engine has made a step since the last stats line. */
static void log_stats(struct serving *serving, bool with_tier)
{
    struct mr_worker_stats now = mr_worker_stats(serving->worker);
    uint64_t now_ns = mr_clock_ns();
    if (now.engine.engine.steps != serving->before.engine.engine.steps) {
        log_engine(serving, &now, (double)(now_ns - serving->before_ns) / 1e9);
        if (with_tier) log_tier(serving, &now.tier);
    }
    serving->before = now;
    serving->before_ns = now_ns;
}

static void serve_until_signal(struct serving *serving, const struct mr_config *config)
{
    uint64_t interval_ns = config->stats_interval_ns;
    int timeout_ms = interval_ns > 0 ? (int)(interval_ns / 1000000u) : -1;
    serving->before = mr_worker_stats(serving->worker);
    serving->before_ns = mr_clock_ns();
    for (;;) {
        int failure_fd = mr_worker_wake(serving->worker)->fd;
        if (mr_cli_signals_wait(&serving->signals, failure_fd, timeout_ms)) return;
        if (mr_worker_health(serving->worker, NULL) != MR_OK) return;
        if (interval_ns > 0) log_stats(serving, config->redis[0]);
    }
}

int mr_cli_serve(const struct mr_config *config, struct mr_log *log)
{
    struct serving serving = {.log = log};
    struct mr_error err = {0};
    enum mr_exit code;
    struct mr_worker_options options = {.config = config,
                                        .join_group = true,
                                        .log = log,
                                        .banner = stderr,
                                        .give_up = is_signalled,
                                        .context = &serving};
    mr_cli_signals_open(&serving.signals);
    if (mr_worker_create(&serving.worker, &options, &code, &err) != MR_OK) {
        bool ended = is_signalled(&serving);
        if (!ended) mr_log_error(log, "%s", err.detail);
        mr_cli_signals_close(&serving.signals);
        return ended ? MR_EXIT_DONE : (int)code;
    }
    serve_until_signal(&serving, config);
    code = mr_worker_drain(serving.worker, config->drain_timeout_ns, stop_now, &serving);
    mr_cli_signals_close(&serving.signals);
    return (int)code;
}
