/* kafka_outage - announces once that no broker can be reached, and once that a broker answers
 * again.
 *
 * librdkafka reports a lost connection at once, also one that it restores a moment later, as when
 * the first address of a name is refused. So a broker is queried a second later, and the outage is
 * announced only if it does not answer.
 *
 * Threads: _note: any; the others: one thread. Memory: the struct. Errors: none. */
#ifndef MR_WORKER_KAFKA_KAFKA_OUTAGE_H
#define MR_WORKER_KAFKA_KAFKA_OUTAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define MR_KAFKA_OUTAGE_REASON_BYTES ((size_t)256)

struct mr_kafka_outage {
    pthread_mutex_t mutex; /* protects the other fields */
    bool suspected;
    uint64_t since_ns; /* when the connections were lost */
    uint64_t ask_ns;   /* while suspected: when to query a broker next */
    char reason[MR_KAFKA_OUTAGE_REASON_BYTES];
    bool announced;
};

/* The findings of _answer. */
enum mr_kafka_outage_change {
    MR_KAFKA_OUTAGE_NONE,
    MR_KAFKA_OUTAGE_BEGAN, /* to be announced, with `reason` */
    MR_KAFKA_OUTAGE_ENDED  /* to be announced */
};

void mr_kafka_outage_open(struct mr_kafka_outage *outage);
void mr_kafka_outage_close(struct mr_kafka_outage *outage);
/* Notes an error of a client, as mr_kafka_options.failed reports it. */
void mr_kafka_outage_note(struct mr_kafka_outage *outage, bool unreachable, const char *reason,
                          uint64_t now_ns);
/* Whether to query a broker now; the caller then passes the outcome to _answer. now_ns:
 * mr_clock_ns. */
bool mr_kafka_outage_must_ask(struct mr_kafka_outage *outage, uint64_t now_ns);
/* answers: a broker has answered. *seconds: how long brokers were unreachable; reason: a copy. */
enum mr_kafka_outage_change mr_kafka_outage_answer(struct mr_kafka_outage *outage, bool answers,
                                                   uint64_t now_ns, double *seconds,
                                                   char reason[MR_KAFKA_OUTAGE_REASON_BYTES]);

#endif
