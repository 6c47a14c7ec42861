#include "worker/intake/recovery.h"

#include "worker/base/clock.h"
#include "worker/kafka/kafka_reader.h"
#include "worker/publish/output.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TAKE_MS ((uint32_t)100)
#define MS_NS   ((uint64_t)1000000)

struct mr_recovery {
    struct mr_recovery_options options;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t asked_changed;
    struct mr_recovery_look *asked, *answered; /* under mutex */
    atomic_bool stopping;
};

/* ---- one record ---- */

static bool is_group(const struct mr_kafka_record *record, const char *group)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, MR_HEADER_GROUP);
    return header && header->value && header->length == strlen(group) &&
           memcmp(header->value, group, header->length) == 0;
}

/* A number that fills [text, end); -1 for anything else. */
static int64_t number_of(const char *text, const char *end)
{
    int64_t value = 0;
    if (text == end || end - text > 18) return -1;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9') return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

struct source {
    struct mr_text topic;
    int64_t partition, offset;
};

/* topic/partition/offset; a topic's name has no slash. */
static bool read_source(const struct mr_kafka_record *record, struct source *source)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, MR_HEADER_SOURCE);
    if (!header || !header->value) return false;
    const char *text = header->value, *end = text + header->length;
    const char *first = memchr(text, '/', header->length);
    const char *second = first ? memchr(first + 1, '/', (size_t)(end - first - 1)) : NULL;
    if (!second) return false;
    source->topic = (struct mr_text){text, (size_t)(first - text)};
    source->partition = number_of(first + 1, second);
    source->offset = number_of(second + 1, end);
    return source->partition >= 0 && source->offset >= 0;
}

static bool concerns(const struct mr_recovery_look *look, const struct source *source,
                     int64_t timestamp_ms)
{
    return look->partition == source->partition && timestamp_ms >= look->since_ms &&
           look->base >= 0 && source->offset >= look->base &&
           source->offset - look->base < (int64_t)MR_LEDGER_SPAN_MAX &&
           strlen(look->topic) == source->topic.length &&
           memcmp(look->topic, source->topic.bytes, source->topic.length) == 0;
}

void mr_recovery_note(struct mr_recovery_look *looks, const struct mr_kafka_record *record,
                      const char *group)
{
    struct source source;
    if (!is_group(record, group) || !read_source(record, &source)) return;
    for (struct mr_recovery_look *look = looks; look; look = look->next) {
        if (!concerns(look, &source, record->timestamp_ms)) continue;
        uint32_t bit = (uint32_t)(source.offset - look->base);
        unsigned char mask = (unsigned char)(1u << (bit % 8));
        if (!(look->finished[bit / 8] & mask)) look->found++;
        look->finished[bit / 8] |= mask;
    }
}

/* ---- one round ---- */

static uint32_t left_ms(uint64_t until_ns)
{
    uint64_t now_ns = mr_clock_ns();
    return now_ns < until_ns ? (uint32_t)((until_ns - now_ns) / MS_NS) + 1 : 1;
}

static enum mr_status open_reader(struct mr_recovery *recovery,
                                  const struct mr_recovery_look *looks, uint64_t until_ns,
                                  struct mr_kafka_reader **reader, struct mr_error *err)
{
    const char *topics[] = {recovery->options.results_topic, recovery->options.dlq_topic};
    struct mr_kafka_reader_options options = {.kafka = recovery->options.kafka,
                                              .topics = topics,
                                              .topic_count = 2,
                                              .from = MR_KAFKA_FROM_TIME,
                                              .since_ms = looks->since_ms,
                                              .until_end = true,
                                              .uncommitted = !recovery->options.committed_only,
                                              .timeout_ms = left_ms(until_ns)};
    for (const struct mr_recovery_look *look = looks; look; look = look->next)
        if (look->since_ms < options.since_ms) options.since_ms = look->since_ms;
    return mr_kafka_reader_create(reader, &options, err);
}

/* Where partitions begin of which nothing was committed. */
static enum mr_status find_bases(struct mr_kafka_reader *reader, struct mr_recovery_look *looks,
                                 uint64_t until_ns, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (struct mr_recovery_look *look = looks; look && status == MR_OK; look = look->next)
        if (look->base < 0)
            status = mr_kafka_reader_first(reader, look->topic, look->partition, left_ms(until_ns),
                                           &look->base, err);
    return status;
}

static uint64_t read_all(struct mr_recovery *recovery, struct mr_kafka_reader *reader,
                         struct mr_recovery_look *looks, uint64_t until_ns)
{
    struct mr_kafka_record record;
    uint64_t count = 0;
    while (mr_kafka_reader_is_behind(reader) && mr_clock_ns() < until_ns &&
           !atomic_load(&recovery->stopping)) {
        if (!mr_kafka_reader_take(reader, TAKE_MS, &record)) continue;
        mr_recovery_note(looks, &record, recovery->options.group);
        count++;
    }
    return count;
}

