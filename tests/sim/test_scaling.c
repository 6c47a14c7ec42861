/* A fleet that is scaled by the forecast of millrace lag, in virtual time, against the best fixed
 * number of workers: the lowest one that answers as many requests before their deadline. The bar is
 * that scaling costs at most 10 % more worker hours, summed over the seeds of a load.
 *
 *     sim_test_scaling              both loads over the first seeds
 *     sim_test_scaling LOAD FIRST COUNT     LOAD 0 bursts, 1 wandering; prints each seed
 *
 * The forecast, its rates and its lists of requests are the product's. Simulated are the workers,
 * which share their speed among the requests that they run, the topic, and the scaler with the
 * settings of docker/kubernetes/scaler.yaml. Every worker takes from one queue, and a rebalance
 * costs nothing. */
#include "worker/lag/lag_forecast.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS        2u
#define DAY_S        (6 * 3600.0)
#define STEP_S       0.5
#define REQUESTS_MAX ((size_t)200000)
#define WORKERS_MAX  32u
#define BATCH        64u    /* most requests that a worker runs at a time */
#define SPEED        1000.0 /* tokens a second of a worker with a large batch */
#define HALF         8.0    /* requests at a time at half of that speed */
#define START_S      60.0   /* from the decision to a worker that takes requests */
#define DRAIN_S      50.0
#define DEADLINE_S   180.0 /* after the arrival */

/* docker/kubernetes/lag.yaml and scaler.yaml */
#define TARGET_S        60.0
#define POLL_S          15.0
#define DOWN_EVERY_S    60.0
#define UP_PER_MINUTE   8u
#define COOLDOWN_S      600.0
#define BASE_MS         INT64_C(1700000000000)
#define FAR_FUTURE_S    1e9
#define POLLS_IN_WINDOW 20u /* 300 s */

enum load { BURSTS, WANDERING, LOADS };

struct request {
    double arrival_s;
    uint32_t prompt, answer;
    double left;      /* tokens to compute */
    double started_s; /* of its present run */
    bool running, ended;
};

struct worker {
    bool exists, ready, draining;
    double since_s; /* of its creation, or of the start of its drain */
    double began_s; /* of its creation */
    size_t running[BATCH];
    unsigned count;
};

struct trace {
    struct request *requests;
    size_t count;
};

struct fleet {
    struct trace trace;
    struct worker workers[WORKERS_MAX];
    size_t arrived, oldest; /* requests[oldest .. arrived) may be unended */
    double now_s, worker_s;
    size_t in_time;
    unsigned most;
    /* the scaler */
    struct mr_lag_rates *rates;
    uint32_t wanted[POLLS_IN_WINDOW];
    unsigned polls;
    double idle_since_s, last_down_s;
};

/* ---- the load ---- */

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static double exponential(uint64_t *state, double mean)
{
    return -mean * log(uniform(state));
}

static double normal(uint64_t *state)
{
    const double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

/* BURSTS: bursts of 4 minutes on average with 2 to 10 requests a second, 15 minutes apart, as the
 * code trace of Azure 2023 in coarse. WANDERING: 6 requests a second on average, by a rate that
 * wanders with a standard deviation of 25 %, as its conversation trace. Lengths are lognormal. */
static void draw_trace(struct trace *trace, enum load load, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + load;
    double now_s = 0, until_s = 0, rate = 0, wander = 0;
    bool burst = true;
    trace->requests = calloc(REQUESTS_MAX, sizeof *trace->requests);
    assert_non_null(trace->requests);
    trace->count = 0;
    while (trace->count < REQUESTS_MAX) {
        while (now_s >= until_s) {
            burst = !burst;
            wander = 0.9 * wander + 0.25 * sqrt(1 - 0.81) * normal(&state);
            if (load == BURSTS) {
                rate = burst ? 2 + 8 * uniform(&state) : 1e-3;
                until_s += exponential(&state, burst ? 240 : 900);
            } else {
                rate = 6 * fmax(0.1, 1 + wander);
                until_s += 60;
            }
        }
        now_s += exponential(&state, 1 / rate);
        if (now_s > until_s && load == BURSTS) {
            now_s = until_s; /* the rate is another one from there on; gaps have no memory */
            if (now_s >= DAY_S) return;
            continue;
        }
        if (now_s >= DAY_S) return;
        const double prompt = 700 * exp(0.8 * normal(&state)),
                     answer = 150 * exp(0.7 * normal(&state));
        trace->requests[trace->count++] =
            (struct request){.arrival_s = now_s,
                             .prompt = 1 + (uint32_t)fmin(prompt, 8000),
                             .answer = 1 + (uint32_t)fmin(answer, 2000)};
    }
}

/* ---- the fleet ---- */

static int64_t unix_ms(double s)
{
    return BASE_MS + (int64_t)(s * 1000);
}

static double speed_of(unsigned requests)
{
    return SPEED * requests / (requests + HALF);
}

static unsigned count_workers(const struct fleet *fleet)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        count += fleet->workers[i].exists && !fleet->workers[i].draining;
    return count;
}

