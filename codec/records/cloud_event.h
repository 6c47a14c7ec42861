/* cloud_event - reads a CloudEvents 1.0 event in JSON (structured mode): its data and its id.
 *
 * A record with content-type application/cloudevents+json is one JSON object with the attributes of
 * the event. The request is its member `data`, an object, and is used byte for byte. The member
 * `data_base64` and batches of events are not supported. In binary mode the attributes are headers
 * named ce_* and the record's value is the request, so this module is not involved.
 *
 * Threads: any (pure functions). Memory: data points into the record, the id is a copy.
 * Errors:  MR_MALFORMED, MR_UNSUPPORTED_ENCODING, MR_RECORD_TOO_LARGE, with a reason. */
#ifndef MR_CODEC_RECORDS_CLOUD_EVENT_H
#define MR_CODEC_RECORDS_CLOUD_EVENT_H

#include "codec/limits.h"
#include "codec/status.h"
#include "codec/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_cloud_event {
    struct mr_text data;
    char id[MR_ID_BYTES_MAX + 1]; /* the event's id; "": absent or too long for a request's id */
};

/* content_type: the value of the record's header, empty when absent. */
bool mr_cloud_event_is_structured(struct mr_text content_type);
/* Finds id and data in a record that is a CloudEvent. On an error event->data is empty, but
 * event->id may be set. */
enum mr_status mr_cloud_event_open(struct mr_text record, size_t record_bytes_max,
                                   struct mr_cloud_event *event, struct mr_error *err);

#endif
