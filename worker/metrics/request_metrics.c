#include "worker/metrics/request_metrics.h"

#include "codec/check.h"
#include "codec/histogram.h"
#include "worker/metrics/metric_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* room for a topic name of 249 bytes, all of them escaped, and the label `from` */
#define LABEL_BYTES_MAX ((size_t)640)
#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* ---- what is measured ---- */

/* Upper bounds of the histograms, in seconds or tokens: equal to those of vLLM, where vLLM has the
 * metric, so that dashboards made for vLLM work. */
static const double first_token_bounds[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                            .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                            20,   40,   80,  160, 640, 2560};
static const double request_bounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                        30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double margin_bounds[] = {-60, -10, -1, -.1, 0,  .1,  .25, .5,  1,
                                       2.5, 5,   10, 30,  60, 300, 960, 3600};
static const double token_bounds[] = {1,   2,   5,   10,  20,  50,  100, 200,
                                      500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5};

/* X(enum, name, label, bounds, HELP): one Prometheus histogram for each topic. HELP "": the
 * previous row has the same name and the HELP text. */
#define HISTOGRAM_LIST(X)                                                                          \
    X(FIRST_TOKEN_FROM_INTAKE, "time_to_first_token_seconds", "from=\"intake\",",                  \
      first_token_bounds,                                                                          \
      "Time until the first token of a request, since its intake by this worker or since the "     \
      "timestamp of its record.")                                                                  \
    X(FIRST_TOKEN_FROM_RECORD, "time_to_first_token_seconds", "from=\"record\",",                  \
      first_token_bounds, "")                                                                      \
    X(REQUEST, "e2e_request_latency_seconds", "", request_bounds,                                  \
      "Time from the intake of a request by this worker to its result.")                           \
    X(QUEUE, "request_queue_time_seconds", "", request_bounds,                                     \
      "Time that a request waits in this worker before it runs.")                                  \
    X(MARGIN, "request_deadline_margin_seconds", "", margin_bounds,                                \
      "Time left until the deadline when a request with a deadline ended; negative: the deadline " \
      "had passed.")                                                                               \
    X(PREFILL, "request_prefill_time_seconds", "", request_bounds,                                 \
      "Time from the start of a request to the end of its prompt computation.")                    \
    X(DECODE, "request_decode_time_seconds", "", request_bounds,                                   \
      "Time from the first token of a request to its result.")                                     \
    X(PROMPT_TOKENS, "request_prompt_tokens", "", token_bounds, "Prompt tokens of a request.")     \
    X(GENERATION_TOKENS, "request_generation_tokens", "", token_bounds,                            \
      "Generated tokens of a request, over all choices.")

enum histogram_name {
#define X(name, text, label, bounds, help) name,
    HISTOGRAM_LIST(X)
#undef X
        HISTOGRAM_COUNT
};

static const struct {
    const char *name, *label, *help;
    const double *bounds;
    uint32_t bound_count;
} histogram_table[HISTOGRAM_COUNT] = {
#define X(name, text, label, bounds, help)                                                         \
    {"millrace_" text, label, help, bounds, COUNT_OF(bounds)},
    HISTOGRAM_LIST(X)
#undef X
};

/* The reasons are the finish reasons of the contract, and `duplicate`. */
#define DUPLICATE    MR_FINISH_COUNT
#define REASON_COUNT (MR_FINISH_COUNT + 1)

struct topic {
    char *name_label, *labels; /* topic="…", and the same with tenant="…" */
    uint64_t ends[REASON_COUNT][MR_STATUS_COUNT];
    struct mr_histogram histograms[HISTOGRAM_COUNT];
};

struct mr_request_metrics {
    size_t topic_count;
    struct topic topics[]; /* [topic_count], in the order of the configuration */
};

/* ---- create and destroy ---- */

static char *make_labels(const struct mr_request_topic *topic, bool tenant)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    mr_metric_put_label(out, "topic", topic->name);
    if (tenant) fputc(',', out);
    if (tenant) mr_metric_put_label(out, "tenant", topic->tenant);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

enum mr_status mr_request_metrics_create(struct mr_request_metrics **out,
                                         const struct mr_request_topic *topics, size_t topic_count,
                                         struct mr_error *err)
{
    *out = NULL;
    MR_ASSERT(topic_count > 0 && topic_count <= MR_LIST_MAX);
    struct mr_request_metrics *requests =
        calloc(1, sizeof *requests + topic_count * sizeof requests->topics[0]);
    bool made = requests != NULL;
    if (made) requests->topic_count = topic_count;
    for (size_t i = 0; made && i < topic_count; i++) {
        struct topic *topic = &requests->topics[i];
        topic->name_label = make_labels(&topics[i], false);
        topic->labels = make_labels(&topics[i], true);
        made = topic->name_label && topic->labels;
        for (unsigned each = 0; each < HISTOGRAM_COUNT; each++)
            mr_histogram_init(&topic->histograms[each], histogram_table[each].bounds,
                              histogram_table[each].bound_count);
    }
    if (made) {
        *out = requests;
        return MR_OK;
    }
    mr_request_metrics_destroy(requests);
    return mr_fail(err, MR_NOMEM, "no memory for the metrics of %zu topics", topic_count);
}

void mr_request_metrics_destroy(struct mr_request_metrics *requests)
{
    if (!requests) return;
    for (size_t i = 0; i < requests->topic_count; i++) {
        free(requests->topics[i].name_label);
        free(requests->topics[i].labels);
    }
    free(requests);
}

/* ---- updates ---- */

