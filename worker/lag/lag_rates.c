#include "worker/lag/lag_rates.h"

#include "codec/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A level is known when this much time was seen in it. */
#define LEVEL_SECONDS_MIN 0.2
/* Timestamps are whole milliseconds. A request must begin before it ends. */
#define RUN_MS_MIN 1.0

struct level {
    double requests; /* mean number of requests at a time */
    double speed;    /* tokens a second; NaN: unknown */
};

/* A change of the set of requests that a worker runs. */
struct edge {
    uint64_t worker;
    double at_ms;
    double tokens_per_s; /* of the request that begins (> 0) or ends (< 0) */
};

struct mr_lag_rates {
    size_t count, oldest; /* of the ring of samples */
    bool changed;         /* since the last _learn */
    int64_t complete_ms;  /* all results since then were added */
    struct level levels[MR_LAG_LEVELS];
    struct mr_lag_tokens all;     /* prompt NaN: unknown */
    struct mr_lag_tokens *topics; /* [topic_count] */
    size_t topic_count;
    struct edge *edges; /* scratch, two for each sample */
    struct mr_lag_sample samples[MR_LAG_SAMPLES_MAX];
};

enum mr_status mr_lag_rates_create(struct mr_lag_rates **out, size_t topic_count,
                                   struct mr_error *err)
{
    *out = NULL;
    struct mr_lag_rates *rates = calloc(1, sizeof *rates);
    if (rates) {
        rates->topics = calloc(topic_count, sizeof *rates->topics);
        rates->edges = calloc(2 * MR_LAG_SAMPLES_MAX, sizeof *rates->edges);
    }
    if (!rates || !rates->topics || !rates->edges) {
        mr_lag_rates_destroy(rates);
        return mr_fail(err, MR_NOMEM, "no memory for the rates of the fleet");
    }
    rates->topic_count = topic_count;
    rates->all.prompt = (double)NAN;
    for (size_t i = 0; i < topic_count; i++)
        rates->topics[i].prompt = (double)NAN;
    for (size_t i = 0; i < MR_LAG_LEVELS; i++)
        rates->levels[i].speed = (double)NAN;
    *out = rates;
    return MR_OK;
}

void mr_lag_rates_destroy(struct mr_lag_rates *rates)
{
    if (!rates) return;
    free(rates->topics);
    free(rates->edges);
    free(rates);
}

void mr_lag_rates_skip(struct mr_lag_rates *rates, int64_t since_ms)
{
    if (since_ms > rates->complete_ms) rates->complete_ms = since_ms;
}

void mr_lag_rates_add(struct mr_lag_rates *rates, const struct mr_lag_sample *sample)
{
    MR_ASSERT(sample->topic < rates->topic_count);
    if (sample->prompt_tokens == 0 && sample->answer_tokens == 0) return;
    size_t at = (rates->oldest + rates->count) % MR_LAG_SAMPLES_MAX;
    if (rates->count == MR_LAG_SAMPLES_MAX) {
        mr_lag_rates_skip(rates, rates->samples[at].end_ms);
        rates->oldest = (rates->oldest + 1) % MR_LAG_SAMPLES_MAX;
    } else {
        rates->count++;
    }
    rates->samples[at] = *sample;
    rates->samples[at].run_ms = fmax(sample->run_ms, RUN_MS_MIN);
    rates->changed = true;
}

/* ---- means ---- */

static void learn_means(struct mr_lag_rates *rates)
{
    for (size_t topic = 0; topic <= rates->topic_count; topic++) {
        const bool all = topic == rates->topic_count;
        struct mr_lag_tokens sum = {0, 0};
        size_t count = 0;
        for (size_t i = 0; i < rates->count; i++) {
            const struct mr_lag_sample *sample = &rates->samples[i];
            if (!all && sample->topic != topic) continue;
            sum.prompt += sample->prompt_tokens;
            sum.answer += sample->answer_tokens;
            count++;
        }
        if (count == 0) continue;
        struct mr_lag_tokens *mean = all ? &rates->all : &rates->topics[topic];
        *mean = (struct mr_lag_tokens){sum.prompt / (double)count, sum.answer / (double)count};
    }
}

bool mr_lag_rates_tokens(const struct mr_lag_rates *rates, size_t topic, struct mr_lag_tokens *out)
{
    *out = isnan(rates->topics[topic].prompt) ? rates->all : rates->topics[topic];
    return !isnan(out->prompt);
}

