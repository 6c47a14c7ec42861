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

/* ---- what is measured ---- */

/* Upper bounds of the histograms, in seconds or tokens: equal to those of vLLM, so that dashboards
 * made for vLLM work. */
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

/* X(enum, name, labels, bounds, HELP): one Prometheus histogram. HELP "": the previous row has the
 * same name and the HELP text. */
#define HISTOGRAM_LIST(X)                                                                          \
    X(FIRST_TOKEN_FROM_INTAKE, "time_to_first_token_seconds", "from=\"intake\"",                   \
      first_token_bounds,                                                                          \
      "Time until the first token of a request: from its intake by this worker, and from the "     \
      "timestamp of its record.")                                                                  \
    X(FIRST_TOKEN_FROM_RECORD, "time_to_first_token_seconds", "from=\"record\"",                   \
      first_token_bounds, "")                                                                      \
    X(GAP, "inter_token_latency_seconds", "", gap_bounds,                                          \
      "Time between two consecutive tokens of an answer.")                                         \
    X(PUBLISH_DELAY, "publish_delay_seconds", "", delay_bounds,                                    \
      "Time from the end of an engine step until its token records are in the producer's queue.")  \
    X(TRANSACTION, "transaction_seconds", "", transaction_bounds,                                  \
      "Duration of a committed Kafka transaction (exactly-once delivery).")                        \
    X(REQUEST, "e2e_request_latency_seconds", "", request_bounds,                                  \
      "Time from the intake of a request by this worker to its result.")                           \
    X(QUEUE, "request_queue_time_seconds", "", request_bounds,                                     \
      "Time that a request waits in this worker before it runs.")                                  \
    X(PREFILL, "request_prefill_time_seconds", "", request_bounds,                                 \
      "Time from the start of a request to the end of its prompt computation.")                    \
    X(DECODE, "request_decode_time_seconds", "", request_bounds,                                   \
      "Time from the first token of a request to its result.")                                     \
    X(PROMPT_TOKENS, "request_prompt_tokens", "", token_bounds, "Prompt tokens of a request.")     \
    X(GENERATION_TOKENS, "request_generation_tokens", "", token_bounds,                            \
      "Generated tokens of a request, over all choices.")

enum histogram_name {
#define X(name, text, labels, bounds, help) name,
    HISTOGRAM_LIST(X)
#undef X
        HISTOGRAM_COUNT
};

static const struct {
    const char *name, *labels, *help;
    const double *bounds;
    uint32_t bound_count;
} histogram_table[HISTOGRAM_COUNT] = {
#define X(name, text, labels, bounds, help)                                                        \
    {"millrace_" text, labels, help, bounds, COUNT_OF(bounds)},
    HISTOGRAM_LIST(X)
#undef X
};

enum field_type { FIELD_U32, FIELD_U64, FIELD_DOUBLE };

/* clang-format off */
/* The initializers for field_type and offset of one field of struct mr_engine_stats. */
#define FIELD(field)                                                                               \
    _Generic(((struct mr_engine_stats *)0)->field,                                                 \
             uint32_t: FIELD_U32, uint64_t: FIELD_U64, double: FIELD_DOUBLE),                      \
    offsetof(struct mr_engine_stats, field)

