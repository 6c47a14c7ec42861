#include "worker/metrics/metrics.h"

#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/base/histogram.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC_BYTES_MAX ((size_t)256)
#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* Buckets, in seconds and tokens: those vLLM uses, so that its dashboards fit. */
static const double first_token_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                            .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                            20,   40,   80,  160, 640, 2560};
static const double gap_bounds[] = {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                    .4,   .5,    .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
static const double delay_bounds[] = {.0001, .00025, .0005, .001, .0025, .005,
                                      .01,   .025,   .05,   .1,   1};
static const double transaction_bounds[] = {.005, .01, .02, .04, .06, .08, .1, .15, .25,
                                            .5,   1,   2.5, 5,   10,  30,  60, 120};
static const double request_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double token_bounds[] = {1,   2,   5,   10,  20,  50,  100, 200,
                                      500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5};

enum histogram_name {
    FIRST_TOKEN_FROM_INTAKE,
    FIRST_TOKEN_FROM_RECORD,
    GAP,
    PUBLISH_DELAY,
    TRANSACTION,
    REQUEST,
    QUEUE,
    PREFILL,
    DECODE,
    PROMPT_TOKENS,
    GENERATION_TOKENS,
    HISTOGRAM_COUNT
};

struct lag {
    char topic[TOPIC_BYTES_MAX]; /* "" free */
    int32_t partition;
    int64_t unread, uncommitted;
};

struct mr_metrics {
    pthread_mutex_t lock; /* all but the counters */
    char *info_labels;
    _Atomic uint64_t counters[MR_COUNTER_COUNT];
    uint64_t finished[MR_FINISH_COUNT];
    uint64_t rejected[MR_STATUS_COUNT];
    struct mr_histogram histograms[HISTOGRAM_COUNT];
    struct lag lags[MR_METRICS_PARTITIONS_MAX];
    uint64_t transaction_ns;       /* when the one under way began; 0: none */
    uint32_t transaction_requests; /* in it */
};

/* ---- life ---- */

/* Backslash, quote and line feed are what a label value must not hold bare. */
static void put_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"') fputc('\\', out);
        if (*value == '\n')
            fputs("\\n", out);
        else
            fputc(*value, out);
    }
    fputc('"', out);
}

static char *make_info_labels(const struct mr_metrics_info *info)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    put_label(out, "worker", info->worker);
    fputc(',', out);
    put_label(out, "model", info->model);
    fputc(',', out);
    put_label(out, "dtype", info->dtype);
    fputc(',', out);
    put_label(out, "device", info->device);
    fprintf(out, ",block_tokens=\"%u\",context_tokens=\"%u\",max_sequences=\"%u\"",
            info->block_tokens, info->context_tokens, info->sequences_max);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

static void init_histograms(struct mr_metrics *metrics)
{
    struct mr_histogram *all = metrics->histograms;
    mr_histogram_init(&all[FIRST_TOKEN_FROM_INTAKE], first_token_bounds,
                      COUNT_OF(first_token_bounds));
    mr_histogram_init(&all[FIRST_TOKEN_FROM_RECORD], first_token_bounds,
                      COUNT_OF(first_token_bounds));
    mr_histogram_init(&all[GAP], gap_bounds, COUNT_OF(gap_bounds));
    mr_histogram_init(&all[PUBLISH_DELAY], delay_bounds, COUNT_OF(delay_bounds));
    mr_histogram_init(&all[TRANSACTION], transaction_bounds, COUNT_OF(transaction_bounds));
    for (unsigned i = REQUEST; i <= DECODE; i++)
        mr_histogram_init(&all[i], request_bounds, COUNT_OF(request_bounds));
    for (unsigned i = PROMPT_TOKENS; i <= GENERATION_TOKENS; i++)
        mr_histogram_init(&all[i], token_bounds, COUNT_OF(token_bounds));
    for (unsigned i = 0; i < HISTOGRAM_COUNT; i++)
        mr_histogram_check(&all[i]);
}

enum mr_status mr_metrics_create(struct mr_metrics **out, const struct mr_metrics_info *info,
                                 struct mr_error *err)
{
    *out = NULL;
    struct mr_metrics *metrics = calloc(1, sizeof *metrics);
    char *labels = make_info_labels(info);
    if (!metrics || !labels || pthread_mutex_init(&metrics->lock, NULL) != 0) {
        free(labels);
        free(metrics);
        return mr_fail(err, MR_NOMEM, "no memory for the metrics");
    }
    metrics->info_labels = labels;
    init_histograms(metrics);
    *out = metrics;
    return MR_OK;
}

