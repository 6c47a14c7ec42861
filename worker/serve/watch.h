/* watch - the checks of the main thread while a worker serves: whether the worker has become ready,
 * and whether Kafka can be reached. Each change is logged in one line for the operator.
 *
 * Owner: the main thread. Memory: the worker's, and a Kafka client during an outage. Errors: none.
 */
#ifndef MR_WORKER_SERVE_WATCH_H
#define MR_WORKER_SERVE_WATCH_H

#include "worker/serve/parts.h"

/* how often to call mr_watch_readiness until it returns true, and mr_watch_kafka */
#define MR_WATCH_READINESS_NS ((uint64_t)100000000)
#define MR_WATCH_KAFKA_NS     ((uint64_t)500000000)

/* Prints the line "ready" when /readyz answers 200, and returns true from then on. Until then it
 * logs every half minute why the worker is not ready. */
bool mr_watch_readiness(struct mr_worker *worker);
/* Logs the begin and the end of an outage of Kafka. Blocks for up to half a second during an
 * outage. */
void mr_watch_kafka(struct mr_worker *worker);

#endif
