#include "worker/metrics/metrics.h"

#include "codec/check.h"
#include "codec/histogram.h"
#include "worker/base/clock.h"
#include "worker/base/version.h"
#include "worker/metrics/engine_metrics.h"
#include "worker/metrics/metric_text.h"
#include "worker/metrics/process_metrics.h"

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

/* Upper bounds of the histograms, in seconds. */
static const double gap_bounds[] = {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                    .4,   .5,    .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
static const double delay_bounds[] = {.0001, .00025, .0005, .001, .0025, .005,
                                      .01,   .025,   .05,   .1,   1};
static const double transaction_bounds[] = {.005, .01, .02, .04, .06, .08, .1, .15, .25,
                                            .5,   1,   2.5, 5,   10,  30,  60, 120};
/* X(enum, name, bounds, HELP): one Prometheus histogram. */
#define HISTOGRAM_LIST(X)                                                                          \
    X(GAP, "inter_token_latency_seconds", gap_bounds,                                              \
      "Time between two consecutive tokens of an answer.")                                         \
    X(PUBLISH_DELAY, "publish_delay_seconds", delay_bounds,                                        \
      "Time from the end of an engine step until its token records are in the producer's queue.")  \
    X(TRANSACTION, "transaction_seconds", transaction_bounds,                                      \
      "Duration of a committed Kafka transaction (exactly-once delivery).")

enum histogram_name {
#define X(name, text, bounds, help) name,
    HISTOGRAM_LIST(X)
#undef X
        HISTOGRAM_COUNT
};

static const struct {
    const char *name, *help;
    const double *bounds;
    uint32_t bound_count;
} histogram_table[HISTOGRAM_COUNT] = {
#define X(name, text, bounds, help) {"millrace_" text, help, bounds, COUNT_OF(bounds)},
    HISTOGRAM_LIST(X)
#undef X
};

/* ---- state ---- */

struct lag {
    char topic[TOPIC_BYTES_MAX]; /* "": this element is unused */
    int32_t partition;
    int64_t unread, uncommitted;
};

/* State under the lock. The page is printed from a copy, because publish takes the lock for every
 * token record and must not wait for a whole page. */
struct measured {
    struct mr_request_metrics *requests;
    struct mr_histogram histograms[HISTOGRAM_COUNT];
    struct lag lags[MR_METRICS_PARTITIONS_MAX];
    uint64_t transaction_ns; /* when the open Kafka transaction began; 0: none is open */
    /* number of requests whose results are in the open transaction */
    uint32_t transaction_requests;
};

struct mr_metrics {
    char *info_labels;
    const char *kafka_version;
    _Atomic uint64_t counters[MR_COUNTER_COUNT];
    pthread_mutex_t lock;
    struct measured measured; /* under lock */
};

/* ---- create and destroy ---- */

static char *make_info_labels(const struct mr_metrics_info *info)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    mr_metric_put_label(out, "worker", info->worker);
    fputc(',', out);
    mr_metric_put_label(out, "model", info->model);
    fputc(',', out);
    mr_metric_put_label(out, "dtype", info->dtype);
    fputc(',', out);
    mr_metric_put_label(out, "device", info->device);
    fprintf(out, ",block_tokens=\"%u\",context_tokens=\"%u\",max_sequences=\"%u\"",
            info->block_tokens, info->context_tokens, info->sequences_max);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

static void init_histograms(struct mr_metrics *metrics)
{
    for (unsigned i = 0; i < HISTOGRAM_COUNT; i++) {
        struct mr_histogram *histogram = &metrics->measured.histograms[i];
        mr_histogram_init(histogram, histogram_table[i].bounds, histogram_table[i].bound_count);
        mr_histogram_check(histogram);
    }
}

enum mr_status mr_metrics_create(struct mr_metrics **out, const struct mr_metrics_info *info,
                                 struct mr_error *err)
{
    *out = NULL;
    struct mr_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics) return mr_fail(err, MR_NOMEM, "no memory for the metrics");
    enum mr_status status = mr_request_metrics_create(&metrics->measured.requests, info->topics,
                                                      info->topic_count, err);
    if (status != MR_OK) goto fail;
    metrics->info_labels = make_info_labels(info);
    if (!metrics->info_labels || pthread_mutex_init(&metrics->lock, NULL) != 0) {
        status = mr_fail(err, MR_NOMEM, "no memory for the metrics");
        goto fail;
    }
    metrics->kafka_version = info->kafka_version;
    init_histograms(metrics);
    *out = metrics;
    return MR_OK;
fail:
    free(metrics->info_labels);
    mr_request_metrics_destroy(metrics->measured.requests);
    free(metrics);
    return status;
}

