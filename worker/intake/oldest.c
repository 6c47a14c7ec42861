#include "worker/intake/oldest.h"

#include "codec/wire/json_writer.h"

#include <string.h>

/* room for an id with every byte escaped, and for the other fields */
#define ENTRY_BYTES ((size_t)8 * MR_ID_BYTES_MAX + 4096)

/* Inserts from the end with the youngest request; the list is short. */
void mr_oldest_add(struct mr_oldest *oldest, const struct mr_ticket *ticket)
{
    struct mr_oldest_request *list = oldest->requests;
    if (atomic_load(&ticket->dropped)) return;
    size_t at = oldest->count;
    while (at > 0 && ticket->arrival_ns < list[at - 1].arrival_ns)
        at--;
    if (at == MR_OLDEST_MAX) return;
    size_t kept = oldest->count < MR_OLDEST_MAX ? oldest->count++ : MR_OLDEST_MAX - 1;
    memmove(&list[at + 1], &list[at], (kept - at) * sizeof *list);
    list[at] = (struct mr_oldest_request){.tenant = ticket->tenant,
                                          .topic = ticket->topic,
                                          .partition = ticket->partition,
                                          .offset = ticket->offset,
                                          .attempt = ticket->attempt,
                                          .parked = !ticket->intake.submitted,
                                          .arrival_ns = ticket->arrival_ns};
    memcpy(list[at].id, ticket->id, sizeof ticket->id);
}

static void write_request(struct mr_json_writer *json, const struct mr_oldest_request *request,
                          uint64_t now_ns)
{
    uint64_t age_ns = now_ns > request->arrival_ns ? now_ns - request->arrival_ns : 0;
    mr_json_begin_object(json);
    mr_json_name(json, "id");
    mr_json_put_string(json, request->id);
    mr_json_name(json, "tenant");
    if (request->tenant)
        mr_json_put_string(json, request->tenant);
    else
        mr_json_put_null(json);
    mr_json_name(json, "topic");
    mr_json_put_string(json, request->topic);
    mr_json_name(json, "partition");
    mr_json_put_int(json, request->partition);
    mr_json_name(json, "offset");
    mr_json_put_int(json, request->offset);
    mr_json_name(json, "attempt");
    mr_json_put_uint(json, request->attempt);
    mr_json_name(json, "state");
    mr_json_put_string(json, request->parked ? "parked" : "submitted");
    mr_json_name(json, "seconds");
    mr_json_put_double(json, (double)(age_ns / 1000000) / 1e3);
    mr_json_end(json);
}

enum mr_status mr_oldest_write(const struct mr_oldest *oldest, uint64_t now_ns, char **bytes,
                               size_t *length, struct mr_error *err)
{
    struct mr_json_writer json;
    mr_json_writer_init(&json, (oldest->count + 1) * ENTRY_BYTES);
    mr_json_begin_array(&json);
    for (size_t i = 0; i < oldest->count; i++)
        write_request(&json, &oldest->requests[i], now_ns);
    mr_json_end(&json);
    return mr_json_writer_take(&json, bytes, length, err);
}
