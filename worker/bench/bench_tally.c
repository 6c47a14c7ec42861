#include "worker/bench/bench_tally.h"

#include "codec/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND_NS ((uint64_t)1000000000)

enum state { NOT_SENT, IN_FLIGHT, FINISHED, FAILED };

struct progress {
    enum state state;
    uint32_t attempt, tokens; /* tokens: number of tokens in the token records of this attempt */
    uint32_t first_tokens;    /* tokens of the first token record */
    uint32_t prompt_tokens, completion_tokens;
    /* times of sending, of the first and last token record, and of the result */
    uint64_t sent_ns, first_ns, last_ns, end_ns;
    float queue_ms, prefill_ms, worker_itl_max_ms;
};

struct gap {
    uint32_t number, tokens; /* request; tokens of the record that ends the gap */
    float ms, end_s;         /* end_s: from the first request on */
};

struct mr_bench_tally {
    struct progress *requests;
    struct gap *gaps;
    size_t gap_count, gaps_max;
    uint32_t request_count, sent, in_flight, finished, failed, peak_concurrent;
    uint64_t begin_ns, end_ns, tokens_seen, gaps_left_out;
    /* the current second of the run, the tokens in that second, the most tokens in any second */
    uint64_t second, second_tokens, second_tokens_max;
    char failure[MR_BENCH_FAILURE_BYTES]; /* of the first result that is not a success */
};

enum mr_status mr_bench_tally_create(struct mr_bench_tally **out, uint32_t request_count,
                                     size_t gaps_max, struct mr_error *err)
{
    *out = NULL;
    struct mr_bench_tally *tally = calloc(1, sizeof *tally);
    if (!tally) return mr_fail(err, MR_NOMEM, "no memory for the tally");
    tally->requests = calloc(request_count, sizeof *tally->requests);
    if (!tally->requests) goto out_free_tally;
    tally->gaps = calloc(gaps_max + 1, sizeof *tally->gaps);
    if (!tally->gaps) goto out_free_requests;
    tally->request_count = request_count;
    tally->gaps_max = gaps_max;
    *out = tally;
    return MR_OK;

out_free_requests:
    free(tally->requests);
out_free_tally:
    free(tally);
    return mr_fail(err, MR_NOMEM, "no memory for a tally of %u requests", request_count);
}

void mr_bench_tally_destroy(struct mr_bench_tally *tally)
{
    if (!tally) return;
    free(tally->gaps);
    free(tally->requests);
    free(tally);
}

void mr_bench_tally_sent(struct mr_bench_tally *tally, uint32_t number, uint64_t now_ns)
{
    MR_ASSERT(number < tally->request_count);
    struct progress *progress = &tally->requests[number];
    MR_ASSERT(progress->state == NOT_SENT);
    progress->state = IN_FLIGHT;
    progress->sent_ns = now_ns;
    if (!tally->sent++) tally->begin_ns = now_ns;
    if (++tally->in_flight > tally->peak_concurrent) tally->peak_concurrent = tally->in_flight;
}

/* Returns the request if the request was sent and has not ended, or NULL. */
static struct progress *waiting(struct mr_bench_tally *tally, uint32_t number)
{
    if (number >= tally->request_count) return NULL;
    struct progress *progress = &tally->requests[number];
    return progress->state == IN_FLIGHT ? progress : NULL;
}

static void count_tokens(struct mr_bench_tally *tally, size_t count, uint64_t now_ns)
{
    uint64_t second = (now_ns - tally->begin_ns) / SECOND_NS;
    if (second != tally->second) tally->second_tokens = 0;
    tally->second = second;
    tally->second_tokens += count;
    tally->tokens_seen += count;
    if (tally->second_tokens > tally->second_tokens_max)
        tally->second_tokens_max = tally->second_tokens;
}

static void keep_gap(struct mr_bench_tally *tally, uint32_t number, uint32_t tokens,
                     uint64_t now_ns)
{
    uint64_t gap_ns = now_ns - tally->requests[number].last_ns;
    if (tally->gap_count == tally->gaps_max) {
        tally->gaps_left_out++;
        return;
    }
    tally->gaps[tally->gap_count++] =
        (struct gap){.number = number,
                     .tokens = tokens,
                     .ms = (float)((double)gap_ns / 1e6),
                     .end_s = (float)((double)(now_ns - tally->begin_ns) / 1e9)};
}

