#include "worker/kafka/kafka_lookup.h"

#include "worker/base/thread.h"
#include "worker/kafka/kafka_client.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Longest time of one step: librdkafka's metadata call, which has a timeout. */
#define STEP_MAX_NS ((uint64_t)120000000000)

#define LOOKUPS_MAX     64u
#define TOPIC_BYTES_MAX 249u
#define TIMEOUT_MS      2000u
#define PAUSE_NS        ((uint64_t)1000000000) /* until the next try when no broker answers */

enum lookup_state { LOOKUP_FREE, LOOKUP_WAITING, LOOKUP_ANSWERED };

struct lookup {
    enum lookup_state state;
    char topic[TOPIC_BYTES_MAX + 1];
    uint64_t try_ns;   /* earliest time of the next try, after one that failed */
    uint32_t count;    /* the answer */
    uint64_t until_ns; /* until when the answer is valid */
    bool collected;    /* the answer was returned; before that it stays valid */
};

struct mr_kafka_lookup {
    /* must be the first field: callbacks in kafka_conf.c read it */
    const struct mr_kafka_options *kafka;
    struct mr_kafka_lookup_options options;
    rd_kafka_t *rk;      /* used by the thread; NULL before its first step */
    struct mr_wake wake; /* rung when a topic has been added that waits to be looked up */
    struct mr_thread *thread;
    pthread_mutex_t mutex;
    struct lookup lookups[LOOKUPS_MAX]; /* protected by the mutex */
};

/* ---- the thread ---- */

/* Finds the topic to look up next and copies its name; returns when it is due, UINT64_MAX: none
 * waits. Only this thread ends the state WAITING, so the lookup at *index does not change. */
static uint64_t next_waiting(struct mr_kafka_lookup *lookup, size_t *index,
                             char topic[TOPIC_BYTES_MAX + 1])
{
    uint64_t due_ns = UINT64_MAX;
    pthread_mutex_lock(&lookup->mutex);
    for (size_t i = 0; i < LOOKUPS_MAX; i++) {
        const struct lookup *one = &lookup->lookups[i];
        if (one->state != LOOKUP_WAITING || one->try_ns >= due_ns) continue;
        due_ns = one->try_ns;
        *index = i;
        memcpy(topic, one->topic, sizeof one->topic);
    }
    pthread_mutex_unlock(&lookup->mutex);
    return due_ns;
}

static void put_off(struct mr_kafka_lookup *lookup, size_t index)
{
    pthread_mutex_lock(&lookup->mutex);
    lookup->lookups[index].try_ns = mr_clock_ns() + PAUSE_NS;
    pthread_mutex_unlock(&lookup->mutex);
}

static void answer(struct mr_kafka_lookup *lookup, size_t index, uint32_t count)
{
    const struct mr_kafka_lookup_options *options = &lookup->options;
    struct lookup *one = &lookup->lookups[index];
    pthread_mutex_lock(&lookup->mutex);
    one->state = LOOKUP_ANSWERED;
    one->count = count;
    one->until_ns = mr_clock_ns() + (count > 0 ? options->keep_ns : options->keep_missing_ns);
    pthread_mutex_unlock(&lookup->mutex);
    if (options->answered) mr_wake_ring(options->answered);
}

static enum mr_status open_client(struct mr_kafka_lookup *lookup)
{
    rd_kafka_conf_t *conf = NULL;
    if (lookup->rk) return MR_OK;
    enum mr_status status =
        mr_kafka_conf_create(&conf, MR_KAFKA_READER, lookup->kafka, lookup, NULL);
    return status == MR_OK ? mr_kafka_conf_open(&lookup->rk, conf, MR_KAFKA_READER, NULL) : status;
}

/* The embedded test broker creates every topic that a request names, so with it the answer is taken
 * from the list of all topics. */
static enum mr_status ask(struct mr_kafka_lookup *lookup, const char *topic, uint32_t *count)
{
    enum mr_status status = open_client(lookup);
    if (status != MR_OK) return status;
    if (lookup->kafka->embedded)
        return mr_kafka_client_partitions(lookup->rk, topic, TIMEOUT_MS, count, NULL);
    return mr_kafka_client_ask(lookup->rk, topic, TIMEOUT_MS, count, NULL);
}