static const struct engine_metric {
    const char *name, *labels, *type;
    enum field_type field_type;
    size_t offset;
    double divisor; /* the field is divided by this to get seconds; 0: the field is a count */
    /* Prometheus HELP text; "": the previous row has the same name and the HELP text */
    const char *help;
} engine_table[] = {
    {"requests_running", "", "gauge", FIELD(running), 0,
     "Sequences in the running batch."},
    {"requests_waiting", "where=\"local\"", "gauge", FIELD(waiting), 0,
     "Requests that wait in this worker for the engine; further ones wait in Kafka."},
    {"requests_prefilling", "", "gauge", FIELD(prefilling), 0,
     "Requests whose prompt is being computed in chunks."},
    {"kv_blocks", "state=\"free\"", "gauge", FIELD(cache.free_count), 0,
     "KV blocks: free (empty), cached (reusable, evicted when needed) or held (in use by requests)."},
    {"kv_blocks", "state=\"cached\"", "gauge", FIELD(cache.cached_count), 0, ""},
    {"kv_blocks", "state=\"held\"", "gauge", FIELD(cache.held_count), 0, ""},
    {"kv_blocks_kept", "", "gauge", FIELD(cache.kept_count), 0,
     "Cached KV blocks of sessions, which are evicted after all other cached blocks."},
    {"kv_evictions_total", "", "counter", FIELD(cache.evictions), 0,
     "Cached KV blocks evicted to make room for other tokens."},
    {"kv_copies_total", "", "counter", FIELD(cache.copies), 0,
     "KV blocks whose first tokens were copied because a prompt shared only those with a cached block."},
    {"prefix_cache_queries_tokens_total", "tier=\"local\"", "counter", FIELD(cache.queries_tokens), 0,
     "Prompt tokens looked up in the local prefix cache."},
    {"prefix_cache_hits_tokens_total", "tier=\"local\"", "counter", FIELD(cache.hit_tokens), 0,
     "Prompt tokens found in the local prefix cache."},
    {"prompt_cache_hits_total", "", "counter", FIELD(prompt_cache_hits), 0,
     "Prompts found whole in the complete-prompt cache, so that nothing of them was computed."},
    {"prompt_cache_misses_total", "", "counter", FIELD(prompts.misses), 0,
     "Prompts not found in the complete-prompt cache."},
    {"prompt_cache_entries", "", "gauge", FIELD(prompts.count), 0,
     "Entries in the complete-prompt cache."},
    {"prompt_cache_evictions_total", "", "counter", FIELD(prompts.evictions), 0,
     "Complete-prompt entries evicted to make room for others."},
    {"prompt_cache_expirations_total", "", "counter", FIELD(prompts.expirations), 0,
     "Complete-prompt entries removed because they were unused for --prompt-entry-ttl."},
    {"shared_cache_asks_total", "", "counter", FIELD(shared.lookups), 0,
     "Prompts looked up in Redis."},
    {"shared_cache_asks_refused_total", "", "counter", FIELD(shared.lookups_refused), 0,
     "Prompt lookups that were not sent to Redis because its queue was full or it was unreachable."},
    {"shared_cache_hits_total", "", "counter", FIELD(shared.hits), 0,
     "Prompts of which Redis had at least one block."},
    {"shared_cache_asked_tokens_total", "", "counter", FIELD(shared.lookup_tokens), 0,
     "Prompt tokens looked up in Redis."},
    {"shared_cache_there_tokens_total", "", "counter", FIELD(shared.found_tokens), 0,
     "Prompt tokens that a lookup reported to be in Redis."},
    {"shared_cache_loads_total", "", "counter", FIELD(shared.loads), 0,
     "Loads of KV blocks from Redis that were started, one per request."},
    {"shared_cache_loaded_tokens_total", "", "counter", FIELD(shared.loaded_tokens), 0,
     "Prompt tokens that were loaded from Redis instead of computed."},
    {"shared_cache_loaded_entries_total", "", "counter", FIELD(shared.loaded_entries), 0,
     "Complete prompts (KV and logits) loaded from Redis."},
    {"shared_cache_loaded_bytes_total", "", "counter", FIELD(shared.loaded_bytes), 0,
     "Bytes of KV blocks loaded from Redis."},
    {"shared_cache_missing_items_total", "", "counter", FIELD(shared.missing_items), 0,
     "Blocks that a lookup found in Redis and the load did not, for instance because Redis evicted them."},
    {"shared_cache_unused_items_total", "", "counter", FIELD(shared.unused_items), 0,
     "Blocks that arrived from Redis after the worker had computed them itself or ended the request."},
    {"shared_cache_holds_given_up_total", "", "counter", FIELD(shared.waits_ended), 0,
     "Requests that stopped waiting for a load from Redis and computed the rest of the prompt."},
    {"shared_cache_stored_items_total", "", "counter", FIELD(shared.stored_items), 0,
     "Blocks stored in Redis."},
    {"shared_cache_stored_bytes_total", "", "counter", FIELD(shared.stored_bytes), 0,
     "Bytes of KV blocks stored in Redis."},
    {"shared_cache_stores_refused_total", "", "counter", FIELD(shared.stores_refused), 0,
     "Stores that were not sent to Redis because its queue was full or it was unreachable."},
    {"shared_cache_stores_lost_total", "", "counter", FIELD(shared.stores_lost), 0,
     "Blocks that were queued for Redis and not stored."},
    {"shared_cache_saved_seconds_total", "", "counter", FIELD(shared.saved_ms), 1e3,
     "Predicted computing time that loads from Redis saved."},
    {"shared_cache_import_seconds_total", "", "counter", FIELD(shared.import_ns), 1e9,
     "Engine time spent copying blocks loaded from Redis into the KV pool."},
    {"shared_cache_export_seconds_total", "", "counter", FIELD(shared.export_ns), 1e9,
     "Engine time spent copying blocks to be stored in Redis out of the KV pool."},
    {"shared_cache_buffers_free", "", "gauge", FIELD(shared.staging_free), 0,
     "Free staging buffers between the KV pool and the connections to Redis."},
    {"prompt_tokens_total", "", "counter", FIELD(prompt_tokens), 0,
     "Prompt tokens computed by the model; cached tokens are not among them."},
    {"generation_tokens_total", "", "counter", FIELD(generated_tokens), 0,
     "Tokens generated."},
    {"cached_tokens_total", "", "counter", FIELD(cached_tokens), 0,
     "Prompt tokens served from a cache, local or Redis, instead of computed."},
    {"cached_tokens_redis_total", "", "counter", FIELD(cached_tokens_redis), 0,
     "Prompt tokens served from Redis instead of computed."},
    {"preemptions_total", "", "counter", FIELD(preemptions), 0,
     "Running sequences put back into the queue because the KV pool was full."},
    {"recomputed_tokens_total", "", "counter", FIELD(recomputed_tokens), 0,
     "Tokens computed again after a preemption."},
    {"steps_total", "", "counter", FIELD(steps), 0,
     "Engine steps."},
    {"model_seconds_total", "", "counter", FIELD(model_ns), 1e9,
     "Time spent inside the model."},
    {"step_seconds_total", "", "counter", FIELD(step_ns_total), 1e9,
     "Time spent in engine steps, the model included."},
};
/* clang-format on */