static void add_worker(struct fleet *fleet, bool at_once)
{
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        if (fleet->workers[i].exists) continue;
        fleet->workers[i] = (struct worker){
            .exists = true, .ready = at_once, .since_s = fleet->now_s, .began_s = fleet->now_s};
        break;
    }
    if (count_workers(fleet) > fleet->most) fleet->most = count_workers(fleet);
}

/* The youngest one drains. */
static void remove_worker(struct fleet *fleet)
{
    struct worker *youngest = NULL;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        struct worker *worker = &fleet->workers[i];
        if (worker->exists && !worker->draining &&
            (!youngest || worker->began_s > youngest->began_s))
            youngest = worker;
    }
    youngest->draining = true;
    youngest->since_s = fleet->now_s;
}

static void end_worker(struct fleet *fleet, struct worker *worker)
{
    for (unsigned i = 0; i < worker->count; i++) /* returned: another worker starts them again */
        fleet->trace.requests[worker->running[i]].running = false;
    fleet->worker_s += fleet->now_s - worker->began_s;
    worker->exists = false;
}

static void end_request(struct fleet *fleet, unsigned number, struct request *request)
{
    request->ended = true;
    request->running = false;
    fleet->in_time += fleet->now_s <= request->arrival_s + DEADLINE_S;
    if (!fleet->rates) return;
    const struct mr_lag_sample sample = {.worker = number,
                                         .end_ms = unix_ms(fleet->now_s),
                                         .run_ms = (fleet->now_s - request->started_s) * 1000,
                                         .prompt_tokens = request->prompt,
                                         .answer_tokens = request->answer};
    mr_lag_rates_add(fleet->rates, &sample);
}

static void take_requests(struct fleet *fleet, struct worker *worker, size_t *next)
{
    for (; *next < fleet->arrived && worker->count < BATCH; ++*next) {
        struct request *request = &fleet->trace.requests[*next];
        if (request->running || request->ended) continue;
        if (fleet->now_s > request->arrival_s + DEADLINE_S) {
            request->ended = true; /* answered: deadline */
            continue;
        }
        request->running = true;
        request->started_s = fleet->now_s;
        request->left = (double)request->prompt + request->answer;
        worker->running[worker->count++] = *next;
    }
}

static void compute(struct fleet *fleet, unsigned number)
{
    struct worker *worker = &fleet->workers[number];
    const double each = worker->count ? STEP_S * speed_of(worker->count) / worker->count : 0;
    unsigned kept = 0;
    for (unsigned i = 0; i < worker->count; i++) {
        struct request *request = &fleet->trace.requests[worker->running[i]];
        request->left -= each;
        if (request->left <= 0)
            end_request(fleet, number, request);
        else
            worker->running[kept++] = worker->running[i];
    }
    worker->count = kept;
}

