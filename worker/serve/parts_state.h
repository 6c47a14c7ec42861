/* parts_state - defines struct mr_worker, for worker/serve/{parts,worker,health,drain}.c and their
 * tests only. Owner: main thread, except for the atomics and the fields protected by the mutex. */
#ifndef MR_WORKER_SERVE_PARTS_STATE_H
#define MR_WORKER_SERVE_PARTS_STATE_H

#include "ops/files/model_source.h"
#include "worker/engine/engine_setup.h"
#include "worker/http/http.h"
#include "worker/kafka/kafka_admin.h"
#include "worker/kafka/kafka_outage.h"
#include "worker/remote_cache/redis_cache.h"
#include "worker/resume/resume.h"
#include "worker/serve/parts.h"
#include "worker/trace/tracer.h"

#include <pthread.h>

struct mr_worker {
    struct mr_worker_options options;
    struct mr_kafka_options kafka;
    struct mr_wake wake;
    struct mr_model_source model_files; /* read at the start; zeroed when the engine has them */
    struct mr_engine_setup engine_setup;
    struct mr_adapters *adapters; /* NULL without the options --adapter and --adapters */
    struct mr_engine_thread *engine;
    struct mr_publish *publish;
    struct mr_transactions *transactions; /* NULL once mr_intake_start has taken ownership */
    char transactional_id[256];
    struct mr_handover handover;
    struct mr_intake *intake;
    struct mr_metrics *metrics;
    struct mr_http *http;
    /* the last /metrics page, and when it was made; of the HTTP library's thread */
    char *metrics_page;
    size_t metrics_length;
    uint64_t metrics_ns;
    struct mr_redis_cache *remote_cache; /* NULL without the option --redis */
    struct mr_resume *resume;            /* NULL without the option --redis */
    struct mr_kafka_outage outage;
    struct mr_kafka_admin *outage_admin; /* queries a broker during an outage; NULL: none */
    struct mr_kafka_stats *kafka_stats;
    struct mr_kafka_login *kafka_login;
    struct mr_tracer *tracer; /* NULL without the option --trace-endpoint */
    struct mr_heartbeats heartbeats;
    uint64_t started_ns, built_ns; /* when the start began, and when every part ran */
    bool announced;                /* the line "ready" was printed */
    uint64_t waiting_ns;           /* when it was last logged that the worker is not ready */
    uint32_t partition_count;      /* total of all request topics */
    /* the worker takes requests; false before start-up is complete and during the drain */
    atomic_bool ready;
    atomic_bool built; /* every component exists, so the status pages may query it */
    /* the worker ends: calls that wait for a broker should return soon */
    atomic_bool ending;

    pthread_mutex_t mutex;
    /* the first failure of any component; failure.status MR_OK: none. Protected by the mutex */
    struct mr_error failure;
};

#endif
