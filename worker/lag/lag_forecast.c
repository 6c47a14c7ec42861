#include "worker/lag/lag_forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS ((uint64_t)1000000)
/* the share of its work that a started request still has, on average */
#define STARTED_SHARE 0.5

/* A waiting request that was read. */
struct job {
    int64_t timestamp_ms, deadline_ms; /* deadline 0: none */
    double tokens;
    size_t topic;
    bool started;
};

struct jobs {
    struct job *all;
    size_t count;
};

/* ---- the requests ---- */

static int64_t deadline_of(const struct mr_lag_question *question,
                           const struct mr_lag_partition *partition,
                           const struct mr_lag_request *request)
{
    const int64_t limit_ms = (int64_t)(question->queue_limits_ns[partition->topic] / MS_NS);
    int64_t deadline_ms = request->deadline_ms;
    if (limit_ms > 0 && !mr_lag_partition_is_started(partition, request->offset)) {
        const int64_t until_ms = request->timestamp_ms + limit_ms;
        if (deadline_ms == 0 || until_ms < deadline_ms) deadline_ms = until_ms;
    }
    return deadline_ms;
}

static double tokens_of(const struct mr_lag_request *request, const struct mr_lag_tokens *mean,
                        bool started)
{
    if (request->rejected) return 0;
    return (mean->prompt + fmin(mean->answer, request->answer_tokens_max)) *
           (started ? STARTED_SHARE : 1);
}

static void note_lowest(int64_t *lowest, int64_t value)
{
    if (value > 0 && (*lowest == 0 || value < *lowest)) *lowest = value;
}

static void add_request(struct mr_lag_figures *figures, const struct mr_lag_question *question,
                        const struct mr_lag_partition *partition,
                        const struct mr_lag_request *request, struct jobs *jobs)
{
    struct mr_lag_tokens mean = {(double)NAN, (double)NAN};
    const int64_t deadline_ms = deadline_of(question, partition, request);
    if (deadline_ms > 0 && deadline_ms <= question->now_ms) {
        figures->expired++;
        return;
    }
    mr_lag_rates_tokens(question->rates, partition->topic, &mean);
    const bool started = mr_lag_partition_is_started(partition, request->offset);
    const double tokens = tokens_of(request, &mean, started);
    figures->waiting++;
    figures->started += started;
    figures->tokens += tokens;
    note_lowest(&figures->oldest_ms, request->timestamp_ms);
    note_lowest(&figures->deadline_ms, deadline_ms);
    jobs->all[jobs->count++] =
        (struct job){request->timestamp_ms, deadline_ms, tokens, partition->topic, started};
}

static void add_unread(struct mr_lag_figures *figures, const struct mr_lag_question *question,
                       const struct mr_lag_partition *partition)
{
    struct mr_lag_tokens mean = {(double)NAN, (double)NAN};
    const uint64_t unread = mr_lag_partition_unread(partition);
    if (unread == 0) return;
    mr_lag_rates_tokens(question->rates, partition->topic, &mean);
    figures->waiting += unread;
    figures->unread += unread;
    figures->tokens += (double)unread * (mean.prompt + mean.answer);
}

static void count_requests(struct mr_lag_forecast *forecast, const struct mr_lag_question *question,
                           struct jobs *jobs)
{
    for (size_t i = 0; i < question->partition_count; i++) {
        const struct mr_lag_partition *partition = &question->partitions[i];
        struct mr_lag_figures *figures = &forecast->topics[partition->topic];
        for (size_t k = 0; k < partition->count; k++)
            add_request(figures, question, partition, &partition->requests[k], jobs);
        add_unread(figures, question, partition);
    }
    for (size_t i = 0; i < question->topic_count; i++) {
        const struct mr_lag_figures *figures = &forecast->topics[i];
        struct mr_lag_figures *total = &forecast->total;
        total->waiting += figures->waiting;
        total->started += figures->started;
        total->unread += figures->unread;
        total->expired += figures->expired;
        total->tokens += figures->tokens;
        note_lowest(&total->oldest_ms, figures->oldest_ms);
        note_lowest(&total->deadline_ms, figures->deadline_ms);
    }
}

/* ---- times ---- */

/* The number of workers for which the times hold. */
static uint32_t assumed_workers(const struct mr_lag_question *question)
{
    return question->workers_known && question->workers > 0 ? question->workers : 1;
}

/* Tokens a second of each of this many workers when they share the waiting requests. */
static double speed_of(const struct mr_lag_question *question, uint64_t waiting, uint32_t workers)
{
    return mr_lag_rates_speed(question->rates, fmax(1, (double)waiting / workers));
}

static double worker_seconds(double tokens, double speed)
{
    return tokens > 0 ? tokens / speed : tokens;
}

/* With equal shares a topic's work is done when each other topic has had as much computed, or is
 * done. */
