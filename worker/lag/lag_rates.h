/* lag_rates - how fast a worker computes and how many tokens a request has, learned from result
 * records. The results topic keeps both when no worker is alive.
 *
 * A result shows when its request ran: it ended at the result's timestamp and ran for total - queue
 * of timings_ms. Its tokens are the computed ones: prompt tokens that no cache had, and generated
 * tokens. They are spread evenly over that time. So the number of requests that a worker ran and
 * the tokens a second that it computed are known for each moment. The speed depends on the number
 * of requests that run at a time, because they share the steps. Therefore it is kept by level:
 * level k is for 2^k to 2^(k+1) - 1 requests at a time.
 *
 * Between levels the speed is interpolated. Below the lowest level it falls in proportion, above
 * the highest it stays. Both are lower bounds, so the forecast is late rather than early until such
 * a load has been seen. Unknown values stay unknown.
 *
 * Owner:  one thread. Pure: no clock, no I/O. Memory: MR_LAG_SAMPLES_MAX samples, in _create.
 * Errors: MR_NOMEM. */
#ifndef MR_WORKER_LAG_LAG_RATES_H
#define MR_WORKER_LAG_LAG_RATES_H

#include "codec/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_LAG_SAMPLES_MAX ((size_t)4096) /* the oldest sample makes room for a new one */
#define MR_LAG_LEVELS      16u

/* One result. */
struct mr_lag_sample {
    uint64_t worker; /* hash of the worker's name */
    size_t topic;    /* index among the request topics */
    int64_t end_ms;  /* unix ms */
    double run_ms;
    uint32_t prompt_tokens, answer_tokens; /* computed */
};

/* Mean tokens of a request. */
struct mr_lag_tokens {
    double prompt, answer;
};

struct mr_lag_rates;

enum mr_status mr_lag_rates_create(struct mr_lag_rates **out, size_t topic_count,
                                   struct mr_error *err);
/* rates may be NULL. */
void mr_lag_rates_destroy(struct mr_lag_rates *rates);

/* A sample that computed nothing is ignored. */
void mr_lag_rates_add(struct mr_lag_rates *rates, const struct mr_lag_sample *sample);
/* Results before this time, unix ms, were not all added: speeds are taken from later times. */
void mr_lag_rates_skip(struct mr_lag_rates *rates, int64_t since_ms);
/* Computes means and speeds from the samples. Means and levels without samples keep their values.
 * running: some request runs now. Its result is missing, so the time of the longest run before
 * now_ms is left out. */
void mr_lag_rates_learn(struct mr_lag_rates *rates, bool running, int64_t now_ms);

/* Mean tokens of the topic's requests; without results of the topic those of all topics. False:
 * unknown. */
bool mr_lag_rates_tokens(const struct mr_lag_rates *rates, size_t topic, struct mr_lag_tokens *out);
/* Tokens a second of one worker that runs this many requests at a time; NaN: unknown. */
double mr_lag_rates_speed(const struct mr_lag_rates *rates, double requests);
/* The highest speed of all levels, and the mean number of requests at a time in it; NaN: unknown.
 */
double mr_lag_rates_top_speed(const struct mr_lag_rates *rates, double *requests);

#endif
