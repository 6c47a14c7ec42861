/* cloud_event - a CloudEvents 1.0 envelope in JSON (structured mode): what is inside, and its id.
 *
 * A record whose content-type is application/cloudevents+json is one JSON object with the event's
 * attributes; the request is its member `data`, an object, passed on byte for byte. `data_base64`
 * is not read, nor are batches. Binary mode needs nothing of this: there the attributes are headers
 * named ce_* and the value is the request itself.
 *
 * Pure functions. Memory: texts point into the record, but for the id, which is copied.
 * Errors: MR_MALFORMED, MR_UNSUPPORTED_ENCODING with a reason. */
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
    char id[MR_ID_BYTES_MAX + 1]; /* "" when it cannot serve as a request's id */
};

/* content_type: the header's value, empty when absent. */
bool mr_cloud_event_is_structured(struct mr_text content_type);
/* record_bytes_max bounds what is parsed. On an error event->data is empty; the id may be there. */
enum mr_status mr_cloud_event_open(struct mr_text record, size_t record_bytes_max,
                                   struct mr_cloud_event *event, struct mr_error *err);

#endif