static void step_fleet(struct fleet *fleet)
{
    size_t next;
    fleet->now_s += STEP_S;
    while (fleet->arrived < fleet->trace.count &&
           fleet->trace.requests[fleet->arrived].arrival_s <= fleet->now_s)
        fleet->arrived++;
    while (fleet->oldest < fleet->arrived && fleet->trace.requests[fleet->oldest].ended)
        fleet->oldest++;
    next = fleet->oldest;
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        struct worker *worker = &fleet->workers[i];
        if (!worker->exists) continue;
        compute(fleet, i);
        if (worker->draining) {
            if (worker->count == 0 || fleet->now_s - worker->since_s >= DRAIN_S || !worker->ready)
                end_worker(fleet, worker);
            continue;
        }
        worker->ready |= fleet->now_s - worker->since_s >= START_S;
        if (worker->ready) take_requests(fleet, worker, &next);
    }
}

/* ---- the scaler ---- */

static uint32_t ask(struct fleet *fleet)
{
    static const uint64_t no_limit = 0;
    struct mr_lag_partition partitions[WORKERS_MAX];
    struct mr_lag_figures figures;
    struct mr_lag_forecast forecast = {.topics = &figures};
    struct mr_offset_ledger *scratch = NULL;
    assert_int_equal(mr_offset_ledger_create(&scratch, MR_LEDGER_SPAN_MAX, NULL), MR_OK);
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        mr_lag_partition_init(&partitions[i], 0, (int32_t)i, REQUESTS_MAX);
    const struct mr_kafka_backlog_partition at = {.end = (int64_t)fleet->arrived, .committed = -1};
    mr_lag_partition_update(&partitions[0], &at, scratch);
    partitions[0].base_of_bits = (int64_t)fleet->oldest;
    for (size_t i = fleet->oldest; i < fleet->arrived; i++) {
        const struct request *request = &fleet->trace.requests[i];
        const struct mr_lag_request waiting = {.offset = (int64_t)i,
                                               .timestamp_ms = unix_ms(request->arrival_s),
                                               .deadline_ms =
                                                   unix_ms(request->arrival_s + DEADLINE_S),
                                               .answer_tokens_max = UINT32_MAX};
        if (request->ended) continue;
        assert_true(mr_lag_partition_add(&partitions[0], &waiting));
        /* the list of a commit, which the simulation does not encode */
        const size_t bit = i - fleet->oldest;
        assert_true(bit < MR_LEDGER_SPAN_MAX);
        if (request->running) partitions[0].started[bit / 8] |= (unsigned char)(1u << (bit % 8));
    }
    mr_lag_partition_advance(&partitions[0], (int64_t)fleet->arrived);
    mr_lag_rates_learn(fleet->rates, partitions[0].count > 0, unix_ms(fleet->now_s));
    const struct mr_lag_question question = {.partitions = partitions,
                                             .partition_count = WORKERS_MAX,
                                             .queue_limits_ns = &no_limit,
                                             .topic_count = 1,
                                             .rates = fleet->rates,
                                             .workers_known = true,
                                             .workers = count_workers(fleet),
                                             .now_ms = unix_ms(fleet->now_s),
                                             .target_s = TARGET_S,
                                             .start_s = START_S};
    assert_int_equal(mr_lag_forecast_make(&forecast, &question, NULL), MR_OK);
    mr_lag_partition_free(&partitions[0]);
    mr_offset_ledger_destroy(scratch);
    return forecast.workers_wanted;
}

/* KEDA starts the first worker and ends the last one; between them the HPA follows the figure. */
static void poll(struct fleet *fleet)
{
    const uint32_t wanted = ask(fleet);
    uint32_t highest = 0;
    fleet->wanted[fleet->polls++ % POLLS_IN_WINDOW] = wanted;
    for (unsigned i = 0; i < POLLS_IN_WINDOW; i++)
        if (fleet->wanted[i] > highest) highest = fleet->wanted[i];
    if (wanted > 0) fleet->idle_since_s = fleet->now_s;
    const unsigned before = count_workers(fleet);
    for (unsigned n = before; n < wanted && n < before + UP_PER_MINUTE * POLL_S / 60; n++)
        add_worker(fleet, false);
    const bool idle = fleet->now_s - fleet->idle_since_s >= COOLDOWN_S;
    if (count_workers(fleet) > (highest > 1 || !idle ? (highest ? highest : 1) : 0) &&
        fleet->now_s - fleet->last_down_s >= DOWN_EVERY_S) {
        fleet->last_down_s = fleet->now_s;
        remove_worker(fleet);
    }
}