static void look(struct mr_recovery *recovery, struct mr_recovery_look *looks)
{
    struct mr_error err = {0};
    struct mr_kafka_reader *reader = NULL;
    uint64_t began_ns = mr_clock_ns();
    uint64_t until_ns = began_ns + recovery->options.timeout_ms * MS_NS;
    uint64_t records = 0;
    bool complete = false;
    enum mr_status status = open_reader(recovery, looks, until_ns, &reader, &err);
    if (status == MR_OK) status = find_bases(reader, looks, until_ns, &err);
    if (status == MR_OK) {
        records = read_all(recovery, reader, looks, until_ns);
        complete = !mr_kafka_reader_is_behind(reader);
        mr_fail(&err, MR_TIMEOUT, "not all was read in time");
    }
    mr_kafka_reader_destroy(reader);
    for (struct mr_recovery_look *each = looks; each; each = each->next)
        each->complete = complete;
    unsigned long long took_ms = (mr_clock_ns() - began_ns) / MS_NS;
    if (complete)
        mr_log_info(recovery->options.log, "looked through %llu results in %llu ms",
                    (unsigned long long)records, took_ms);
    else if (!atomic_load(&recovery->stopping))
        mr_log_warn(
            recovery->options.log,
            "looked through %llu results in %llu ms: %s; finished requests may be run again",
            (unsigned long long)records, took_ms, err.detail);
}

/* ---- the thread ---- */

static struct mr_recovery_look *wait_asked(struct mr_recovery *recovery)
{
    pthread_mutex_lock(&recovery->mutex);
    while (!recovery->asked && !atomic_load(&recovery->stopping))
        pthread_cond_wait(&recovery->asked_changed, &recovery->mutex);
    struct mr_recovery_look *looks = recovery->asked;
    recovery->asked = NULL;
    pthread_mutex_unlock(&recovery->mutex);
    return looks;
}

static void put(struct mr_recovery_look **list, struct mr_recovery_look *looks)
{
    struct mr_recovery_look **end = &looks;
    while (*end)
        end = &(*end)->next;
    *end = *list;
    *list = looks;
}

static void answer(struct mr_recovery *recovery, struct mr_recovery_look *looks)
{
    pthread_mutex_lock(&recovery->mutex);
    put(&recovery->answered, looks);
    pthread_mutex_unlock(&recovery->mutex);
    if (recovery->options.wake) mr_wake_ring(recovery->options.wake);
}

static void *run(void *argument)
{
    struct mr_recovery *recovery = argument;
    while (!atomic_load(&recovery->stopping)) {
        struct mr_recovery_look *looks = wait_asked(recovery);
        if (!looks) continue;
        look(recovery, looks);
        answer(recovery, looks);
    }
    return NULL;
}

/* ---- the owner ---- */

enum mr_status mr_recovery_create(struct mr_recovery **out,
                                  const struct mr_recovery_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_recovery *recovery = calloc(1, sizeof *recovery);
    if (!recovery) return mr_fail(err, MR_NOMEM, "no memory for recovery");
    recovery->options = *options;
    pthread_mutex_init(&recovery->mutex, NULL);
    pthread_cond_init(&recovery->asked_changed, NULL);
    if (pthread_create(&recovery->thread, NULL, run, recovery) != 0) {
        pthread_cond_destroy(&recovery->asked_changed);
        pthread_mutex_destroy(&recovery->mutex);
        free(recovery);
        return mr_fail(err, MR_NOMEM, "no thread for recovery");
    }
    pthread_setname_np(recovery->thread, "recovery");
    *out = recovery;
    return MR_OK;
}

void mr_recovery_ask(struct mr_recovery *recovery, struct mr_recovery_look *looks)
{
    pthread_mutex_lock(&recovery->mutex);
    put(&recovery->asked, looks);
    pthread_cond_signal(&recovery->asked_changed);
    pthread_mutex_unlock(&recovery->mutex);
}

struct mr_recovery_look *mr_recovery_take(struct mr_recovery *recovery)
{
    pthread_mutex_lock(&recovery->mutex);
    struct mr_recovery_look *looks = recovery->answered;
    recovery->answered = NULL;
    pthread_mutex_unlock(&recovery->mutex);
    return looks;
}

static void free_looks(struct mr_recovery_look *looks)
{
    for (struct mr_recovery_look *next; looks; looks = next) {
        next = looks->next;
        free(looks);
    }
}

void mr_recovery_destroy(struct mr_recovery *recovery)
{
    if (!recovery) return;
    pthread_mutex_lock(&recovery->mutex);
    atomic_store(&recovery->stopping, true);
    pthread_cond_signal(&recovery->asked_changed);
    pthread_mutex_unlock(&recovery->mutex);
    pthread_join(recovery->thread, NULL);
    free_looks(recovery->asked);
    free_looks(recovery->answered);
    pthread_cond_destroy(&recovery->asked_changed);
    pthread_mutex_destroy(&recovery->mutex);
    free(recovery);
}
