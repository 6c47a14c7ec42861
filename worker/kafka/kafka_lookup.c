#include "worker/kafka/kafka_lookup.h"

#include "worker/base/thread.h"
#include "worker/kafka/kafka_client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOOKUPS_MAX     64u
#define TOPIC_BYTES_MAX 249u
#define TIMEOUT_MS      5000u

enum lookup_state { LOOKUP_FREE, LOOKUP_WAITING, LOOKUP_SENT, LOOKUP_ANSWERED };

struct lookup {
    enum lookup_state state;
    char topic[TOPIC_BYTES_MAX + 1];
    uint32_t count;
    struct mr_error error; /* if error.status is MR_OK, count is the answer */
};

struct mr_kafka_lookup {
    struct rd_kafka_s *rk;
    const struct mr_wake *answered;
    struct mr_wake wake; /* rung when a topic has been added that waits to be looked up */
    struct mr_thread *thread;
    pthread_mutex_t mutex;
    struct lookup lookups[LOOKUPS_MAX]; /* protected by the mutex */
};

/* Changes the state of every lookup that is in the state `from`; returns how many changed. */
static uint32_t move_all(struct mr_kafka_lookup *lookup, enum lookup_state from,
                         enum lookup_state to)
{
    uint32_t moved = 0;
    for (size_t i = 0; i < LOOKUPS_MAX; i++) {
        if (lookup->lookups[i].state != from) continue;
        lookup->lookups[i].state = to;
        moved++;
    }
    return moved;
}

static void on_topic(void *context, const char *topic, int32_t partition_count)
{
    struct mr_kafka_lookup *lookup = context;
    pthread_mutex_lock(&lookup->mutex);
    for (size_t i = 0; i < LOOKUPS_MAX; i++) {
        struct lookup *one = &lookup->lookups[i];
        if (one->state == LOOKUP_SENT && strcmp(one->topic, topic) == 0)
            one->count = (uint32_t)partition_count;
    }
    pthread_mutex_unlock(&lookup->mutex);
}

/* The step of the lookup thread, whose only work is the blocking metadata call. */
static uint64_t step(void *state, struct mr_time now)
{
    struct mr_kafka_lookup *lookup = state;
    (void)now;
    pthread_mutex_lock(&lookup->mutex);
    uint32_t sent = move_all(lookup, LOOKUP_WAITING, LOOKUP_SENT);
    pthread_mutex_unlock(&lookup->mutex);
    if (sent == 0) return UINT64_MAX;
    struct mr_error err = {0};
    mr_kafka_client_topics(lookup->rk, TIMEOUT_MS, on_topic, lookup, &err);
    pthread_mutex_lock(&lookup->mutex);
    for (size_t i = 0; i < LOOKUPS_MAX; i++)
        if (lookup->lookups[i].state == LOOKUP_SENT) lookup->lookups[i].error = err;
    move_all(lookup, LOOKUP_SENT, LOOKUP_ANSWERED);
    pthread_mutex_unlock(&lookup->mutex);
    if (lookup->answered) mr_wake_ring(lookup->answered);
    return 0;
}

enum mr_status mr_kafka_lookup_create(struct mr_kafka_lookup **out, struct rd_kafka_s *rk,
                                      const struct mr_wake *answered, struct mr_error *err)
{
    *out = NULL;
    struct mr_kafka_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup) return mr_fail(err, MR_NOMEM, "no memory for topic lookups");
    enum mr_status status = mr_wake_open(&lookup->wake, err);
    if (status != MR_OK) {
        free(lookup);
        return status;
    }
    lookup->rk = rk;
    lookup->answered = answered;
    pthread_mutex_init(&lookup->mutex, NULL);
    *out = lookup;
    return MR_OK;
}

void mr_kafka_lookup_destroy(struct mr_kafka_lookup *lookup)
{
    if (!lookup) return;
    mr_thread_stop(lookup->thread);
    mr_wake_close(&lookup->wake);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

/* Returns the lookup of this topic; if there is none, a free one, or one whose answer nobody has
 * collected; NULL: none of these. The caller holds the mutex. */
static struct lookup *find(struct mr_kafka_lookup *lookup, const char *topic)
{
    struct lookup *free_one = NULL, *answered = NULL;
    for (size_t i = 0; i < LOOKUPS_MAX; i++) {
        struct lookup *one = &lookup->lookups[i];
        if (one->state == LOOKUP_FREE)
            free_one = one;
        else if (strcmp(one->topic, topic) == 0)
            return one;
        else if (one->state == LOOKUP_ANSWERED)
            answered = one;
    }
    if (!free_one && answered) answered->state = LOOKUP_FREE;
    return free_one ? free_one : answered;
}

/* Looks up the topic's answer in the table. MR_AGAIN: no answer yet; *begun tells whether this call
 * added the topic to the table. */
static enum mr_status query(struct mr_kafka_lookup *lookup, const char *topic, uint32_t *count,
                            bool *begun, struct mr_error *err)
{
    struct lookup *one = find(lookup, topic);
    *begun = one && one->state == LOOKUP_FREE;
    if (*begun) {
        *one = (struct lookup){.state = LOOKUP_WAITING};
        memcpy(one->topic, topic, strlen(topic) + 1);
    }
    if (!one || one->state != LOOKUP_ANSWERED) return MR_AGAIN;
    one->state = LOOKUP_FREE;
    *count = one->count;
    if (one->error.status != MR_OK && err) *err = one->error;
    return one->error.status;
}

enum mr_status mr_kafka_lookup_query(struct mr_kafka_lookup *lookup, const char *topic,
                                     uint32_t *count, struct mr_error *err)
{
    bool begun = false;
    *count = 0;
    /* the name is too long for a Kafka topic, so no such topic exists: return 0 partitions */
    if (strlen(topic) > TOPIC_BYTES_MAX) return MR_OK;
    if (!lookup->thread) {
        struct mr_thread_options options = {
            .name = "topic-lookup", .step = step, .state = lookup, .wake = &lookup->wake};
        enum mr_status status = mr_thread_start(&lookup->thread, &options, err);
        if (status != MR_OK) return status;
    }
    pthread_mutex_lock(&lookup->mutex);
    enum mr_status status = query(lookup, topic, count, &begun, err);
    pthread_mutex_unlock(&lookup->mutex);
    if (begun) mr_wake_ring(&lookup->wake);
    return status;
}
