/* parts_state - struct mr_worker, for worker/serve/{parts,worker,health,drain}.c and their tests.
 * Owner: main thread, except for the atomics and the fields under mutex. */
#ifndef MR_WORKER_SERVE_PARTS_STATE_H
#define MR_WORKER_SERVE_PARTS_STATE_H

#include "worker/engine/engine_setup.h"
#include "worker/http/http.h"
#include "worker/redis/resume.h"
#include "worker/redis/tier_redis.h"
#include "worker/serve/parts.h"

#include <pthread.h>

struct mr_worker {
    struct mr_worker_options options;
    struct mr_kafka_options kafka;
    struct mr_wake wake;
    struct mr_engine_setup engine_setup;
    struct mr_engine_thread *engine;
    struct mr_publish *publish;
    struct mr_transactions *transactions; /* NULL once mr_intake_start has taken ownership */
    char transactional_id[256];
    struct mr_intake *intake;
    struct mr_metrics *metrics;
    struct mr_http *http;
    struct mr_tier_redis *tier; /* NULL without --redis */
    struct mr_resume *resume;   /* NULL without --redis */
    uint64_t started_ns;
    uint32_t partition_count; /* of all request topics */
    atomic_bool ready;        /* takes requests; false before the start and from the drain on */
    atomic_bool built;        /* every part exists and may be queried by the status pages */

    pthread_mutex_t mutex;
    struct mr_error failure; /* of the part that failed first; status MR_OK: none. Under mutex */
};

#endif