/* The step of the lookup thread, whose only work is the blocking metadata call. */
static uint64_t step(void *state, struct mr_time now)
{
    struct mr_kafka_lookup *lookup = state;
    char topic[TOPIC_BYTES_MAX + 1];
    uint32_t count = 0;
    size_t index = 0;
    uint64_t due_ns = next_waiting(lookup, &index, topic);
    if (due_ns > now.ns) return due_ns;
    if (ask(lookup, topic, &count) == MR_OK)
        answer(lookup, index, count);
    else
        put_off(lookup, index);
    return 0;
}

/* ---- the owner ---- */

enum mr_status mr_kafka_lookup_create(struct mr_kafka_lookup **out,
                                      const struct mr_kafka_lookup_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup) return mr_fail(err, MR_NOMEM, "no memory for topic lookups");
    enum mr_status status = mr_wake_open(&lookup->wake, err);
    if (status != MR_OK) {
        free(lookup);
        return status;
    }
    lookup->options = *options;
    lookup->kafka = options->kafka;
    pthread_mutex_init(&lookup->mutex, NULL);
    *out = lookup;
    return MR_OK;
}

void mr_kafka_lookup_destroy(struct mr_kafka_lookup *lookup)
{
    if (!lookup) return;
    mr_thread_stop(lookup->thread);
    if (lookup->rk) mr_kafka_conf_close(lookup->rk, false);
    mr_wake_close(&lookup->wake);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

/* Returns the lookup of this topic; if there is none, a free one, or the one whose answer ends
 * first; NULL: all others wait for their answers. The caller holds the mutex. */
static struct lookup *find(struct mr_kafka_lookup *lookup, const char *topic)
{
    struct lookup *free_one = NULL, *oldest = NULL;
    for (size_t i = 0; i < LOOKUPS_MAX; i++) {
        struct lookup *one = &lookup->lookups[i];
        if (one->state == LOOKUP_FREE)
            free_one = one;
        else if (strcmp(one->topic, topic) == 0)
            return one;
        else if (one->state == LOOKUP_ANSWERED && (!oldest || one->until_ns < oldest->until_ns))
            oldest = one;
    }
    if (!free_one && oldest) oldest->state = LOOKUP_FREE;
    return free_one ? free_one : oldest;
}

/* Looks up the topic's answer in the table. MR_AGAIN: no answer yet; *begun: this call has added
 * the topic to those that wait to be looked up. */
static enum mr_status query(struct mr_kafka_lookup *lookup, const char *topic, uint32_t *count,
                            bool *begun)
{
    struct lookup *one = find(lookup, topic);
    if (!one) return MR_AGAIN;
    bool stale = one->state == LOOKUP_ANSWERED && one->collected && mr_clock_ns() >= one->until_ns;
    *begun = one->state == LOOKUP_FREE || stale;
    if (*begun) {
        *one = (struct lookup){.state = LOOKUP_WAITING};
        memcpy(one->topic, topic, strlen(topic) + 1);
    }
    if (one->state != LOOKUP_ANSWERED) return MR_AGAIN;
    one->collected = true;
    *count = one->count;
    return MR_OK;
}

enum mr_status mr_kafka_lookup_query(struct mr_kafka_lookup *lookup, const char *topic,
                                     uint32_t *count, struct mr_error *err)
{
    bool begun = false;
    *count = 0;
    /* the name is too long for a Kafka topic, so no such topic exists: return 0 partitions */
    if (strlen(topic) > TOPIC_BYTES_MAX) return MR_OK;
    if (!lookup->thread) {
        struct mr_thread_options options = {.name = "topic-lookup",
                                            .step = step,
                                            .state = lookup,
                                            .wake = &lookup->wake,
                                            .heartbeats = lookup->kafka->heartbeats,
                                            .step_max_ns = STEP_MAX_NS};
        enum mr_status status = mr_thread_start(&lookup->thread, &options, err);
        if (status != MR_OK) return status;
    }
    pthread_mutex_lock(&lookup->mutex);
    enum mr_status status = query(lookup, topic, count, &begun);
    pthread_mutex_unlock(&lookup->mutex);
    if (begun) mr_wake_ring(&lookup->wake);
    return status;
}
