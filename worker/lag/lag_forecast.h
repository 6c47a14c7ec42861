/* lag_forecast - the waiting requests, the time that they take, and the number of workers that they
 * need. Combines the unfinished requests (worker/lag/lag_partition.h) and the rates
 * (worker/lag/lag_rates.h).
 *
 * A request waits until its result is committed: those that run are included, so that no worker is
 * stopped under them. A request whose deadline has passed is counted as expired, not as waiting,
 * and starts no worker. The wait limit of its topic (queue=TIME) is a
 * deadline too, until the request has started.
 *
 * The work of a request is its estimated tokens: the mean prompt of its topic, and the mean answer
 * or the most that the record allows, whichever is less. Divided by the speed of a worker that is
 * work in worker-seconds. The number of needed workers is the lowest at which
 *   - all work is done within `target_s`, and
 *   - for each deadline the work due until then is done in the time from `start_s`, the time that a
 *     new worker needs to start, until the deadline. Deadlines that a new worker could not meet
 *     even for its first request are left out, and so are those of started requests.
 * It is at most the partitions of the largest topic, since further workers would be idle. It is 0
 * only if nothing waits, and at least 1, or the number of current workers, while the work is
 * unknown.
 *
 * Owner:  one thread. Pure: no clock, no I/O. Memory: none but scratch during _make. Errors:
 *         MR_NOMEM. */
#ifndef MR_WORKER_LAG_LAG_FORECAST_H
#define MR_WORKER_LAG_LAG_FORECAST_H

#include "worker/lag/lag_partition.h"
#include "worker/lag/lag_rates.h"

/* Numbers are NaN and times 0 where unknown or none. */
struct mr_lag_figures {
    uint64_t waiting; /* requests without a committed result, before their deadline */
    uint64_t started; /* waiting requests that the last commit lists as started */
    uint64_t unread;  /* waiting requests that are counted by offset, because their records were not
                         read */
    uint64_t expired; /* requests without a committed result, after their deadline */
    double tokens;    /* of the waiting requests */
    double worker_seconds;
    /* Time until the last waiting request is done, if all topics share the current workers equally;
     * without a worker, the time that one worker needs, without its start. */
    double seconds;
    double late;         /* the requests that were read and will miss their deadline */
    int64_t oldest_ms;   /* unix ms: lowest timestamp of those that were read */
    int64_t deadline_ms; /* unix ms: nearest deadline of those that were read */
};

struct mr_lag_question {
    const struct mr_lag_partition *partitions; /* [partition_count] */
    size_t partition_count;
    const uint64_t *queue_limits_ns; /* [topic_count]; 0: no limit */
    size_t topic_count;
    const struct mr_lag_rates *rates;
    bool workers_known;
    uint32_t workers; /* members of the group */
    int64_t now_ms;
    double target_s, start_s;
};

struct mr_lag_forecast {
    struct mr_lag_figures *topics; /* [topic_count], the caller's */
    struct mr_lag_figures total;
    bool workers_known;
    uint32_t workers, workers_wanted;
    double speed, speed_requests; /* highest known speed of a worker, and at how many requests */
};

/* forecast->topics: memory for topic_count figures. On an error *forecast has no meaning. */
enum mr_status mr_lag_forecast_make(struct mr_lag_forecast *forecast,
                                    const struct mr_lag_question *question, struct mr_error *err);

#endif