void mr_bench_tally_tokens(struct mr_bench_tally *tally, uint32_t number,
                           const struct mr_token_record *record, uint64_t now_ns)
{
    struct progress *progress = waiting(tally, number);
    if (!progress || record->attempt < progress->attempt || record->token_count == 0) return;
    if (record->attempt > progress->attempt) {
        progress->attempt = record->attempt;
        progress->tokens = record->index;
    }
    if (progress->first_ns) {
        keep_gap(tally, number, (uint32_t)record->token_count, now_ns);
    } else {
        progress->first_ns = now_ns;
        progress->first_tokens = (uint32_t)record->token_count;
    }
    progress->last_ns = now_ns;
    progress->tokens += (uint32_t)record->token_count;
    count_tokens(tally, record->token_count, now_ns);
}

static void end(struct mr_bench_tally *tally, struct progress *progress, enum state state,
                uint64_t now_ns)
{
    progress->state = state;
    progress->end_ns = now_ns;
    tally->in_flight--;
    tally->end_ns = now_ns;
    if (state == FINISHED) {
        tally->finished++;
    } else {
        tally->failed++;
    }
}

static bool is_success(const struct mr_result *result)
{
    if (result->error != MR_OK || result->choice_count == 0) return false;
    switch (result->choices[0].finish) {
    case MR_FINISH_EOS:
    case MR_FINISH_LENGTH:
    case MR_FINISH_STOP_TOKEN:
    case MR_FINISH_STOP_STRING:
    case MR_FINISH_MAX_CHARS:
    case MR_FINISH_LOW_CONFIDENCE:
    case MR_FINISH_CONTEXT_FULL:
        return true;
    default:
        return false;
    }
}

static void keep_failure(struct mr_bench_tally *tally, const struct mr_result *result)
{
    if (tally->failure[0]) return;
    if (result->error != MR_OK)
        snprintf(tally->failure, sizeof tally->failure, "%s: %s", mr_status_code(result->error),
                 result->error_message ? result->error_message : "");
    else
        snprintf(tally->failure, sizeof tally->failure, "finish_reason %s",
                 result->choice_count > 0 ? mr_finish_text(result->choices[0].finish) : "none");
}

void mr_bench_tally_result(struct mr_bench_tally *tally, uint32_t number,
                           const struct mr_result *result, uint64_t now_ns)
{
    struct progress *progress = waiting(tally, number);
    if (!progress) return;
    progress->prompt_tokens = result->prompt_tokens;
    for (size_t i = 0; i < result->choice_count; i++)
        progress->completion_tokens += result->choices[i].completion_tokens;
    progress->queue_ms = (float)result->queue_ms;
    progress->prefill_ms = (float)result->prefill_ms;
    progress->worker_itl_max_ms = (float)result->itl_max_ms;
    if (!is_success(result)) keep_failure(tally, result);
    end(tally, progress, is_success(result) ? FINISHED : FAILED, now_ns);
}

uint32_t mr_bench_tally_in_flight(const struct mr_bench_tally *tally)
{
    return tally->in_flight;
}

uint32_t mr_bench_tally_ended(const struct mr_bench_tally *tally)
{
    return tally->finished + tally->failed;
}

uint64_t mr_bench_tally_tokens_seen(const struct mr_bench_tally *tally)
{
    return tally->tokens_seen;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double percentile(const double *sorted, size_t count, double share)
{
    double place = share * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (sorted[below + 1] - sorted[below]) * (place - (double)below);
}

struct mr_bench_summary mr_bench_summarize(double *values, size_t count)
{
    struct mr_bench_summary summary = {.count = count};
    if (count == 0) return summary;
    qsort(values, count, sizeof *values, ascending);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    summary.mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - summary.mean) * (values[i] - summary.mean);
    summary.std = sqrt(squares / (double)count);
    summary.min = values[0];
    summary.median = percentile(values, count, 0.5);
    summary.p75 = percentile(values, count, 0.75);
    summary.p90 = percentile(values, count, 0.90);
    summary.p95 = percentile(values, count, 0.95);
    summary.p99 = percentile(values, count, 0.99);
    summary.max = values[count - 1];
    return summary;
}

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
    return (double)(to_ns - from_ns) / 1e6;
}