void mr_request_metrics_count_end(struct mr_request_metrics *requests, size_t topic_index,
                                  const struct mr_request_end *end)
{
    MR_ASSERT(topic_index < requests->topic_count);
    MR_ASSERT(end->duplicate || (end->finish > MR_FINISH_NONE && end->finish < MR_FINISH_COUNT));
    struct topic *topic = &requests->topics[topic_index];
    if (end->duplicate)
        topic->ends[DUPLICATE][MR_OK]++;
    else
        topic->ends[end->finish][end->error]++;
}

/* A request without generated tokens has no token times; counting them as zero would lower every
 * percentile. */
void mr_request_metrics_observe(struct mr_request_metrics *requests, size_t topic_index,
                                const struct mr_result *result, double since_record_ms)
{
    MR_ASSERT(topic_index < requests->topic_count);
    if (result->choices[0].finish == MR_FINISH_REJECTED) return;
    struct mr_histogram *all = requests->topics[topic_index].histograms;
    double total_s = result->total_ms / 1e3, first_s = result->first_token_ms / 1e3;
    uint64_t generated = 0;
    for (size_t i = 0; i < result->choice_count; i++)
        generated += result->choices[i].completion_tokens;
    mr_histogram_observe(&all[REQUEST], total_s);
    mr_histogram_observe(&all[QUEUE], result->queue_ms / 1e3);
    if (result->has_deadline) mr_histogram_observe(&all[MARGIN], result->margin_ms / 1e3);
    mr_histogram_observe(&all[PROMPT_TOKENS], result->prompt_tokens);
    mr_histogram_observe(&all[GENERATION_TOKENS], (double)generated);
    if (generated == 0) return;
    mr_histogram_observe(&all[PREFILL], result->prefill_ms / 1e3);
    mr_histogram_observe(&all[DECODE], total_s - first_s);
    mr_histogram_observe(&all[FIRST_TOKEN_FROM_INTAKE], first_s);
    if (since_record_ms >= 0)
        mr_histogram_observe(&all[FIRST_TOKEN_FROM_RECORD], since_record_ms / 1e3);
}

/* ---- the page ---- */

struct mr_request_metrics *mr_request_metrics_copy(const struct mr_request_metrics *requests)
{
    size_t bytes = sizeof *requests + requests->topic_count * sizeof requests->topics[0];
    struct mr_request_metrics *copy = malloc(bytes);
    if (copy) memcpy(copy, requests, bytes);
    return copy;
}

/* Returns the first status that has the same error code: a series stands for a code. */
static enum mr_status first_of_code(enum mr_status status)
{
    unsigned first = MR_OK;
    while (strcmp(mr_status_code((enum mr_status)first), mr_status_code(status)) != 0)
        first++;
    return (enum mr_status)first;
}

/* True for series that are on the page before the first such end, so that rate() sees that end.
 * These are every reason with its usual code, and `rejected` with every code of the contract that
 * only rejected requests have. */
static bool is_usual(unsigned reason, enum mr_status code, const enum mr_status *firsts)
{
    if (reason == MR_FINISH_DEADLINE) return code == MR_DEADLINE_EXCEEDED;
    if (reason == MR_FINISH_CANCELLED) return code == MR_CANCELLED;
    if (reason == MR_FINISH_ERROR) return code == firsts[MR_INTERNAL];
    if (reason != MR_FINISH_REJECTED) return code == MR_OK;
    return mr_status_class(code) == MR_CLASS_REJECT && code != MR_DEADLINE_EXCEEDED &&
           code != MR_CANCELLED;
}

/* firsts: first_of_code of every status. */
static void put_reason(FILE *out, const struct topic *topic, unsigned reason,
                       const enum mr_status *firsts)
{
    uint64_t counts[MR_STATUS_COUNT] = {0};
    for (unsigned i = 0; i < MR_STATUS_COUNT; i++)
        counts[firsts[i]] += topic->ends[reason][i];
    for (unsigned i = 0; i < MR_STATUS_COUNT; i++) {
        if (i != (unsigned)firsts[i]) continue;
        if (counts[i] == 0 && !is_usual(reason, (enum mr_status)i, firsts)) continue;
        fprintf(out, "millrace_requests_finished_total{reason=\"%s\",code=\"%s\",%s} %" PRIu64 "\n",
                reason == DUPLICATE ? "duplicate" : mr_finish_text((enum mr_finish)reason),
                mr_status_code((enum mr_status)i), topic->labels, counts[i]);
    }
}

static void put_histogram(FILE *out, const struct topic *topic, unsigned which)
{
    char labels[LABEL_BYTES_MAX];
    snprintf(labels, sizeof labels, "%s%s", histogram_table[which].label, topic->name_label);
    mr_metric_put_histogram(&topic->histograms[which], histogram_table[which].name, labels, out);
}

void mr_request_metrics_print(const struct mr_request_metrics *requests, FILE *out)
{
    mr_metric_put_head(out, "millrace_requests_finished_total", "counter",
                       "Request records answered, by finish reason (duplicate: a copy of a "
                       "request in flight), error code, topic and tenant.");
    enum mr_status firsts[MR_STATUS_COUNT];
    for (unsigned i = 0; i < MR_STATUS_COUNT; i++)
        firsts[i] = first_of_code((enum mr_status)i);
    for (size_t i = 0; i < requests->topic_count; i++)
        for (unsigned reason = MR_FINISH_NONE + 1; reason < REASON_COUNT; reason++)
            put_reason(out, &requests->topics[i], reason, firsts);
    for (unsigned which = 0; which < HISTOGRAM_COUNT; which++) {
        if (histogram_table[which].help[0])
            mr_metric_put_head(out, histogram_table[which].name, "histogram",
                               histogram_table[which].help);
        for (size_t i = 0; i < requests->topic_count; i++)
            put_histogram(out, &requests->topics[i], which);
    }
}
