/* A producer in memory (worker/kafka/kafka_producer_port.h): records are accepted while fewer than
 * `room` have no report; each is reported by the next serve, unless the test holds the reports. */
#ifndef MR_TESTS_WORKER_FAKE_PRODUCER_H
#define MR_TESTS_WORKER_FAKE_PRODUCER_H

#include "worker/kafka/kafka_producer_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FAKE_RECORDS_MAX 256u

struct fake_record {
    char topic[64], value[1024];
    size_t length;
    char key[64];
    bool has_key;
    void *opaque;
    bool reported;
};

struct fake_producer {
    struct mr_producer_user user;
    struct fake_record records[FAKE_RECORDS_MAX]; /* [count], oldest first */
    uint32_t count, pending;
    uint32_t room;          /* most records without a report */
    size_t bytes_max;       /* a longer value is too large; 0: none is */
    size_t keys_max;        /* the same for keys */
    bool holding;           /* serve reports nothing */
    bool attending;         /* reports would ring the wake */
    enum mr_status outcome; /* status of reports from now on */
    /* topics whose reports have another status; wants_keys: only those of
     * records without a key */
    const char *refusing, *refusing_too;
    enum mr_status refusal, refusal_too; /* status for `refusing` and for `refusing_too`;
                                            refusal_too MR_OK: the same as refusal */
    bool wants_keys;
    enum mr_status partitions; /* status of a lookup */
    uint32_t partition_count, lookups;
    enum mr_status fatal;
    bool closed;
};

static inline enum mr_status fake_produce(void *self, const struct mr_kafka_record *record,
                                          void *opaque, struct mr_error *err)
{
    struct fake_producer *fake = self;
    struct fake_record *made = &fake->records[fake->count];
    if (fake->bytes_max > 0 && record->value.length > fake->bytes_max)
        return mr_fail(err, MR_RECORD_TOO_LARGE, "too large");
    if (fake->keys_max > 0 && record->key.length > fake->keys_max)
        return mr_fail(err, MR_RECORD_TOO_LARGE, "too large");
    if (fake->pending >= fake->room) return mr_fail(err, MR_FULL, "full");
    assert_true(fake->count < FAKE_RECORDS_MAX && record->value.length <= sizeof made->value);
    snprintf(made->topic, sizeof made->topic, "%s", record->topic);
    if (record->value.length > 0) memcpy(made->value, record->value.bytes, record->value.length);
    made->length = record->value.length;
    made->has_key = record->key.bytes != NULL;
    snprintf(made->key, sizeof made->key, "%.*s", (int)record->key.length,
             made->has_key ? record->key.bytes : "");
    made->opaque = opaque;
    fake->count++;
    fake->pending++;
    return MR_OK;
}

static inline enum mr_status fake_outcome(const struct fake_producer *fake,
                                          const struct fake_record *record)
{
    bool too = fake->refusing_too && strcmp(fake->refusing_too, record->topic) == 0;
    bool refused = too || (fake->refusing && strcmp(fake->refusing, record->topic) == 0);
    if (fake->wants_keys && record->has_key) refused = false;
    if (refused && too && fake->refusal_too != MR_OK) return fake->refusal_too;
    return refused ? fake->refusal : fake->outcome;
}

static inline void fake_serve(void *self)
{
    struct fake_producer *fake = self;
    for (uint32_t i = 0; i < fake->count && !fake->holding; i++) {
        struct fake_record *record = &fake->records[i];
        if (record->reported) continue;
        record->reported = true;
        fake->pending--;
        fake->user.reported(fake->user.context, record->opaque, fake_outcome(fake, record),
                            "outcome");
    }
}

static inline bool fake_attend(void *self, bool on)
{
    ((struct fake_producer *)self)->attending = on;
    return false;
}

static inline uint32_t fake_pending(void *self)
{
    return ((struct fake_producer *)self)->pending;
}

static inline enum mr_status fake_partitions(void *self, const char *topic, uint32_t *count,
                                             struct mr_error *err)
{
    struct fake_producer *fake = self;
    (void)topic, (void)err;
    fake->lookups++;
    *count = fake->partition_count;
    return fake->partitions;
}

static inline enum mr_status fake_fatal(void *self, struct mr_error *err)
{
    enum mr_status status = ((struct fake_producer *)self)->fatal;
    return status == MR_OK ? MR_OK : mr_fail(err, status, "broken");
}

static inline void fake_close(void *self)
{
    ((struct fake_producer *)self)->closed = true;
}

static inline enum mr_status fake_open(void *context, const struct mr_producer_user *user,
                                       struct mr_producer_port *port, struct mr_error *err)
{
    struct fake_producer *fake = context;
    (void)err;
    fake->user = *user;
    *port = (struct mr_producer_port){.self = fake,
                                      .produce = fake_produce,
                                      .serve = fake_serve,
                                      .attend = fake_attend,
                                      .pending = fake_pending,
                                      .partitions = fake_partitions,
                                      .fatal = fake_fatal,
                                      .close = fake_close};
    return MR_OK;
}

static inline struct mr_producer_opener fake_producer_opener(struct fake_producer *fake)
{
    *fake =
        (struct fake_producer){.room = FAKE_RECORDS_MAX, .attending = true, .partition_count = 1};
    return (struct mr_producer_opener){fake, fake_open};
}

/* How many records went to the topic. */
static inline uint32_t fake_count(const struct fake_producer *fake, const char *topic)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fake->count; i++)
        count += strcmp(fake->records[i].topic, topic) == 0;
    return count;
}

#endif