/* The functions below each compute one figure of a request; false: the request has no such
 * figure. */
static bool ttft(const struct progress *progress, double *ms)
{
    *ms = ms_between(progress->sent_ns, progress->first_ns);
    return progress->first_ns != 0;
}

static bool tpot(const struct progress *progress, double *ms)
{
    if (progress->first_ns == 0 || progress->tokens < 2) return false;
    *ms = ms_between(progress->first_ns, progress->last_ns) / (progress->tokens - 1);
    return true;
}

static bool e2el(const struct progress *progress, double *ms)
{
    *ms = ms_between(progress->sent_ns, progress->end_ns);
    return true;
}

static bool queue(const struct progress *progress, double *ms)
{
    *ms = (double)progress->queue_ms;
    return true;
}

static bool prefill(const struct progress *progress, double *ms)
{
    *ms = (double)progress->prefill_ms;
    return true;
}

static bool worker_itl_max(const struct progress *progress, double *ms)
{
    *ms = (double)progress->worker_itl_max_ms;
    return true;
}

static struct mr_bench_summary
summarize_requests(const struct mr_bench_tally *tally,
                   bool (*measure)(const struct progress *progress, double *ms), double *values)
{
    size_t count = 0;
    for (uint32_t i = 0; i < tally->request_count; i++) {
        const struct progress *progress = &tally->requests[i];
        if (progress->state == FINISHED && measure(progress, &values[count])) count++;
    }
    return mr_bench_summarize(values, count);
}

static struct mr_bench_summary summarize_gaps(const struct mr_bench_tally *tally, double *values)
{
    size_t count = 0;
    for (size_t i = 0; i < tally->gap_count; i++)
        if (tally->requests[tally->gaps[i].number].state == FINISHED)
            values[count++] = (double)tally->gaps[i].ms;
    return mr_bench_summarize(values, count);
}

static void sum_up(const struct mr_bench_tally *tally, struct mr_bench_figures *out)
{
    *out = (struct mr_bench_figures){.completed = tally->finished,
                                     .failed = tally->sent - tally->finished,
                                     .peak_concurrent = tally->peak_concurrent,
                                     .gaps_left_out = tally->gaps_left_out};
    if (out->failed > 0)
        snprintf(out->first_failure, sizeof out->first_failure, "%s",
                 tally->failure[0] ? tally->failure : "no result came");
    for (uint32_t i = 0; i < tally->request_count; i++) {
        const struct progress *progress = &tally->requests[i];
        if (progress->state != FINISHED) continue;
        out->input_tokens += progress->prompt_tokens;
        out->output_tokens += progress->completion_tokens;
    }
    out->peak_output_throughput = (double)tally->second_tokens_max;
    if (tally->end_ns <= tally->begin_ns) return;
    out->duration_s = (double)(tally->end_ns - tally->begin_ns) / 1e9;
    out->request_throughput = out->completed / out->duration_s;
    out->output_throughput = (double)out->output_tokens / out->duration_s;
    out->total_throughput = (double)(out->input_tokens + out->output_tokens) / out->duration_s;
}

enum mr_status mr_bench_tally_figures(const struct mr_bench_tally *tally,
                                      struct mr_bench_figures *out, struct mr_error *err)
{
    size_t most = tally->gap_count > tally->request_count ? tally->gap_count : tally->request_count;
    double *values = calloc(most + 1, sizeof *values);
    if (!values) return mr_fail(err, MR_NOMEM, "no memory to sort %zu times", most);
    sum_up(tally, out);
    out->ttft_ms = summarize_requests(tally, ttft, values);
    out->tpot_ms = summarize_requests(tally, tpot, values);
    out->e2el_ms = summarize_requests(tally, e2el, values);
    out->queue_ms = summarize_requests(tally, queue, values);
    out->prefill_ms = summarize_requests(tally, prefill, values);
    out->worker_itl_max_ms = summarize_requests(tally, worker_itl_max, values);
    out->itl_ms = summarize_gaps(tally, values);
    free(values);
    return MR_OK;
}

/* ---- the series ---- */

struct interval {
    double begin_s, end_s;
};

