#include "worker/top/top_row.h"

#include "worker/top/scrape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FINISHED "millrace_requests_finished_total"
#define LAG      "millrace_consumer_lag"

enum column {
    READY,
    RUNNING,
    WAITING,
    PARKED,
    LAG_RECORDS,
    REQUESTS,
    PROMPT_TOKENS,
    OUTPUT_TOKENS,
    KV,
    CACHE_HITS,
    FIRST_TOKEN,
    GAP,
    REDIS
};

const struct mr_top_column mr_top_columns[MR_TOP_COLUMNS] = {
    [READY] = {"READY", "ready", 5, 0, true},
    [RUNNING] = {"RUN", "running", 5, 0, true},
    [WAITING] = {"WAIT", "waiting", 5, 0, true},
    [PARKED] = {"PARK", "parked", 5, 0, true},
    [LAG_RECORDS] = {"LAG", "lag", 7, 0, true},
    [REQUESTS] = {"REQ/s", "requests_per_second", 7, 1, true},
    [PROMPT_TOKENS] = {"PROMPT/s", "prompt_tokens_per_second", 9, 0, true},
    [OUTPUT_TOKENS] = {"TOK/s", "output_tokens_per_second", 7, 0, true},
    [KV] = {"KV%", "kv_percent", 5, 0, false},
    [CACHE_HITS] = {"HIT%", "prefix_hit_percent", 5, 0, false},
    [FIRST_TOKEN] = {"TTFT95", "first_token_p95_seconds", 7, 2, false},
    [GAP] = {"ITL99", "inter_token_p99_seconds", 7, 3, false},
    [REDIS] = {"REDIS", "redis_up", 5, 0, false},
};

/* A counter's growth between the two pages; NaN: one of them is missing. */
static double growth(const struct mr_top_pages *pages, const char *name, const char *labels)
{
    if (!pages->before) return NAN;
    return mr_scrape_sum(pages->now, name, labels) - mr_scrape_sum(pages->before, name, labels);
}

static double rate(const struct mr_top_pages *pages, const char *name, const char *labels)
{
    return growth(pages, name, labels) / pages->seconds;
}

/* The value of a label; NULL: there is none. */
static const char *find_label(const char *labels, size_t labels_length, const char *name,
                              size_t *length)
{
    char start[32];
    int wanted = snprintf(start, sizeof start, "%s=\"", name);
    const char *found = memmem(labels, labels_length, start, (size_t)wanted);
    if (!found) return NULL;
    const char *value = found + wanted;
    const char *end = memchr(value, '"', labels_length - (size_t)(value - labels));
    *length = end ? (size_t)(end - value) : 0;
    return end ? value : NULL;
}

/* The page has a count of requests, labelled with topic and tenant, for each topic of the worker.
 */
bool mr_top_row_is_of(const char *page, const char *tenant, const char *labels, size_t length)
{
    char series[1024];
    size_t topic_length;
    const char *topic = find_label(labels, length, "topic", &topic_length);
    if (!tenant[0]) return true;
    if (!topic) return false;
    snprintf(series, sizeof series, "topic=\"%.*s\",tenant=\"%s\"}", (int)topic_length, topic,
             tenant);
    return strstr(page, series) != NULL;
}

static double lag_of(const char *page, const char *tenant)
{
    struct mr_scrape_series series;
    double sum = 0;
    for (const char *at = page; mr_scrape_next(&at, LAG, &series);)
        if (mr_top_row_is_of(page, tenant, series.labels, series.labels_length))
            sum += series.value;
    return sum;
}

static double quantile(const struct mr_top_pages *pages, const char *name, double q)
{
    return pages->before ? mr_scrape_quantile(pages->now, pages->before, name, q) : (double)NAN;
}

void mr_top_row_fill(struct mr_top_row *row, const struct mr_top_pages *pages, const char *tenant)
{
    char labels[MR_TOP_TENANT_BYTES + 16] = "";
    const char *now = pages->now;
    double queries = growth(pages, "millrace_prefix_cache_queries_tokens_total", "");
    double hits = growth(pages, "millrace_prefix_cache_hits_tokens_total", "");
    bool redis = strstr(now, "\nmillrace_tier_up ") != NULL;
    if (tenant[0]) snprintf(labels, sizeof labels, "tenant=\"%s\"}", tenant);
    *row = (struct mr_top_row){
        {[READY] = mr_scrape_sum(now, "millrace_ready", ""),
         [RUNNING] = mr_scrape_sum(now, "millrace_requests_running", ""),
         [WAITING] = mr_scrape_sum(now, "millrace_requests_waiting", ""),
         [PARKED] = mr_scrape_sum(now, "millrace_requests_parked", ""),
         [LAG_RECORDS] = lag_of(now, tenant),
         [REQUESTS] = rate(pages, FINISHED, labels),
         [PROMPT_TOKENS] = rate(pages, "millrace_prompt_tokens_total", ""),
         [OUTPUT_TOKENS] = rate(pages, "millrace_generation_tokens_total", ""),
         [KV] = 100 * mr_scrape_sum(now, "millrace_kv_usage_ratio", ""),
         [CACHE_HITS] = queries > 0 ? 100 * hits / queries : (double)NAN,
         [FIRST_TOKEN] = quantile(pages, "millrace_time_to_first_token_seconds", 0.95),
         [GAP] = quantile(pages, "millrace_inter_token_latency_seconds", 0.99),
         [REDIS] = redis ? mr_scrape_sum(now, "millrace_tier_up", "") : (double)NAN}};
}

void mr_top_row_next_tenant(const char *page, const char *tenant, char next[MR_TOP_TENANT_BYTES])
{
    struct mr_scrape_series series;
    for (const char *at = page; mr_scrape_next(&at, FINISHED, &series);) {
        char name[MR_TOP_TENANT_BYTES];
        size_t length;
        const char *label = find_label(series.labels, series.labels_length, "tenant", &length);
        if (!label || length >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)length, label);
        if (strcmp(name, tenant) > 0 && (!next[0] || strcmp(name, next) < 0))
            memcpy(next, name, length + 1);
    }
}