void mr_metrics_destroy(struct mr_metrics *metrics)
{
    if (!metrics) return;
    pthread_mutex_destroy(&metrics->lock);
    free(metrics->info_labels);
    free(metrics);
}

/* ---- feeding ---- */

void mr_metrics_add(struct mr_metrics *metrics, enum mr_counter counter, uint64_t count)
{
    MR_ASSERT((unsigned)counter < MR_COUNTER_COUNT);
    atomic_fetch_add_explicit(&metrics->counters[counter], count, memory_order_relaxed);
}

/* Requests that never ran have no times; counting them as zero would flatter every percentile. */
static void observe_times(struct mr_histogram *all, const struct mr_result *result,
                          double since_record_ms)
{
    double total_s = result->total_ms / 1e3, first_s = result->first_token_ms / 1e3;
    uint64_t generated = 0;
    for (size_t i = 0; i < result->choice_count; i++)
        generated += result->choices[i].completion_tokens;
    mr_histogram_observe(&all[REQUEST], total_s);
    mr_histogram_observe(&all[QUEUE], result->queue_ms / 1e3);
    mr_histogram_observe(&all[PROMPT_TOKENS], result->prompt_tokens);
    mr_histogram_observe(&all[GENERATION_TOKENS], (double)generated);
    if (generated == 0) return;
    mr_histogram_observe(&all[PREFILL], result->prefill_ms / 1e3);
    mr_histogram_observe(&all[DECODE], total_s - first_s);
    mr_histogram_observe(&all[FIRST_TOKEN_FROM_INTAKE], first_s);
    if (since_record_ms >= 0)
        mr_histogram_observe(&all[FIRST_TOKEN_FROM_RECORD], since_record_ms / 1e3);
}