/* ---- runs ---- */

struct outcome {
    double hours, in_time; /* in_time: share of the requests */
    unsigned most;
};

/* fixed: number of workers; 0: scaled. */
static struct outcome run(struct trace trace, unsigned fixed)
{
    static struct fleet fleet;
    fleet = (struct fleet){.trace = trace, .last_down_s = -FAR_FUTURE_S};
    for (size_t i = 0; i < trace.count; i++)
        trace.requests[i].running = trace.requests[i].ended = false;
    if (fixed == 0) assert_int_equal(mr_lag_rates_create(&fleet.rates, 1, NULL), MR_OK);
    for (unsigned i = 0; i < fixed; i++)
        add_worker(&fleet, true);
    double poll_s = 0;
    while (fleet.now_s < DAY_S) {
        step_fleet(&fleet);
        if (fixed > 0 || fleet.now_s < poll_s) continue;
        poll_s += POLL_S;
        poll(&fleet);
    }
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        if (fleet.workers[i].exists) end_worker(&fleet, &fleet.workers[i]);
    mr_lag_rates_destroy(fleet.rates);
    return (struct outcome){fleet.worker_s / 3600, (double)fleet.in_time / (double)trace.count,
                            fleet.most};
}

/* The lowest number of workers with at least this share in time. */
static struct outcome search_fixed(struct trace trace, double in_time)
{
    unsigned low = 1, high = WORKERS_MAX;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (run(trace, middle).in_time >= in_time)
            high = middle;
        else
            low = middle + 1;
    }
    return run(trace, low);
}

static const char *const load_names[LOADS] = {"bursts", "wandering"};

/* Prints one seed; returns the hours scaled and fixed. */
static void compare(enum load load, uint64_t seed, double hours[2])
{
    struct trace trace;
    draw_trace(&trace, load, seed);
    const struct outcome scaled = run(trace, 0), fixed = search_fixed(trace, scaled.in_time);
    printf("%s %u: %zu requests; scaled %.1f worker hours, at most %u workers, %.2f %% in time; "
           "fixed %u: %.1f worker hours, %.2f %% in time\n",
           load_names[load], (unsigned)seed, trace.count, scaled.hours, scaled.most,
           100 * scaled.in_time, fixed.most, fixed.hours, 100 * fixed.in_time);
    hours[0] += scaled.hours;
    hours[1] += fixed.hours;
    free(trace.requests);
}

static void check(enum load load)
{
    double hours[2] = {0, 0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        compare(load, seed, hours);
    printf("%s: %.1f worker hours scaled, %.1f fixed: %.2f times\n", load_names[load], hours[0],
           hours[1], hours[0] / hours[1]);
    assert_true(hours[0] <= 1.1 * hours[1]);
}

static void bursts_cost_no_more_than_the_best_fixed_fleet(void **state)
{
    (void)state;
    check(BURSTS);
}

static void a_wandering_rate_costs_little_more_than_the_best_fixed_fleet(void **state)
{
    (void)state;
    check(WANDERING);
}

int main(int argc, char **argv)
{
    double hours[2] = {0, 0};
    if (argc == 4) {
        const uint64_t first = strtoull(argv[2], NULL, 10), count = strtoull(argv[3], NULL, 10);
        for (uint64_t seed = first; seed < first + count; seed++)
            compare(strcmp(argv[1], "1") == 0 ? WANDERING : BURSTS, seed, hours);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_cost_no_more_than_the_best_fixed_fleet),
        cmocka_unit_test(a_wandering_rate_costs_little_more_than_the_best_fixed_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
