/* millrace serve: the worker until SIGTERM. */
#include "worker/base/clock.h"
#include "worker/cli/cli.h"
#include "worker/redis/tier_metrics.h"

struct serving {
    struct mr_worker *worker;
    struct mr_cli_signals signals;
    struct mr_log *log;
    struct mr_worker_stats before; /* at the last line of figures */
    uint64_t before_ns;
};

/* A signal while the start still waits: there is nothing to drain. */
static bool told(void *context)
{
    struct serving *serving = context;
    return mr_cli_signals_wait(&serving->signals, -1, 0);
}

/* A second signal: stop at once. */
static bool hurry(void *context)
{
    struct serving *serving = context;
    mr_cli_signals_wait(&serving->signals, -1, 0);
    return serving->signals.count > 1;
}

/* Of exactly-once delivery; empty without. */
static void describe_transactions(char *text, size_t size,
                                  const struct mr_transactions_stats *before,
                                  const struct mr_transactions_stats *now)
{
    uint64_t aborted = now->aborted - before->aborted;
    uint64_t through = now->transactions - before->transactions - aborted;
    text[0] = '\0';
    if (now->transactions == 0) return;
    snprintf(text, size, ", transactions %llu of %.0f ms, aborted %llu",
             (unsigned long long)through,
             through > 0 ? (double)(now->ns_sum - before->ns_sum) / 1e6 / (double)through : 0.0,
             (unsigned long long)aborted);
}

static void say_engine(struct serving *serving, const struct mr_worker_stats *now, double seconds)
{
    const struct mr_engine_stats *a = &serving->before.engine.engine, *b = &now->engine.engine;
    char transactions[96];
    describe_transactions(transactions, sizeof transactions, &serving->before.intake.settle,
                          &now->intake.settle);
    mr_log_info(
        serving->log,
        "%.0f prompt tok/s, %.0f output tok/s, running %u, waiting %u, KV %u %%, "
        "prefix hits %.0f %%, shared hits %llu of %llu tokens, loaded %.0f MB, stored %.0f MB, "
        "preempted %llu, in Kafka %llu%s",
        (double)(b->prompt_tokens - a->prompt_tokens) / seconds,
        (double)(b->generated_tokens - a->generated_tokens) / seconds, b->running, b->waiting,
        b->blocks_total > 0 ? b->blocks_held * 100 / b->blocks_total : 0,
        b->prefix_queries_tokens > 0
            ? 100.0 * (double)b->prefix_hit_tokens / (double)b->prefix_queries_tokens
            : 0.0,
        (unsigned long long)b->shared.loaded_tokens, (unsigned long long)b->shared.asked_tokens,
        (double)b->shared.loaded_bytes / 1e6, (double)b->shared.stored_bytes / 1e6,
        (unsigned long long)b->preemptions, (unsigned long long)now->intake.backlog, transactions);
}

static void say_tier(struct serving *serving, const struct mr_tier_redis_stats *tier)
{
    char line[MR_TIER_LINE_BYTES];
    mr_tier_metrics_line(tier, line);
    mr_log_info(serving->log, "Redis: %s", line);
}

/* Lines of figures, when there was work since the last. */
static void say_stats(struct serving *serving, bool with_tier)
{
    struct mr_worker_stats now = mr_worker_stats(serving->worker);
    uint64_t now_ns = mr_clock_ns();
    if (now.engine.engine.steps != serving->before.engine.engine.steps) {
        say_engine(serving, &now, (double)(now_ns - serving->before_ns) / 1e9);
        if (with_tier) say_tier(serving, &now.tier);
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
        if (interval_ns > 0) say_stats(serving, config->redis[0]);
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
                                        .give_up = told,
                                        .context = &serving};
    mr_cli_signals_open(&serving.signals);
    if (mr_worker_create(&serving.worker, &options, &code, &err) != MR_OK) {
        bool ended = told(&serving);
        if (!ended) mr_log_error(log, "%s", err.detail);
        mr_cli_signals_close(&serving.signals);
        return ended ? MR_EXIT_DONE : (int)code;
    }
    serve_until_signal(&serving, config);
    code = mr_worker_drain(serving.worker, config->drain_timeout_ns, hurry, &serving);
    mr_cli_signals_close(&serving.signals);
    return (int)code;
}