void mr_metrics_destroy(struct mr_metrics *metrics)
{
    if (!metrics) return;
    pthread_mutex_destroy(&metrics->lock);
    mr_request_metrics_destroy(metrics->measured.requests);
    free(metrics->info_labels);
    free(metrics);
}

/* ---- updates ---- */

void mr_metrics_add(struct mr_metrics *metrics, enum mr_counter counter, uint64_t count)
{
    MR_ASSERT((unsigned)counter < MR_COUNTER_COUNT);
    atomic_fetch_add_explicit(&metrics->counters[counter], count, memory_order_relaxed);
}

void mr_metrics_count_end(struct mr_metrics *metrics, size_t topic_index,
                          const struct mr_request_end *end)
{
    pthread_mutex_lock(&metrics->lock);
    mr_request_metrics_count_end(metrics->measured.requests, topic_index, end);
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_observe_result(struct mr_metrics *metrics, size_t topic_index,
                               const struct mr_result *result, double since_record_ms)
{
    pthread_mutex_lock(&metrics->lock);
    mr_request_metrics_observe(metrics->measured.requests, topic_index, result, since_record_ms);
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_observe_gap(struct mr_metrics *metrics, uint64_t gap_ns)
{
    pthread_mutex_lock(&metrics->lock);
    mr_histogram_observe(&metrics->measured.histograms[GAP], (double)gap_ns / 1e9);
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_observe_publish_delay(struct mr_metrics *metrics, uint64_t delay_ns)
{
    pthread_mutex_lock(&metrics->lock);
    mr_histogram_observe(&metrics->measured.histograms[PUBLISH_DELAY], (double)delay_ns / 1e9);
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_transaction_began(struct mr_metrics *metrics, uint32_t requests, uint64_t now_ns)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->measured.transaction_ns = now_ns;
    metrics->measured.transaction_requests = requests;
    pthread_mutex_unlock(&metrics->lock);
}

void mr_metrics_transaction_ended(struct mr_metrics *metrics, bool committed, uint64_t now_ns)
{
    mr_metrics_add(metrics, committed ? MR_COUNTER_TRANSACTIONS : MR_COUNTER_TRANSACTIONS_ABORTED,
                   1);
    pthread_mutex_lock(&metrics->lock);
    if (committed)
        mr_histogram_observe(&metrics->measured.histograms[TRANSACTION],
                             (double)(now_ns - metrics->measured.transaction_ns) / 1e9);
    metrics->measured.transaction_ns = 0;
    metrics->measured.transaction_requests = 0;
    pthread_mutex_unlock(&metrics->lock);
}

/* Returns the lag of a partition; if it is not in the table and `add` is true, adds it. NULL: not
 * in the table, or the table is full. */
static struct lag *find_lag(struct mr_metrics *metrics, const char *topic, int32_t partition,
                            bool add)
{
    struct lag *empty = NULL;
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++) {
        struct lag *lag = &metrics->measured.lags[i];
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

/* NULL: out of memory. */
static struct measured *copy_measured(struct mr_metrics *metrics)
{
    struct measured *copy = malloc(sizeof *copy);
    if (!copy) return NULL;
    pthread_mutex_lock(&metrics->lock);
    *copy = metrics->measured;
    copy->requests = mr_request_metrics_copy(metrics->measured.requests);
    pthread_mutex_unlock(&metrics->lock);
    if (copy->requests) return copy;
    free(copy);
    return NULL;
}

static void free_copy(struct measured *copy)
{
    if (copy) free(copy->requests);
    free(copy);
}

static void put_histograms(FILE *out, const struct measured *measured)
{
    for (unsigned i = 0; i < HISTOGRAM_COUNT; i++) {
        const char *name = histogram_table[i].name;
        mr_metric_put_head(out, name, "histogram", histogram_table[i].help);
        mr_metric_put_histogram(&measured->histograms[i], name, "", out);
    }
}

static void put_lag(FILE *out, const char *name, const struct lag *lag, int64_t records)
{
    if (!lag->topic[0] || records < 0) return;
    fprintf(out, "%s{", name);
    mr_metric_put_label(out, "topic", lag->topic);
    fprintf(out, ",partition=\"%d\"} %" PRId64 "\n", lag->partition, records);
}

static void put_lags(FILE *out, const struct measured *measured)
{
    mr_metric_put_head(out, "millrace_consumer_lag", "gauge",
                       "Records of a request partition that this worker has not read.");
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++)
        put_lag(out, "millrace_consumer_lag", &measured->lags[i], measured->lags[i].unread);
    mr_metric_put_head(
        out, "millrace_commit_lag_records", "gauge",
        "Records of a request partition that are read but whose offset is not committed.");
    for (size_t i = 0; i < MR_METRICS_PARTITIONS_MAX; i++)
        put_lag(out, "millrace_commit_lag_records", &measured->lags[i],
                measured->lags[i].uncommitted);
}

/* Prints age and requests of the open Kafka transaction. Consumers that read only committed records
 * wait for its end. */
static void put_transaction(FILE *out, const struct measured *measured)
{
    double age_s =
        measured->transaction_ns ? (double)(mr_clock_ns() - measured->transaction_ns) / 1e9 : 0;
    mr_metric_put_value(out, "millrace_transaction_age_seconds", "gauge",
                        "Age of the open Kafka transaction; 0 when none is open.", age_s);
    mr_metric_put_value(out, "millrace_transaction_requests", "gauge",
                        "Requests whose results are in the open Kafka transaction.",
                        measured->transaction_requests);
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
        mr_metric_put_head(out, table[i].name, "counter", table[i].help);
        fprintf(out, "%s %" PRIu64 "\n", table[i].name,
                atomic_load_explicit(&metrics->counters[i], memory_order_relaxed));
    }
}

static void put_info(FILE *out, const struct mr_metrics *metrics)
{
    mr_metric_put_head(out, "millrace_build_info", "gauge",
                       "Versions of this program and of its Kafka client, in the labels.");
    fprintf(out, "millrace_build_info{version=\"%s\",librdkafka=\"%s\"} 1\n", mr_version,
            metrics->kafka_version);
    mr_metric_put_head(out, "millrace_model_info", "gauge",
                       "Model, device and limits of this worker, in the labels.");
    fprintf(out, "millrace_model_info{%s} 1\n", metrics->info_labels);
}

static void put_gauges(FILE *out, const struct mr_metrics_gauges *gauges)
{
    mr_metric_put_value(out, "millrace_ready", "gauge",
                        "1 when this worker takes requests, 0 while it starts or drains.",
                        gauges->ready);
    mr_metric_put_value(out, "millrace_requests_in_flight", "gauge",
                        "Request records taken and not yet answered: parked, waiting, running, or "
                        "with a result that Kafka has not acknowledged.",
                        gauges->in_flight);
    mr_metric_put_value(out, "millrace_requests_parked", "gauge",
                        "Requests that wait in intake: for Redis, for room in the engine, for a "
                        "request with the same id, or as a suspect.",
                        gauges->parked);
    mr_metric_put_value(out, "millrace_records_unacknowledged", "gauge",
                        "Records in the Kafka producer that the broker has not acknowledged.",
                        gauges->unacknowledged);
    mr_metric_put_head(out, "millrace_mailbox_messages", "gauge",
                       "Messages in the mailbox of a thread, by thread.");
    fprintf(out, "millrace_mailbox_messages{thread=\"intake\"} %zu\n", gauges->intake_mail);
    fprintf(out, "millrace_mailbox_messages{thread=\"publish\"} %zu\n", gauges->publish_mail);
}

static void put_memory(FILE *out, const struct mr_metrics_gauges *gauges)
{
    static const char name[] = "millrace_model_memory_bytes";
    mr_metric_put_head(out, name, "gauge",
                       "Memory of the model on its device (label device of millrace_model_info): "
                       "weights, KV pool, buffers of a step.");
    fprintf(out, "%s{part=\"weights\"} %" PRIu64 "\n", name, gauges->weight_bytes);
    fprintf(out, "%s{part=\"kv_pool\"} %" PRIu64 "\n", name, gauges->kv_pool_bytes);
    fprintf(out, "%s{part=\"step\"} %" PRIu64 "\n", name, gauges->activation_bytes);
}

enum mr_status mr_metrics_render(struct mr_metrics *metrics, const struct mr_metrics_gauges *gauges,
                                 char **text, size_t *length, struct mr_error *err)
{
    *text = NULL;
    *length = 0;
    struct measured *measured = copy_measured(metrics);
    FILE *out = measured ? open_memstream(text, length) : NULL;
    if (!out) {
        free_copy(measured);
        return mr_fail(err, MR_NOMEM, "no memory for the metrics page");
    }
    put_info(out, metrics);
    put_gauges(out, gauges);
    put_memory(out, gauges);
    put_counters(out, metrics);
    if (gauges->engine) mr_engine_metrics_print(gauges->engine, out);
    mr_request_metrics_print(measured->requests, out);
    put_histograms(out, measured);
    put_lags(out, measured);
    put_transaction(out, measured);
    mr_process_metrics_print(out);
    free_copy(measured);
    if (fclose(out) == 0) return MR_OK;
    free(*text);
    *text = NULL;
    return mr_fail(err, MR_NOMEM, "no memory for the metrics page");
}
