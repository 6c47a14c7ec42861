#include "worker/top/slowest.h"

#include "codec/wire/json.h"
#include "worker/config/config.h"

#include <stdio.h>
#include <string.h>

/* a worker lists 32 requests of 8 fields */
static const struct mr_json_limits limits = {
    .bytes_max = (size_t)1 << 20, .values_max = 4096, .depth_max = 4};

static void copy(const struct mr_json_value *object, const char *name, const char *absent,
                 char *text, size_t size)
{
    struct mr_text value = {absent, strlen(absent)};
    mr_json_text(mr_json_get(object, name), &value);
    size_t length = value.length < size ? value.length : size - 1;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)value.bytes[i];
        text[i] = byte < 0x20 || byte >= 0x7f ? '?' : (char)byte;
    }
    text[length] = '\0';
}

static void add(struct mr_slowest *slowest, const struct mr_slow_request *request)
{
    struct mr_slow_request *list = slowest->requests;
    size_t at = slowest->count;
    while (at > 0 && request->seconds > list[at - 1].seconds)
        at--;
    if (at == MR_SLOWEST_MAX) return;
    size_t kept = slowest->count < MR_SLOWEST_MAX ? slowest->count++ : MR_SLOWEST_MAX - 1;
    memmove(&list[at + 1], &list[at], (kept - at) * sizeof *list);
    list[at] = *request;
}

enum mr_status mr_slowest_add(struct mr_slowest *slowest, const char *worker, const char *tenant,
                              const char *page, struct mr_error *err)
{
    struct mr_json *document = NULL;
    enum mr_status status =
        mr_json_parse(&document, (struct mr_text){page, strlen(page)}, &limits, err);
    if (status != MR_OK) return mr_fail(err, MR_MALFORMED, "%.100s: /requests is not JSON", worker);
    const struct mr_json_value *root = mr_json_root(document);
    for (size_t i = 0; i < mr_json_count(root); i++) {
        const struct mr_json_value *object = mr_json_at(root, i);
        struct mr_slow_request request;
        snprintf(request.worker, sizeof request.worker, "%s", worker);
        if (!mr_json_number(mr_json_get(object, "seconds"), &request.seconds)) continue;
        copy(object, "id", "", request.id, sizeof request.id);
        copy(object, "tenant", MR_TENANT_DEFAULT, request.tenant, sizeof request.tenant);
        copy(object, "state", "-", request.state, sizeof request.state);
        if (!tenant[0] || strcmp(request.tenant, tenant) == 0) add(slowest, &request);
    }
    mr_json_destroy(document);
    return MR_OK;
}
