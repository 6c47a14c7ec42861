/* answering - the worker's side of the topics in place of a worker, for tests of the gateway: reads
 * request and cancel records, writes records of answers. */
#ifndef MR_TESTS_UNIT_WORKER_GATEWAY_ANSWERING_H
#define MR_TESTS_UNIT_WORKER_GATEWAY_ANSWERING_H

#include "tests/unit/worker/broker.h"
#include "worker/base/clock.h"
#include "worker/kafka/header_names.h"
#include "worker/kafka/kafka_out.h"
#include "worker/kafka/kafka_reader.h"

#include <string.h>

#define ANSWER_WAIT_MS 30000u

struct answering {
    struct mr_kafka_out *out;
    struct mr_kafka_reader *requests, *cancels;
};

static inline void ignore_report(void *context, void *opaque, enum mr_status status,
                                 const char *reason)
{
    (void)context;
    (void)opaque;
    (void)status;
    (void)reason;
}

static inline struct mr_kafka_reader *open_reader(const struct mr_kafka_options *kafka,
                                                  const char *topic)
{
    struct mr_kafka_reader *reader;
    struct mr_error err = {0};
    const struct mr_kafka_reader_options options = {.kafka = kafka,
                                                    .topics = &topic,
                                                    .topic_count = 1,
                                                    .from = MR_KAFKA_FROM_BEGINNING,
                                                    .timeout_ms = 10000};
    if (mr_kafka_reader_create(&reader, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    return reader;
}

/* kafka is borrowed. */
static inline void open_answering(struct answering *answering, const struct mr_kafka_options *kafka,
                                  const char *requests, const char *cancels)
{
    const struct mr_kafka_out_options options = {.kafka = kafka, .reported = ignore_report};
    assert_int_equal(mr_kafka_out_create(&answering->out, &options, NULL), MR_OK);
    answering->requests = open_reader(kafka, requests);
    answering->cancels = open_reader(kafka, cancels);
}

static inline void close_answering(struct answering *answering)
{
    mr_kafka_reader_destroy(answering->requests);
    mr_kafka_reader_destroy(answering->cancels);
    mr_kafka_out_destroy(answering->out);
}

static inline bool is_probe(const struct mr_kafka_record *record)
{
    static const char start[] = "gateway-probe-";
    return record->key.length >= sizeof start - 1 &&
           memcmp(record->key.bytes, start, sizeof start - 1) == 0;
}

/* The next request record: a probe of the gateway, or another one. Borrowed until the next call. */
static inline struct mr_kafka_record next_request(struct answering *answering, bool probe)
{
    struct mr_kafka_record record;
    do
        if (!mr_kafka_reader_take(answering->requests, ANSWER_WAIT_MS, &record))
            fail_msg("no request record came");
    while (is_probe(&record) != probe);
    return record;
}

/* Whether the next cancel record is that of the request. */
static inline bool is_cancelled(struct answering *answering, const char *id)
{
    struct mr_kafka_record record;
    return mr_kafka_reader_take(answering->cancels, ANSWER_WAIT_MS, &record) &&
           mr_text_is(record.key, id);
}

/* Writes a record of an answer. finish_reason: of a result; NULL: a token record. */
static inline void put_answer(struct answering *answering, const char *topic, int32_t partition,
                              struct mr_text id, const char *value, const char *finish_reason)
{
    const struct mr_kafka_header header = {MR_HEADER_FINISH_REASON, finish_reason,
                                           finish_reason ? strlen(finish_reason) : 0};
    const struct mr_kafka_record record = {.topic = topic,
                                           .partition = partition,
                                           .key = id,
                                           .value = {value, strlen(value)},
                                           .headers = &header,
                                           .header_count = finish_reason ? 1 : 0};
    assert_int_equal(mr_kafka_out_produce(answering->out, &record, NULL, NULL), MR_OK);
    assert_int_equal(mr_kafka_out_flush(answering->out, ANSWER_WAIT_MS), MR_OK);
}

#define RESULT                                                                                     \
    "{\"model\":\"m\",\"finish_reason\":\"eos\",\"stopped_by\":\"eos\",\"text\":\"Hello\","        \
    "\"content\":\"Hello\",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,"                \
    "\"total_tokens\":5,\"cached_tokens\":0}}"

#endif