/* ---- state ---- */

struct lag {
    char topic[TOPIC_BYTES_MAX]; /* "": this element is unused */
    int32_t partition;
    int64_t unread, uncommitted;
};

struct mr_metrics {
    pthread_mutex_t lock; /* protects all fields except info_labels and the counters */
    char *info_labels;
    _Atomic uint64_t counters[MR_COUNTER_COUNT];
    uint64_t finished[MR_FINISH_COUNT];
    uint64_t rejected[MR_STATUS_COUNT];
    struct mr_histogram histograms[HISTOGRAM_COUNT];
    struct lag lags[MR_METRICS_PARTITIONS_MAX];
    uint64_t transaction_ns; /* when the open Kafka transaction began; 0: none is open */
    /* number of requests whose results are in the open transaction */
    uint32_t transaction_requests;
};

/* ---- create and destroy ---- */

/* Prints one Prometheus label, name="value", with backslash, quote and line feed escaped. */
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
    for (unsigned i = 0; i < HISTOGRAM_COUNT; i++) {
        struct mr_histogram *histogram = &metrics->histograms[i];
        mr_histogram_init(histogram, histogram_table[i].bounds, histogram_table[i].bound_count);
        mr_histogram_check(histogram);
    }
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

/* ---- updates ---- */

void mr_metrics_add(struct mr_metrics *metrics, enum mr_counter counter, uint64_t count)
{
    MR_ASSERT((unsigned)counter < MR_COUNTER_COUNT);
    atomic_fetch_add_explicit(&metrics->counters[counter], count, memory_order_relaxed);
}

/* A request that generated nothing has no token times; counting them as zero would flatter every
 * percentile. */
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

/* Returns the lag of a partition; if it is not in the table and `add` is true, adds it. NULL: not
 * in the table, or the table is full. */
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

static void put_engine_metric(FILE *out, const struct engine_metric *metric,
                              const struct mr_engine_stats *engine)
{
    const char *field = (const char *)engine + metric->offset;
    char name[80];
    snprintf(name, sizeof name, "millrace_%s", metric->name);
    if (metric->help[0]) put_head(out, name, metric->type, metric->help);
    fprintf(out, metric->labels[0] ? "%s{%s} " : "%s%s ", name, metric->labels);
    if (metric->field_type == FIELD_DOUBLE)
        fprintf(out, "%.17g\n", *(const double *)field / metric->divisor);
    else {
        uint64_t count =
            metric->field_type == FIELD_U32 ? *(const uint32_t *)field : *(const uint64_t *)field;
        if (metric->divisor > 0)
            fprintf(out, "%.17g\n", (double)count / metric->divisor);
        else
            fprintf(out, "%" PRIu64 "\n", count);
    }
}

