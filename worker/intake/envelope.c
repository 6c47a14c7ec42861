#include "worker/intake/envelope.h"

#include "worker/config/config.h"
#include "worker/kafka/header_names.h"

#include <stdlib.h>
#include <string.h>

#define TOPIC_NAME_BYTES_MAX 249u /* Kafka's limit on the length of a topic name */

/* The headers that are read. The headers that answers repeat come first, in the order of enum
 * mr_echo. */
enum known {
    CONTENT_TYPE = MR_ECHOES,
    DEADLINE,
    REPLY_TOPIC,
    REPLY_PARTITION,
    REPLY,
    EVENT_VERSION,
    EVENT_ID,
    EVENT_TRACE_PARENT,
    EVENT_TRACE_STATE,
    KNOWN
};

static const char *const names[KNOWN] = {[MR_ECHO_CORRELATION] = MR_HEADER_CORRELATION,
                                         [MR_ECHO_TRACE_PARENT] = MR_HEADER_TRACE_PARENT,
                                         [MR_ECHO_TRACE_STATE] = MR_HEADER_TRACE_STATE,
                                         [MR_ECHO_BAGGAGE] = MR_HEADER_BAGGAGE,
                                         [CONTENT_TYPE] = MR_HEADER_CONTENT_TYPE,
                                         [DEADLINE] = MR_HEADER_DEADLINE,
                                         [REPLY_TOPIC] = MR_HEADER_REPLY_TOPIC,
                                         [REPLY_PARTITION] = MR_HEADER_REPLY_PARTITION,
                                         [REPLY] = MR_HEADER_REPLY,
                                         [EVENT_VERSION] = MR_HEADER_EVENT_VERSION,
                                         [EVENT_ID] = MR_HEADER_EVENT_ID,
                                         [EVENT_TRACE_PARENT] = MR_HEADER_EVENT_TRACE_PARENT,
                                         [EVENT_TRACE_STATE] = MR_HEADER_EVENT_TRACE_STATE};

static void find_known(const struct mr_kafka_record *record,
                       const struct mr_kafka_header *found[KNOWN])
{
    memset(found, 0, KNOWN * sizeof *found);
    for (size_t i = 0; i < record->header_count; i++)
        for (size_t k = 0; k < KNOWN; k++)
            if (strcmp(record->headers[i].name, names[k]) == 0) found[k] = &record->headers[i];
}

static struct mr_text text_of(const struct mr_kafka_header *header)
{
    if (!header || !header->value) return (struct mr_text){0};
    return (struct mr_text){header->value, header->length};
}

/* Reads unix milliseconds in decimal digits; false for any other text and for 0. */
static bool read_deadline(struct mr_text text, int64_t *out)
{
    int64_t value = 0;
    for (size_t i = 0; i < text.length; i++) {
        int digit = text.bytes[i] - '0';
        if (digit < 0 || digit > 9 || value > (INT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return value > 0;
}

/* Reads a partition number of 4 bytes, most significant first, as Spring for Kafka writes it; false
 * for any other length and for a negative number. */
static bool read_partition(struct mr_text text, int32_t *out)
{
    if (text.length != 4) return false;
    const unsigned char *bytes = (const unsigned char *)text.bytes;
    uint32_t value =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    if (value > INT32_MAX) return false;
    *out = (int32_t)value;
    return true;
}

static bool is_topic_name(struct mr_text topic)
{
    return topic.length > 0 && topic.length <= TOPIC_NAME_BYTES_MAX &&
           !memchr(topic.bytes, '\0', topic.length);
}

static bool is_allowed(const struct mr_text_list *allowed, struct mr_text topic)
{
    for (size_t i = 0; allowed && i < allowed->count; i++) {
        const char *entry = allowed->values[i];
        size_t length = strlen(entry);
        bool prefix = length > 0 && entry[length - 1] == '*';
        if (prefix) length--;
        if (topic.length < length || (!prefix && topic.length != length)) continue;
        if (memcmp(topic.bytes, entry, length) == 0) return true;
    }
    return false;
}

static void collect_echoes(struct mr_envelope *envelope,
                           const struct mr_kafka_header *const found[KNOWN])
{
    size_t bytes = 0;
    for (size_t i = 0; i < MR_ECHOES; i++) {
        const struct mr_kafka_header *header = found[i];
        if (!header && i == MR_ECHO_TRACE_PARENT) header = found[EVENT_TRACE_PARENT];
        if (!header && i == MR_ECHO_TRACE_STATE) header = found[EVENT_TRACE_STATE];
        if (!header) continue;
        size_t own = strlen(names[i]) + header->length;
        if (own > MR_ENVELOPE_ECHO_BYTES_MAX - bytes) {
            envelope->oversized = names[i];
            continue;
        }
        bytes += own;
        envelope->echo[envelope->echo_count++] =
            (struct mr_kafka_header){names[i], header->value, header->length};
    }
}

static void reject(struct mr_envelope *envelope, enum known header, const char *wanted)
{
    envelope->bad = names[header];
    envelope->wanted = wanted;
}

/* Reads the headers whose value may be invalid. */
static void read_checked(struct mr_envelope *envelope,
                         const struct mr_kafka_header *const found[KNOWN])
{
    struct mr_text deadline = text_of(found[DEADLINE]), topic = text_of(found[REPLY_TOPIC]),
                   partition = text_of(found[REPLY_PARTITION]), reply = text_of(found[REPLY]);
    envelope->reply_partition = -1;
    if (partition.bytes && !read_partition(partition, &envelope->reply_partition))
        reject(envelope, REPLY_PARTITION, "4 bytes, big-endian, not negative");
    if (topic.bytes && !is_topic_name(topic)) reject(envelope, REPLY_TOPIC, "the name of a topic");
    envelope->reply_tokens = mr_text_is(reply, MR_HEADER_REPLY_TOKENS);
    if (reply.bytes && !envelope->reply_tokens)
        reject(envelope, REPLY, "\"" MR_HEADER_REPLY_TOKENS "\"");
    else if (reply.bytes && !topic.bytes)
        reject(envelope, REPLY, "absent in a record without " MR_HEADER_REPLY_TOPIC);
    if (deadline.bytes && !read_deadline(deadline, &envelope->deadline_ms)) {
        envelope->deadline_ms = 0;
        reject(envelope, DEADLINE, "unix milliseconds in decimal digits");
    }
}

void mr_envelope_read(struct mr_envelope *envelope, const struct mr_kafka_record *record,
                      const struct mr_text_list *allowed)
{
    const struct mr_kafka_header *found[KNOWN];
    find_known(record, found);
    *envelope = (struct mr_envelope){.content_type = text_of(found[CONTENT_TYPE]),
                                     .reply_topic = text_of(found[REPLY_TOPIC]),
                                     .is_event = found[EVENT_VERSION] != NULL};
    read_checked(envelope, found);
    envelope->reply_allowed =
        is_topic_name(envelope->reply_topic) && is_allowed(allowed, envelope->reply_topic);
    if (envelope->is_event) envelope->event_id = text_of(found[EVENT_ID]);
    collect_echoes(envelope, found);
}

struct mr_text mr_envelope_tenant(const struct mr_kafka_record *record)
{
    return text_of(mr_kafka_record_header(record, MR_HEADER_TENANT));
}
