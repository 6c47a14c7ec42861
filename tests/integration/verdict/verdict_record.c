/* Part of verdict.h: reads Kafka records for the checks. */
#include "codec/records/reply.h"
#include "codec/records/request_decode.h"
#include "tests/integration/verdict/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES_MAX ((size_t)1 << 20)
#define ARENA_BYTES      ((size_t)64 << 20)

static struct mr_text content_type(const struct mr_kafka_record *record)
{
    const struct mr_kafka_header *header = mr_kafka_record_header(record, "content-type");
    if (!header || !header->value) return (struct mr_text){0};
    return (struct mr_text){header->value, header->length};
}

static struct verdict_place place_of(const struct mr_kafka_record *record)
{
    return (struct verdict_place){record->topic, record->partition, record->offset};
}

/* A record that is not a valid request goes to the dead-letter topic. It has a result only if its
 * id is readable. */
static bool is_no_request(enum mr_status status)
{
    return status == MR_MALFORMED || status == MR_UNSUPPORTED_ENCODING ||
           status == MR_RECORD_TOO_LARGE || status == MR_INVALID_REQUEST ||
           status == MR_UNKNOWN_FIELD;
}

/* A tombstone is not a request: it may have neither a result nor a dead letter. */
static void take_request(struct verdict *verdict, const struct mr_kafka_record *record)
{
    char fallback[MR_ID_BYTES_MAX + 1];
    if (!record->value.bytes) return;
    snprintf(fallback, sizeof fallback, "%.80s/%" PRId32 "/%" PRId64, record->topic,
             record->partition, record->offset);
    struct mr_request_context context = {.key = record->key,
                                         .fallback_id = {fallback, strlen(fallback)},
                                         .content_type = content_type(record),
                                         .timestamp_ms = record->timestamp_ms,
                                         .now_ms = record->timestamp_ms,
                                         .default_max_tokens = 256,
                                         .record_bytes_max = RECORD_BYTES_MAX};
    struct verdict_place place = place_of(record);
    struct mr_reply_address address;
    struct mr_request *request = NULL;
    enum mr_status status = mr_request_decode(&request, record->value, &context, &address, NULL);
    struct mr_text id = {address.id, strlen(address.id)};
    if (is_no_request(status) && !address.id_readable) id.bytes = NULL;
    verdict_request(verdict, &place, id, request && request->stream, record->timestamp_ms);
    mr_request_destroy(request);
}

static void take_answer(struct verdict *verdict, const struct mr_kafka_record *record, bool tokens)
{
    struct mr_token_record piece;
    struct mr_result result;
    struct mr_error err = {0};
    enum mr_encoding encoding;
    struct verdict_place place = place_of(record);
    struct mr_arena *arena = mr_arena_create(ARENA_BYTES);
    enum mr_status status =
        mr_encoding_detect(content_type(record), record->value, &encoding, &err);
    if (status == MR_OK && tokens)
        status = mr_token_record_decode(&piece, record->value, encoding, arena, &err);
    else if (status == MR_OK)
        status = mr_result_decode(&result, record->value, encoding, arena, &err);
    if (status != MR_OK)
        verdict_broken(verdict, &place, err.detail);
    else if (tokens)
        verdict_tokens(verdict, &piece);
    else
        verdict_result(verdict, &result, record->timestamp_ms);
    mr_arena_destroy(arena);
}

/* The number in a header, or -1. */
static int64_t header_number(const struct mr_kafka_record *record, const char *name)
{
    char text[32];
    const struct mr_kafka_header *header = mr_kafka_record_header(record, name);
    if (!header || !header->value || header->length >= sizeof text) return -1;
    memcpy(text, header->value, header->length);
    text[header->length] = '\0';
    return strtoll(text, NULL, 10);
}

static void take_dead_letter(struct verdict *verdict, const struct mr_kafka_record *record)
{
    char topic[256];
    const struct mr_kafka_header *header = mr_kafka_record_header(record, "__connect.errors.topic");
    struct verdict_place own = place_of(record);
    if (!header || !header->value || header->length >= sizeof topic) {
        verdict_broken(verdict, &own, "a dead letter without its origin");
        return;
    }
    memcpy(topic, header->value, header->length);
    topic[header->length] = '\0';
    struct verdict_place place = {topic,
                                  (int32_t)header_number(record, "__connect.errors.partition"),
                                  header_number(record, "__connect.errors.offset")};
    verdict_dead_letter(verdict, &place, record->timestamp_ms);
}

void verdict_record(struct verdict *verdict, const struct verdict_topics *topics,
                    const struct mr_kafka_record *record)
{
    if (strcmp(record->topic, topics->tokens) == 0)
        take_answer(verdict, record, true);
    else if (strcmp(record->topic, topics->results) == 0)
        take_answer(verdict, record, false);
    else if (strcmp(record->topic, topics->dead_letters) == 0)
        take_dead_letter(verdict, record);
    else
        take_request(verdict, record);
}