/* ---- speeds ---- */

static int compare_edges(const void *left, const void *right)
{
    const struct edge *a = left, *b = right;
    if (a->worker != b->worker) return a->worker < b->worker ? -1 : 1;
    return (a->at_ms > b->at_ms) - (a->at_ms < b->at_ms);
}

static unsigned level_of(unsigned requests)
{
    unsigned level = 0;
    while (requests > 1 && level < MR_LAG_LEVELS - 1) {
        requests /= 2;
        level++;
    }
    return level;
}

/* Time, requests and tokens that were seen at one level. */
struct seen {
    double seconds, request_seconds, tokens;
};

/* Walks over the time of each worker. Between two edges it runs the same requests. */
static void walk(const struct edge *edges, size_t count, double from_ms, double to_ms,
                 struct seen seen[MR_LAG_LEVELS])
{
    unsigned requests = 0;
    double tokens_per_s = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        requests = edges[i].tokens_per_s > 0 ? requests + 1 : requests - 1;
        tokens_per_s += edges[i].tokens_per_s;
        if (requests == 0) tokens_per_s = 0; /* without rounding errors; also the worker's end */
        if (requests == 0 || edges[i + 1].worker != edges[i].worker) continue;
        const double begin = fmax(edges[i].at_ms, from_ms), end = fmin(edges[i + 1].at_ms, to_ms);
        if (end <= begin) continue;
        struct seen *at = &seen[level_of(requests)];
        const double seconds = (end - begin) / 1e3;
        at->seconds += seconds;
        at->request_seconds += seconds * requests;
        at->tokens += seconds * tokens_per_s;
    }
}

static void learn_speeds(struct mr_lag_rates *rates, bool running, int64_t now_ms)
{
    struct seen seen[MR_LAG_LEVELS] = {{0, 0, 0}};
    double longest_ms = 0;
    for (size_t i = 0; i < rates->count; i++) {
        const struct mr_lag_sample *sample = &rates->samples[i];
        const double tokens_per_s =
            ((double)sample->prompt_tokens + sample->answer_tokens) / sample->run_ms * 1e3;
        const double end_ms = (double)sample->end_ms;
        rates->edges[2 * i] = (struct edge){sample->worker, end_ms - sample->run_ms, tokens_per_s};
        rates->edges[2 * i + 1] = (struct edge){sample->worker, end_ms, -tokens_per_s};
        longest_ms = fmax(longest_ms, sample->run_ms);
    }
    qsort(rates->edges, 2 * rates->count, sizeof *rates->edges, compare_edges);
    walk(rates->edges, 2 * rates->count, (double)rates->complete_ms,
         (double)now_ms - (running ? longest_ms : 0), seen);
    for (size_t i = 0; i < MR_LAG_LEVELS; i++) {
        if (seen[i].seconds < LEVEL_SECONDS_MIN) continue;
        rates->levels[i] = (struct level){.requests = seen[i].request_seconds / seen[i].seconds,
                                          .speed = seen[i].tokens / seen[i].seconds};
    }
}

void mr_lag_rates_learn(struct mr_lag_rates *rates, bool running, int64_t now_ms)
{
    if (!rates->changed) return;
    learn_means(rates);
    learn_speeds(rates, running, now_ms);
    /* while something runs the last stretch was left out, and is processed again */
    rates->changed = running;
}

double mr_lag_rates_speed(const struct mr_lag_rates *rates, double requests)
{
    double below_requests = 0, below_speed = 0;
    bool known = false;
    for (size_t i = 0; i < MR_LAG_LEVELS; i++) {
        const struct level *level = &rates->levels[i];
        if (isnan(level->speed)) continue;
        known = true;
        if (level->requests >= requests && level->requests > below_requests) {
            const double share = (requests - below_requests) / (level->requests - below_requests);
            return fmax(below_speed, below_speed + share * (level->speed - below_speed));
        }
        below_requests = level->requests;
        below_speed = fmax(below_speed, level->speed);
    }
    return known ? below_speed : (double)NAN;
}

double mr_lag_rates_top_speed(const struct mr_lag_rates *rates, double *requests)
{
    double speed = (double)NAN;
    *requests = (double)NAN;
    for (size_t i = 0; i < MR_LAG_LEVELS; i++) {
        const struct level *level = &rates->levels[i];
        if (isnan(level->speed) || level->speed <= speed) continue;
        speed = level->speed;
        *requests = level->requests;
    }
    return speed;
}
