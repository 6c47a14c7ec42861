#include "worker/intake/decode.h"

#include "codec/records/cloud_event.h"
#include "codec/wire/scan.h"
#include "worker/kafka/header_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The input of the request decoder, and the opened CloudEvent that owns it. */
struct input {
    struct mr_request_context context;
    struct mr_text value;
    struct mr_cloud_event event; /* empty: the record is not a CloudEvent in structured mode */
    char fallback_id[MR_ID_BYTES_MAX + 1];
};

static void fill_input(struct input *input, const struct mr_envelope *envelope,
                       const struct mr_kafka_record *record,
                       const struct mr_decode_options *options)
{
    *input = (struct input){.value = record->value};
    snprintf(input->fallback_id, sizeof input->fallback_id, "%.80s/%" PRId32 "/%" PRId64,
             record->topic, record->partition, record->offset);
    input->context = (struct mr_request_context){
        .key = record->key,
        .event_id = envelope->event_id,
        .fallback_id = {input->fallback_id, strlen(input->fallback_id)},
        .content_type = envelope->content_type,
        .timestamp_ms = record->timestamp_ms > 0 ? record->timestamp_ms : options->now_ms,
        .now_ms = options->now_ms,
        .default_max_tokens = options->default_max_tokens,
        .default_thinking_tokens = options->default_thinking_tokens,
        .record_bytes_max = options->record_bytes_max,
        .strict = options->strict};
}

/* Opens a CloudEvent in structured mode. A request without an id gets the event's id. */
static enum mr_status open_event(struct input *input, struct mr_error *err)
{
    struct mr_request_context *context = &input->context;
    if (!mr_cloud_event_is_structured(context->content_type)) return MR_OK;
    enum mr_status status =
        mr_cloud_event_open(input->value, context->record_bytes_max, &input->event, err);
    input->value = input->event.data;
    context->event_id = (struct mr_text){input->event.id, strlen(input->event.id)};
    context->content_type = (struct mr_text){"application/json", 16};
    return status;
}

/* Finds data and id in an event that cannot be opened, so that the error answer can have the
 * request's or the event's id. */
static void scan_event(struct input *input, struct mr_text record)
{
    struct mr_text id;
    char *at = input->event.id;
    if (at[0] == '\0' && mr_scan_member(record, "id", &id))
        at[mr_scan_text(id, at, MR_ID_BYTES_MAX)] = '\0';
    input->context.event_id = (struct mr_text){at, strlen(at)};
    mr_scan_member(record, "data", &input->value);
}

/* The checks that need the headers only. */
static enum mr_status check_envelope(const struct mr_envelope *envelope, int64_t now_ms,
                                     struct mr_error *err)
{
    if (envelope->bad)
        return mr_fail(err, MR_INVALID_REQUEST, "header %s: must be %s", envelope->bad,
                       envelope->wanted);
    if (envelope->oversized)
        return mr_fail(err, MR_INVALID_REQUEST,
                       "header %s: the headers to echo are larger than %zu bytes together",
                       envelope->oversized, MR_ENVELOPE_ECHO_BYTES_MAX);
    if (envelope->deadline_ms > 0 && envelope->deadline_ms <= now_ms)
        return mr_fail(err, MR_DEADLINE_EXCEEDED,
                       "the deadline passed before the request was consumed");
    if (envelope->deadline_ms > 0 && envelope->deadline_ms - now_ms > MR_DEADLINE_MS_MAX)
        return mr_fail(err, MR_INVALID_REQUEST, "header %s: is more than 24 hours ahead",
                       MR_HEADER_DEADLINE);
    return MR_OK;
}

/* Decodes the value. A value whose id cannot be read is rejected for that reason, even if the
 * headers give another one. */
static enum mr_status decode(struct mr_decoded *decoded, const struct input *input,
                             enum mr_status envelope_status, struct mr_error *err)
{
    struct mr_error unreadable;
    if (envelope_status == MR_OK)
        return mr_request_decode(&decoded->request, input->value, &input->context,
                                 &decoded->address, err);
    enum mr_status status =
        mr_request_address(input->value, &input->context, &decoded->address, &unreadable);
    if (status == MR_OK) return envelope_status;
    if (err) *err = unreadable;
    return status;
}

enum mr_status mr_decode_record(struct mr_decoded *decoded, const struct mr_envelope *envelope,
                                const struct mr_kafka_record *record,
                                const struct mr_decode_options *options, struct mr_error *err)
{
    struct input input;
    *decoded = (struct mr_decoded){.deadline_ms = envelope->deadline_ms};
    fill_input(&input, envelope, record, options);
    enum mr_status status = open_event(&input, err);
    if (status != MR_OK) {
        scan_event(&input, record->value);
        mr_request_address(input.value, &input.context, &decoded->address, NULL);
        return status;
    }
    status = decode(decoded, &input, check_envelope(envelope, options->now_ms, err), err);
    if (status != MR_OK) return status;
    int64_t field_ms = decoded->request->deadline_ms;
    if (field_ms > 0 && (decoded->deadline_ms == 0 || field_ms < decoded->deadline_ms))
        decoded->deadline_ms = field_ms;
    return MR_OK;
}

bool mr_decode_is_dead_letter(enum mr_status status)
{
    switch (status) {
    case MR_MALFORMED:
    case MR_UNSUPPORTED_ENCODING:
    case MR_RECORD_TOO_LARGE:
    case MR_INVALID_REQUEST:
    case MR_UNKNOWN_FIELD:
    case MR_POISON:
        return true;
    default:
        return false;
    }
}