static void set_times(struct mr_lag_forecast *forecast, const struct mr_lag_question *question)
{
    const uint32_t workers = assumed_workers(question);
    const double speed = speed_of(question, forecast->total.waiting, workers);
    for (size_t i = 0; i < question->topic_count; i++)
        forecast->topics[i].worker_seconds = worker_seconds(forecast->topics[i].tokens, speed);
    for (size_t i = 0; i < question->topic_count; i++) {
        struct mr_lag_figures *figures = &forecast->topics[i];
        double shared = 0;
        for (size_t k = 0; k < question->topic_count; k++)
            shared += fmin(forecast->topics[k].worker_seconds, figures->worker_seconds);
        figures->seconds = isnan(figures->worker_seconds) ? (double)NAN : shared / workers;
    }
    forecast->total.worker_seconds = worker_seconds(forecast->total.tokens, speed);
    forecast->total.seconds = forecast->total.worker_seconds / workers;
}

/* ---- deadlines ---- */

static int compare_timestamps(const void *left, const void *right)
{
    const struct job *a = left, *b = right;
    return (a->timestamp_ms > b->timestamp_ms) - (a->timestamp_ms < b->timestamp_ms);
}

static int compare_deadlines(const void *left, const void *right)
{
    const struct job *a = left, *b = right;
    const int64_t first = a->deadline_ms ? a->deadline_ms : INT64_MAX;
    const int64_t second = b->deadline_ms ? b->deadline_ms : INT64_MAX;
    return (first > second) - (first < second);
}

/* Counts the requests that will miss their deadline if the current workers run all requests in the
 * order of their timestamps. */
static void count_late(struct mr_lag_forecast *forecast, const struct mr_lag_question *question,
                       struct jobs *jobs)
{
    const uint32_t workers = assumed_workers(question);
    const double speed = speed_of(question, forecast->total.waiting, workers) * workers;
    const bool asleep = question->workers_known && question->workers == 0;
    double done_s = asleep ? question->start_s : 0;
    if (isnan(speed) && jobs->count > 0) {
        forecast->total.late = (double)NAN;
        for (size_t i = 0; i < question->topic_count; i++)
            if (forecast->topics[i].deadline_ms > 0) forecast->topics[i].late = (double)NAN;
        return;
    }
    qsort(jobs->all, jobs->count, sizeof *jobs->all, compare_timestamps);
    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *job = &jobs->all[i];
        done_s += job->tokens / speed;
        if (job->deadline_ms == 0 || (double)(job->deadline_ms - question->now_ms) / 1e3 >= done_s)
            continue;
        forecast->topics[job->topic].late++;
        forecast->total.late++;
    }
}

/* Tokens a second that new workers must compute together to meet every deadline that one of them
 * could meet for its first request, taking the requests by deadline. */
static double demand_of_deadlines(const struct mr_lag_question *question, struct jobs *jobs)
{
    const double alone = mr_lag_rates_speed(question->rates, 1);
    double tokens = 0, demand = 0;
    qsort(jobs->all, jobs->count, sizeof *jobs->all, compare_deadlines);
    for (size_t i = 0; i < jobs->count && jobs->all[i].deadline_ms > 0; i++) {
        const struct job *job = &jobs->all[i];
        const double left_s =
            (double)(job->deadline_ms - question->now_ms) / 1e3 - question->start_s;
        tokens += job->tokens;
        if (job->started) continue; /* a new worker does not make it faster */
        if (left_s > 0 && left_s >= job->tokens / alone) demand = fmax(demand, tokens / left_s);
    }
    return demand;
}

/* ---- workers ---- */

/* The most workers that get a partition. */
static uint32_t most_workers(const struct mr_lag_question *question)
{
    int32_t highest = 0;
    for (size_t i = 0; i < question->partition_count; i++)
        if (question->partitions[i].partition > highest)
            highest = question->partitions[i].partition;
    return (uint32_t)highest + 1;
}

static uint32_t wanted_workers(const struct mr_lag_forecast *forecast,
                               const struct mr_lag_question *question, struct jobs *jobs)
{
    const uint32_t most = most_workers(question);
    const uint64_t waiting = forecast->total.waiting;
    if (waiting == 0) return 0;
    const double demand =
        fmax(forecast->total.tokens / question->target_s, demand_of_deadlines(question, jobs));
    if (isnan(forecast->total.worker_seconds)) return assumed_workers(question);
    uint32_t workers = 1;
    while (workers < most && speed_of(question, waiting, workers) * workers < demand)
        workers++;
    return workers;
}

enum mr_status mr_lag_forecast_make(struct mr_lag_forecast *forecast,
                                    const struct mr_lag_question *question, struct mr_error *err)
{
    struct jobs jobs = {NULL, 0};
    size_t most = 0;
    for (size_t i = 0; i < question->partition_count; i++)
        most += question->partitions[i].count;
    jobs.all = malloc((most > 0 ? most : 1) * sizeof *jobs.all);
    if (!jobs.all) return mr_fail(err, MR_NOMEM, "no memory for the forecast");
    *forecast = (struct mr_lag_forecast){.topics = forecast->topics,
                                         .workers_known = question->workers_known,
                                         .workers = question->workers};
    memset(forecast->topics, 0, question->topic_count * sizeof *forecast->topics);
    count_requests(forecast, question, &jobs);
    set_times(forecast, question);
    count_late(forecast, question, &jobs);
    forecast->workers_wanted = wanted_workers(forecast, question, &jobs);
    forecast->speed = mr_lag_rates_top_speed(question->rates, &forecast->speed_requests);
    free(jobs.all);
    return MR_OK;
}