static void put_shared_decisions(FILE *out, const struct mr_shared_cache_stats *shared)
{
    static const char *const name = "millrace_shared_cache_decisions_total";
    put_head(out, name, "counter",
             "Prompts of which Redis has blocks, by the decision whether to load or to compute.");
    for (unsigned i = 0; i < MR_LOAD_VERDICT_COUNT; i++)
        fprintf(out, "%s{decision=\"%s\"} %" PRIu64 "\n", name,
                mr_load_verdict_name((enum mr_load_verdict)i), shared->decisions[i]);
}

static void put_engine(FILE *out, const struct mr_engine_stats *engine)
{
    for (size_t i = 0; i < COUNT_OF(engine_table); i++)
        put_engine_metric(out, &engine_table[i], engine);
    double used = engine->cache.block_count
                      ? (double)engine->cache.held_count / engine->cache.block_count
                      : 0;
    put_value(out, "millrace_kv_usage_ratio", "gauge",
              "Share of the KV blocks that running requests hold, 0 to 1.", used);
    put_shared_decisions(out, &engine->shared);
}

static void put_finished(FILE *out, const struct mr_metrics *metrics)
{
    static const char *const name = "millrace_requests_finished_total";
    put_head(out, name, "counter", "Requests that ended, by finish reason.");
    for (unsigned i = MR_FINISH_NONE + 1; i < MR_FINISH_COUNT; i++)
        fprintf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", name, mr_finish_text((enum mr_finish)i),
                metrics->finished[i]);
    put_head(out, "millrace_request_errors_total", "counter",
             "Results with an error, by error code and internal status.");
    for (unsigned i = MR_OK + 1; i < MR_STATUS_COUNT; i++)
        if (metrics->rejected[i])
            fprintf(out, "millrace_request_errors_total{code=\"%s\",status=\"%s\"} %" PRIu64 "\n",
                    mr_status_code((enum mr_status)i), mr_status_name((enum mr_status)i),
                    metrics->rejected[i]);
}

static void put_histograms(FILE *out, const struct mr_metrics *metrics)
{
    for (unsigned i = 0; i < HISTOGRAM_COUNT; i++) {
        const char *name = histogram_table[i].name;
        if (histogram_table[i].help[0]) put_head(out, name, "histogram", histogram_table[i].help);
        mr_histogram_print(&metrics->histograms[i], name, histogram_table[i].labels, out);
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
    put_head(out, "millrace_consumer_lag", "gauge",
             "Records of a request partition that this worker has not read yet.");
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++)
        put_lag(out, "millrace_consumer_lag", &metrics->lags[i], metrics->lags[i].unread);
    put_head(out, "millrace_commit_lag_records", "gauge",
             "Records of a request partition that are read and whose offset is not committed yet.");
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++)
        put_lag(out, "millrace_commit_lag_records", &metrics->lags[i],
                metrics->lags[i].uncommitted);
}

/* Prints how long the open Kafka transaction lasts and how many requests it has: consumers that
 * read only committed records wait for its end. */
static void put_transaction(FILE *out, const struct mr_metrics *metrics)
{
    double age_s =
        metrics->transaction_ns ? (double)(mr_clock_ns() - metrics->transaction_ns) / 1e9 : 0;
    put_value(out, "millrace_transaction_age_seconds", "gauge",
              "Age of the open Kafka transaction; 0 when none is open.", age_s);
    put_value(out, "millrace_transaction_requests", "gauge",
              "Requests whose results are in the open Kafka transaction.",
              metrics->transaction_requests);
}

static void put_counters(FILE *out, struct mr_metrics *metrics)
{
    static const struct {
        const char *name, *help;
    } table[MR_COUNTER_COUNT] = {
#define X(name, text, help) {"millrace_" text "_total", help},
        MR_COUNTER_LIST(X)
#undef X
    };
    for (unsigned i = 0; i < MR_COUNTER_COUNT; i++) {
        put_head(out, table[i].name, "counter", table[i].help);
        fprintf(out, "%s %" PRIu64 "\n", table[i].name,
                atomic_load_explicit(&metrics->counters[i], memory_order_relaxed));
    }
}

static void put_info(FILE *out, const struct mr_metrics *metrics, bool ready)
{
    put_head(out, "millrace_build_info", "gauge", "Version of this program, in the label.");
    fprintf(out, "millrace_build_info{version=\"%s\"} 1\n", MR_VERSION);
    put_head(out, "millrace_model_info", "gauge",
             "Model, device and limits of this worker, in the labels.");
    fprintf(out, "millrace_model_info{%s} 1\n", metrics->info_labels);
    put_value(out, "millrace_ready", "gauge",
              "1 when this worker takes requests, 0 while it starts or drains.", ready);
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
