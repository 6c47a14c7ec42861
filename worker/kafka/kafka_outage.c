#include "worker/kafka/kafka_outage.h"

#include <stdio.h>
#include <string.h>

#define ASK_NS ((uint64_t)1000000000)

void mr_kafka_outage_open(struct mr_kafka_outage *outage)
{
    *outage = (struct mr_kafka_outage){.suspected = false};
    pthread_mutex_init(&outage->mutex, NULL);
}

void mr_kafka_outage_close(struct mr_kafka_outage *outage)
{
    pthread_mutex_destroy(&outage->mutex);
}

/* The reason of a lost connection comes before or after the report that all are lost. */
void mr_kafka_outage_note(struct mr_kafka_outage *outage, bool unreachable, const char *reason,
                          uint64_t now_ns)
{
    pthread_mutex_lock(&outage->mutex);
    if (!unreachable || !outage->reason[0])
        snprintf(outage->reason, sizeof outage->reason, "%s", reason);
    if (unreachable && !outage->suspected) {
        outage->suspected = true;
        outage->since_ns = now_ns;
        outage->ask_ns = now_ns + ASK_NS;
    }
    pthread_mutex_unlock(&outage->mutex);
}

bool mr_kafka_outage_must_ask(struct mr_kafka_outage *outage, uint64_t now_ns)
{
    pthread_mutex_lock(&outage->mutex);
    bool must = outage->suspected && now_ns >= outage->ask_ns;
    pthread_mutex_unlock(&outage->mutex);
    return must;
}

enum mr_kafka_outage_change mr_kafka_outage_answer(struct mr_kafka_outage *outage, bool answers,
                                                   uint64_t now_ns, double *seconds,
                                                   char reason[MR_KAFKA_OUTAGE_REASON_BYTES])
{
    enum mr_kafka_outage_change change = MR_KAFKA_OUTAGE_NONE;
    pthread_mutex_lock(&outage->mutex);
    outage->ask_ns = now_ns + ASK_NS;
    *seconds = (double)(now_ns - outage->since_ns) / 1e9;
    memcpy(reason, outage->reason, sizeof outage->reason);
    if (!answers && !outage->announced) change = MR_KAFKA_OUTAGE_BEGAN;
    if (answers && outage->announced) change = MR_KAFKA_OUTAGE_ENDED;
    outage->announced = !answers;
    if (answers) {
        outage->suspected = false;
        outage->reason[0] = '\0';
    }
    pthread_mutex_unlock(&outage->mutex);
    return change;
}
