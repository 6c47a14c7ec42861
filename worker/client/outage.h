/* outage - one line for the user when no broker can be reached, and one when a broker answers
 * again.
 *
 * librdkafka reports a lost connection at once, also one that it restores a moment later, as when
 * the first address of a name is refused. So a broker is queried a second later, and the line is
 * printed only if it does not answer.
 *
 * Owner: the thread that polls the clients; log lines come on any thread. Memory: none. Errors:
 * none. */
#ifndef MR_WORKER_CLIENT_OUTAGE_H
#define MR_WORKER_CLIENT_OUTAGE_H

#include "worker/kafka/kafka_conf.h"

#include <stdio.h>

struct mr_outage {
    FILE *out; /* NULL: no lines */
    bool suspected, announced;
    uint64_t ask_ns; /* while suspected: when to query a broker next */
    char reason[256];
};

void mr_outage_init(struct mr_outage *outage, FILE *out);
/* Makes the clients that are created with these options report to outage, which must outlive them.
 * With the property debug their log lines are printed too. */
void mr_outage_watch(struct mr_outage *outage, struct mr_kafka_options *kafka);
/* Whether to query a broker now; the caller then passes the outcome to _answer. now_ns:
 * mr_clock_ns.
 */
bool mr_outage_must_ask(const struct mr_outage *outage, uint64_t now_ns);
void mr_outage_answer(struct mr_outage *outage, bool answers, uint64_t now_ns);

#endif
