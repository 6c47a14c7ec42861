#include "codec/records/cloud_event.h"

#include "codec/wire/json.h"

#include <string.h>
#include <strings.h>

bool mr_cloud_event_is_structured(struct mr_text content_type)
{
    static const char prefix[] = "application/cloudevents";
    size_t length = sizeof prefix - 1;
    return content_type.length >= length && strncasecmp(content_type.bytes, prefix, length) == 0;
}

static enum mr_status check_version(const struct mr_json_value *root, struct mr_error *err)
{
    struct mr_text version;
    if (!mr_json_text(mr_json_get(root, "specversion"), &version))
        return mr_fail(err, MR_MALFORMED, "CloudEvent has no specversion");
    if (version.length < 2 || memcmp(version.bytes, "1.", 2) != 0)
        return mr_fail(err, MR_UNSUPPORTED_ENCODING, "CloudEvent has a specversion other than 1.x");
    return MR_OK;
}

static void copy_id(const struct mr_json_value *root, struct mr_cloud_event *event)
{
    struct mr_text id;
    if (!mr_json_text(mr_json_get(root, "id"), &id) || id.length > MR_ID_BYTES_MAX) return;
    memcpy(event->id, id.bytes, id.length);
    event->id[id.length] = '\0';
}

static enum mr_status read_envelope(const struct mr_json_value *root, struct mr_text record,
                                    struct mr_cloud_event *event, struct mr_error *err)
{
    if (mr_json_kind(root) != MR_JSON_OBJECT)
        return mr_fail(err, MR_UNSUPPORTED_ENCODING,
                       "a record must have one CloudEvent, not a batch");
    copy_id(root, event);
    enum mr_status status = check_version(root, err);
    if (status != MR_OK) return status;
    const struct mr_json_value *data = mr_json_get(root, "data");
    if (!data && mr_json_get(root, "data_base64"))
        return mr_fail(err, MR_UNSUPPORTED_ENCODING,
                       "CloudEvent with data_base64 is not supported");
    if (!data || mr_json_kind(data) != MR_JSON_OBJECT)
        return mr_fail(err, MR_MALFORMED, "CloudEvent has no data that is an object");
    mr_json_raw_member(record, "data", &event->data);
    return MR_OK;
}

enum mr_status mr_cloud_event_open(struct mr_text record, size_t record_bytes_max,
                                   struct mr_cloud_event *event, struct mr_error *err)
{
    struct mr_json_limits limits = {record_bytes_max, MR_NODES_MAX, MR_NESTING_MAX + 1};
    struct mr_json *json = NULL;
    *event = (struct mr_cloud_event){0};
    if (record.length > record_bytes_max)
        return mr_fail(err, MR_RECORD_TOO_LARGE, "record is %zu bytes, at most %zu are allowed",
                       record.length, record_bytes_max);
    enum mr_status status = mr_json_parse(&json, record, &limits, err);
    if (status == MR_OK) status = read_envelope(mr_json_root(json), record, event, err);
    mr_json_destroy(json);
    return status;
}