void mr_metrics_observe_result(struct mr_metrics *metrics, const struct mr_result *result,
                               double since_record_ms)
{
    enum mr_finish finish = result->choices[0].finish;
    pthread_mutex_lock(&metrics->lock);
    metrics->finished[finish]++;
    if (result->error != MR_OK) metrics->rejected[result->error]++;
    if (finish != MR_FINISH_REJECTED) observe_times(metrics->histograms, result, since_record_ms);
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_observe_gap(struct mr_metrics *metrics, uint64_t gap_ns)
{
    pthread_mutex_lock(&metrics->lock);
    mr_histogram_observe(&metrics->histograms[GAP], (double)gap_ns / 1e9);
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_observe_publish_delay(struct mr_metrics *metrics, uint64_t delay_ns)
{
    pthread_mutex_lock(&metrics->lock);
    mr_histogram_observe(&metrics->histograms[PUBLISH_DELAY], (double)delay_ns / 1e9);
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_transaction_began(struct mr_metrics *metrics, uint32_t requests, uint64_t now_ns)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->transaction_ns = now_ns;
    metrics->transaction_requests = requests;
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_transaction_ended(struct mr_metrics *metrics, bool committed, uint64_t now_ns)
{
    mr_metrics_add(metrics, committed ? MR_COUNTER_TRANSACTIONS : MR_COUNTER_TRANSACTIONS_ABORTED,
                   1);
    pthread_mutex_lock(&metrics->lock);
    if (committed)
        mr_histogram_observe(&metrics->histograms[TRANSACTION],
                             (double)(now_ns - metrics->transaction_ns) / 1e9);
    metrics->transaction_ns = 0;
    metrics->transaction_requests = 0;
    pthread_mutex_unlock(&metrics->lock);
}

/* The partition's entry, else a free one (NULL when it must be there, or all are taken). */
static struct lag *find_lag(struct mr_metrics *metrics, const char *topic, int32_t partition,
                            bool add)
{
    struct lag *empty = NULL;
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++) {
        struct lag *lag = &metrics->lags[i];
        if (!lag->topic[0] && !empty) empty = lag;
        if (lag->partition == partition && strcmp(lag->topic, topic) == 0) return lag;
    }
    if (!add || !empty) return NULL;
    snprintf(empty->topic, sizeof empty->topic, "%s", topic);
    empty->partition = partition;
    return empty;
}

void mr_metrics_set_lag(struct mr_metrics *metrics, const char *topic, int32_t partition,
                        int64_t unread, int64_t uncommitted)
{
    pthread_mutex_lock(&metrics->lock);
    struct lag *lag = find_lag(metrics, topic, partition, true);
    if (lag) lag->unread = unread;
    if (lag) lag->uncommitted = uncommitted;
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_drop_lag(struct mr_metrics *metrics, const char *topic, int32_t partition)
{
    pthread_mutex_lock(&metrics->lock);
    struct lag *lag = find_lag(metrics, topic, partition, false);
    if (lag) *lag = (struct lag){0};
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- the page ---- */

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_value(FILE *out, const char *name, const char *type, const char *help, double value)
{
    put_head(out, name, type, help);
    fprintf(out, "%s %.17g\n", name, value);
}

static void put_counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    put_head(out, name, "counter", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void put_blocks(FILE *out, const struct mr_engine_stats *engine)
{
    static const char *const name = "millrace_kv_blocks";
    put_head(out, name, "gauge", "KV blocks by what they are");
    fprintf(out, "%s{state=\"free\"} %u\n", name, engine->blocks_free);
    fprintf(out, "%s{state=\"cached\"} %u\n", name, engine->blocks_cached);
    fprintf(out, "%s{state=\"held\"} %u\n", name, engine->blocks_held);
    double used = engine->blocks_total ? (double)engine->blocks_held / engine->blocks_total : 0;
    put_value(out, "millrace_kv_usage_ratio", "gauge", "Held KV blocks of all, 0 to 1", used);
}

static void put_prefix_cache(FILE *out, const struct mr_engine_stats *engine)
{
    put_head(out, "millrace_prefix_cache_queries_tokens_total", "counter",
             "Prompt tokens looked up in the prefix cache");
    fprintf(out, "millrace_prefix_cache_queries_tokens_total{tier=\"local\"} %" PRIu64 "\n",
            engine->prefix_queries_tokens);
    put_head(out, "millrace_prefix_cache_hits_tokens_total", "counter",
             "Prompt tokens found there");
    fprintf(out, "millrace_prefix_cache_hits_tokens_total{tier=\"local\"} %" PRIu64 "\n",
            engine->prefix_hit_tokens);
    put_counter(out, "millrace_prompt_cache_hits_total", "Prompts answered without the model",
                engine->prompt_cache_hits);
}

static void put_local_cache(FILE *out, const struct mr_engine_stats *engine)
{
    put_value(out, "millrace_kv_blocks_kept", "gauge", "Cached KV blocks kept for conversations",
              (double)engine->blocks_kept);
    put_counter(out, "millrace_kv_evictions_total", "Cached KV blocks taken for something else",
                engine->evictions);
    put_counter(out, "millrace_kv_copies_total", "KV blocks shared by copying their first tokens",
                engine->copies);
    put_value(out, "millrace_prompt_cache_entries", "gauge", "Complete prompts with their logits",
              engine->prompts.count);
    put_counter(out, "millrace_prompt_cache_misses_total", "Prompts not found among them",
                engine->prompts.misses);
    put_counter(out, "millrace_prompt_cache_evictions_total", "Entries that made room",
                engine->prompts.evictions);
    put_counter(out, "millrace_prompt_cache_expirations_total", "Entries unused for too long",
                engine->prompts.expirations);
}

static void put_shared_decisions(FILE *out, const struct mr_shared_cache_stats *shared)
{
    static const char *const name = "millrace_shared_cache_decisions_total";
    put_head(out, name, "counter", "Prefixes the shared cache has, by what was done about them");
    for (unsigned i = 0; i < MR_LOAD_VERDICT_COUNT; i++)
        fprintf(out, "%s{decision=\"%s\"} %" PRIu64 "\n", name,
                mr_load_verdict_name((enum mr_load_verdict)i), shared->decisions[i]);
}

static void put_shared_cache(FILE *out, const struct mr_engine_stats *engine)
{
    const struct mr_shared_cache_stats *shared = &engine->shared;
    const struct {
        const char *name, *help;
        uint64_t value;
    } counters[] = {
        {"asks_total", "Questions about prompts", shared->asks},
        {"asks_refused_total", "Questions it did not take", shared->asks_refused},
        {"hits_total", "Prompts of which something was there", shared->hits},
        {"asked_tokens_total", "Prompt tokens asked about", shared->asked_tokens},
        {"there_tokens_total", "Of these, said to be there", shared->there_tokens},
        {"loads_total", "Loads begun", shared->loads},
        {"loaded_tokens_total", "Tokens not computed thanks to loads", shared->loaded_tokens},
        {"loaded_entries_total", "Complete prompts loaded", shared->loaded_entries},
        {"loaded_bytes_total", "Bytes loaded", shared->loaded_bytes},
        {"missing_items_total", "Items gone between question and load", shared->missing_items},
        {"unused_items_total", "Items that came too late", shared->unused_items},
        {"holds_given_up_total", "Waits for loads that were given up", shared->holds_given_up},
        {"stored_items_total", "Items stored", shared->stored_items},
        {"stored_bytes_total", "Bytes stored", shared->stored_bytes},
        {"stores_refused_total", "Stores it did not take", shared->stores_refused},
        {"stores_lost_total", "Items taken and not stored", shared->stores_lost},
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        char name[64];
        snprintf(name, sizeof name, "millrace_shared_cache_%s", counters[i].name);
        put_counter(out, name, counters[i].help, counters[i].value);
    }
    put_shared_decisions(out, shared);
    put_value(out, "millrace_shared_cache_saved_seconds_total", "counter",
              "Computing time that loads promised to save", shared->saved_ms / 1e3);
    put_value(out, "millrace_shared_cache_import_seconds_total", "counter",
              "Engine time spent copying loaded blocks in", (double)shared->import_ns / 1e9);
    put_value(out, "millrace_shared_cache_export_seconds_total", "counter",
              "Engine time spent copying blocks out", (double)shared->export_ns / 1e9);
    put_value(out, "millrace_shared_cache_buffers_free", "gauge", "Staging buffers free",
              (double)shared->staging_free);
}

static void put_engine(FILE *out, const struct mr_engine_stats *engine)
{
    put_value(out, "millrace_requests_running", "gauge", "Sequences in the batch", engine->running);
    put_head(out, "millrace_requests_waiting", "gauge", "Requests that wait in this worker");
    fprintf(out, "millrace_requests_waiting{where=\"local\"} %u\n", engine->waiting);
    put_value(out, "millrace_requests_prefilling", "gauge", "Requests whose prompt is in chunks",
              engine->prefilling);
    put_blocks(out, engine);
    put_prefix_cache(out, engine);
    put_local_cache(out, engine);
    put_shared_cache(out, engine);
    put_counter(out, "millrace_prompt_tokens_total", "Prompt tokens computed",
                engine->prompt_tokens);
    put_counter(out, "millrace_generation_tokens_total", "Tokens generated",
                engine->generated_tokens);
    put_counter(out, "millrace_cached_tokens_total", "Prompt tokens taken from the cache",
                engine->cached_tokens);
    put_counter(out, "millrace_cached_tokens_redis_total", "Of these, from the shared cache",
                engine->cached_tokens_redis);
    put_counter(out, "millrace_preemptions_total", "Sequences put back for want of blocks",
                engine->preemptions);
    put_counter(out, "millrace_recomputed_tokens_total", "Tokens computed again after that",
                engine->recomputed_tokens);
    put_counter(out, "millrace_steps_total", "Engine steps", engine->steps);
    put_value(out, "millrace_model_seconds_total", "counter", "Time inside the model",
              (double)engine->model_ns / 1e9);
    put_value(out, "millrace_step_seconds_total", "counter", "Time inside steps",
              (double)engine->step_ns_total / 1e9);
}

static void put_finished(FILE *out, const struct mr_metrics *metrics)
{
    static const char *const name = "millrace_requests_finished_total";
    put_head(out, name, "counter", "Requests that ended, by finish reason");
    for (unsigned i = MR_FINISH_NONE + 1; i < MR_FINISH_COUNT; i++)
        fprintf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", name, mr_finish_text((enum mr_finish)i),
                metrics->finished[i]);
    put_head(out, "millrace_request_errors_total", "counter", "Results with an error, by status");
    for (unsigned i = MR_OK + 1; i < MR_STATUS_COUNT; i++)
        if (metrics->rejected[i])
            fprintf(out, "millrace_request_errors_total{code=\"%s\",status=\"%s\"} %" PRIu64 "\n",
                    mr_status_code((enum mr_status)i), mr_status_name((enum mr_status)i),
                    metrics->rejected[i]);
}

static void put_histograms(FILE *out, const struct mr_metrics *metrics)
{
    static const struct {
        const char *name, *labels, *help;
    } pages[HISTOGRAM_COUNT] = {
        [FIRST_TOKEN_FROM_INTAKE] = {"millrace_time_to_first_token_seconds", "from=\"intake\"",
                                     "Time to the first token"},
        [FIRST_TOKEN_FROM_RECORD] = {"millrace_time_to_first_token_seconds", "from=\"record\"",
                                     NULL},
        [GAP] = {"millrace_inter_token_latency_seconds", "", "Time between two tokens"},
        [PUBLISH_DELAY] = {"millrace_publish_delay_seconds", "",
                           "From the end of a step to its token records handed to the producer"},
        [TRANSACTION] = {"millrace_transaction_seconds", "", "Transactions that came through"},
        [REQUEST] = {"millrace_e2e_request_latency_seconds", "", "Time from intake to the result"},
        [QUEUE] = {"millrace_request_queue_time_seconds", "", "Time waiting in this worker"},
        [PREFILL] = {"millrace_request_prefill_time_seconds", "", "Time computing the prompt"},
        [DECODE] = {"millrace_request_decode_time_seconds", "", "Time from the first token on"},
        [PROMPT_TOKENS] = {"millrace_request_prompt_tokens", "", "Tokens of a prompt"},
        [GENERATION_TOKENS] = {"millrace_request_generation_tokens", "", "Tokens of an answer"},
    };
    for (unsigned i = 0; i < HISTOGRAM_COUNT; i++) {
        if (pages[i].help) put_head(out, pages[i].name, "histogram", pages[i].help);
        mr_histogram_print(&metrics->histograms[i], pages[i].name, pages[i].labels, out);
    }
}

static void put_lag(FILE *out, const char *name, const struct lag *lag, int64_t records)
{
    if (!lag->topic[0] || records < 0) return;
    fprintf(out, "%s{", name);
    put_label(out, "topic", lag->topic);
    fprintf(out, ",partition=\"%d\"} %" PRId64 "\n", lag->partition, records);
}

static void put_lags(FILE *out, const struct mr_metrics *metrics)
{
    put_head(out, "millrace_consumer_lag", "gauge", "Records not yet read");
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++)
        put_lag(out, "millrace_consumer_lag", &metrics->lags[i], metrics->lags[i].unread);
    put_head(out, "millrace_commit_lag_records", "gauge", "Records read but not committed");
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++)
        put_lag(out, "millrace_commit_lag_records", &metrics->lags[i],
                metrics->lags[i].uncommitted);
}

/* A reader of committed records waits for the oldest transaction under way. */
static void put_transaction(FILE *out, const struct mr_metrics *metrics)
{
    double age_s =
        metrics->transaction_ns ? (double)(mr_clock_ns() - metrics->transaction_ns) / 1e9 : 0;
    put_value(out, "millrace_transaction_age_seconds", "gauge",
              "Since the transaction under way began; 0 without one", age_s);
    put_value(out, "millrace_transaction_requests", "gauge", "Requests it ends",
              metrics->transaction_requests);
}

static void put_counters(FILE *out, struct mr_metrics *metrics)
{
    static const struct {
        const char *name, *help;
    } counters[] = {
#define X(name, text, help) {"millrace_" text "_total", help},
        MR_COUNTER_LIST(X)
#undef X
    };
    for (unsigned i = 0; i < MR_COUNTER_COUNT; i++)
        put_counter(out, counters[i].name, counters[i].help,
                    atomic_load_explicit(&metrics->counters[i], memory_order_relaxed));
}

static void put_info(FILE *out, const struct mr_metrics *metrics, bool ready)
{
    put_head(out, "millrace_build_info", "gauge", "The version");
    fprintf(out, "millrace_build_info{version=\"%s\"} 1\n", MR_VERSION);
    put_head(out, "millrace_model_info", "gauge", "What is served, and how");
    fprintf(out, "millrace_model_info{%s} 1\n", metrics->info_labels);
    put_value(out, "millrace_ready", "gauge", "1 when /readyz says so", ready);
}

enum mr_status mr_metrics_render(struct mr_metrics *metrics, const struct mr_engine_stats *engine,
                                 bool ready, char **text, size_t *length, struct mr_error *err)
{
    *text = NULL;
    *length = 0;
    FILE *out = open_memstream(text, length);
    if (!out) return mr_fail(err, MR_NOMEM, "no memory for the metrics page");
    put_info(out, metrics, ready);
    put_counters(out, metrics);
    if (engine) put_engine(out, engine);
    pthread_mutex_lock(&metrics->lock);
    put_finished(out, metrics);
    put_histograms(out, metrics);
    put_lags(out, metrics);
    put_transaction(out, metrics);
    pthread_mutex_unlock(&metrics->lock);
    if (fclose(out) == 0) return MR_OK;
    free(*text);
    *text = NULL;
    return mr_fail(err, MR_NOMEM, "no memory for the metrics page");
}
