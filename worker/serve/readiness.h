/* readiness - whether a worker takes requests and can answer them, and why not: the page /readyz
 * and the metric millrace_ready.
 *
 * A worker is ready when all of these conditions hold:
 * - the model is loaded;
 * - the consumer group has assigned its partitions, or none if there are fewer than workers;
 * - a broker has answered within the last MR_READINESS_SILENT_NS plus a fifth of the session
 * timeout;
 * - no topic that the worker writes to refuses its records;
 * - the worker does not drain.
 * Redis is shown but not required. The page is a JSON object: ready; reason, which is the first
 * condition that does not hold, or ""; and checks, with name, ok, required and text of each
 * condition.
 *
 * Threads: any (pure functions). Memory: none. Errors: none. */
#ifndef MR_WORKER_SERVE_READINESS_H
#define MR_WORKER_SERVE_READINESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A group member without partitions sends a heartbeat in every tenth of its session timeout, and
 * heard_ns is up to 5 seconds late. So a broker is treated as unreachable only after this time plus
 * a fifth of the session timeout. */
#define MR_READINESS_SILENT_NS ((uint64_t)10000000000)

#define MR_READINESS_BYTES        ((size_t)4096)
#define MR_READINESS_REASON_BYTES ((size_t)336)

/* State of a worker. Texts are borrowed. */
struct mr_readiness {
    const char *failure; /* why a part has failed; NULL: none has */
    bool loaded;         /* the model is loaded and every part has started */
    bool draining;       /* the worker ends */
    bool joined;         /* the group has assigned partitions, perhaps none */
    uint32_t partitions; /* partitions that this worker has */
    uint64_t heard_ns;   /* when a broker last answered; 0: never */
    uint64_t now_ns, session_timeout_ns;
    const char *refused_topic; /* a topic that refuses this worker's records; NULL: none */
    bool redis, redis_up;      /* Redis is configured; it answers */
    bool redis_refuses;        /* Redis refuses to store */
};

/* Writes the page. True: the worker is ready. why[MR_READINESS_REASON_BYTES], if not NULL: the
 * first condition that does not hold, or "". */
bool mr_readiness_write(const struct mr_readiness *readiness, char text[MR_READINESS_BYTES],
                        char *why);

#endif