static bool has(const struct interval *interval, double at_s)
{
    return at_s >= interval->begin_s && at_s < interval->end_s;
}

static double since_begin_s(const struct mr_bench_tally *tally, uint64_t at_ns)
{
    return (double)(at_ns - tally->begin_ns) / 1e9;
}

/* Requests, first tokens and those in flight; values: room for a time of each request. */
static void add_requests(const struct mr_bench_tally *tally, const struct interval *interval,
                         struct mr_bench_point *point, double *values)
{
    size_t count = 0;
    for (uint32_t i = 0; i < tally->request_count; i++) {
        const struct progress *progress = &tally->requests[i];
        if (progress->state != FINISHED) continue;
        double end_s = since_begin_s(tally, progress->end_ns);
        if (has(interval, end_s)) point->requests_per_s++;
        if (progress->first_ns == 0 && has(interval, end_s))
            point->output_tokens_per_s += progress->completion_tokens;
        if (since_begin_s(tally, progress->sent_ns) <= point->at_s && end_s > point->at_s)
            point->in_flight++;
        if (progress->first_ns == 0 || !has(interval, since_begin_s(tally, progress->first_ns)))
            continue;
        point->output_tokens_per_s += progress->first_tokens;
        values[count++] = ms_between(progress->sent_ns, progress->first_ns);
    }
    struct mr_bench_summary ttft = mr_bench_summarize(values, count);
    point->ttft_median_ms = count ? ttft.median : (double)NAN;
    point->ttft_p90_ms = count ? ttft.p90 : (double)NAN;
    point->ttft_p99_ms = count ? ttft.p99 : (double)NAN;
}

/* *next: the first gap that is not in an earlier interval; gaps are in the order of their ends. */
static void add_gaps(const struct mr_bench_tally *tally, const struct interval *interval,
                     size_t *next, struct mr_bench_point *point, double *values)
{
    size_t count = 0;
    for (; *next < tally->gap_count && (double)tally->gaps[*next].end_s < interval->end_s;
         ++*next) {
        const struct gap *gap = &tally->gaps[*next];
        if (tally->requests[gap->number].state != FINISHED) continue;
        point->output_tokens_per_s += gap->tokens;
        values[count++] = (double)gap->ms;
    }
    struct mr_bench_summary itl = mr_bench_summarize(values, count);
    point->itl_median_ms = count ? itl.median : (double)NAN;
    point->itl_p90_ms = count ? itl.p90 : (double)NAN;
    point->itl_p99_ms = count ? itl.p99 : (double)NAN;
}

enum mr_status mr_bench_tally_series(const struct mr_bench_tally *tally,
                                     struct mr_bench_point *points, size_t count,
                                     struct mr_error *err)
{
    size_t most = tally->gap_count > tally->request_count ? tally->gap_count : tally->request_count;
    double *values = calloc(most + 1, sizeof *values);
    if (!values) return mr_fail(err, MR_NOMEM, "no memory to sort %zu times", most);
    /* a little longer than the run, whose last result is then in the last interval */
    double length_s =
        since_begin_s(tally, tally->end_ns > tally->begin_ns ? tally->end_ns : tally->begin_ns) *
            1.000001 / (double)count +
        1e-9;
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        struct interval interval = {(double)i * length_s, (double)(i + 1) * length_s};
        points[i] = (struct mr_bench_point){.at_s = interval.begin_s + length_s / 2};
        add_requests(tally, &interval, &points[i], values);
        add_gaps(tally, &interval, &next, &points[i], values);
        points[i].output_tokens_per_s /= length_s;
        points[i].requests_per_s /= length_s;
    }
    free(values);
    return MR_OK;
}

void mr_bench_tally_check(const struct mr_bench_tally *tally)
{
    uint32_t counts[FAILED + 1] = {0};
    for (uint32_t i = 0; i < tally->request_count; i++)
        counts[tally->requests[i].state]++;
    MR_ASSERT(counts[IN_FLIGHT] == tally->in_flight);
    MR_ASSERT(counts[FINISHED] == tally->finished && counts[FAILED] == tally->failed);
    MR_ASSERT(tally->sent == tally->in_flight + tally->finished + tally->failed);
    MR_ASSERT(tally->gap_count <= tally->gaps_max && tally->peak_concurrent >= tally->in_flight);
}
