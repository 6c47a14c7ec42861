/* worker_state - what worker.c (start), drain.c (end) and health.c (questions) share. Nobody else
 * includes it but their tests. Owner: main thread, but for the mutex and atomics. */
#ifndef MR_WORKER_SERVE_WORKER_STATE_H
#define MR_WORKER_SERVE_WORKER_STATE_H

#include "worker/engine/engine_setup.h"
#include "worker/http/http.h"
#include "worker/redis/resume.h"
#include "worker/redis/tier_redis.h"
#include "worker/serve/worker.h"

#include <pthread.h>

struct mr_worker {
    struct mr_worker_options options;
    struct mr_kafka_options kafka;
    struct mr_wake wake;
    struct mr_engine_setup engine_setup;
    struct mr_engine_thread *engine;
    struct mr_publish *publish;
    struct mr_transactions *transactions; /* until intake has it */
    char transactional_id[256];
    struct mr_intake *intake;
    struct mr_metrics *metrics;
    struct mr_http *http;
    struct mr_tier_redis *tier; /* NULL without --redis */
    struct mr_resume *resume;   /* the same */
    uint64_t started_ns;
    uint32_t partition_count; /* of all request topics */
    atomic_bool ready;        /* requests are taken; false again from the drain on */
    atomic_bool built;        /* every part is there for health.c to ask */

    pthread_mutex_t mutex;
    struct mr_error failure; /* status MR_OK: none; under mutex */
};

#endif
