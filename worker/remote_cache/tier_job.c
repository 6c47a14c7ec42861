#include "worker/remote_cache/tier_job.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#define PARTS_MAX ((uint64_t)65536) /* most parts (Redis values) of one job */

/* ---- parts ---- */

/* Computes the slices into which item i of the request is cut; consecutive items of equal size use
 * the slices computed before. */
static void slices_of(const struct mr_tier_request *request, uint32_t i, struct mr_slices *slices)
{
    const struct mr_tier_item *item = &request->items[i], *before = item - 1;
    if (i > 0 && item->length == before->length && item->layer_bytes == before->layer_bytes) return;
    *slices = mr_slices_of(item->length, item->layer_bytes);
}

static uint64_t count_parts(const struct mr_tier_request *request)
{
    uint64_t parts = 0;
    struct mr_slices slices = {0};
    for (uint32_t i = 0; i < request->count; i++) {
        slices_of(request, i, &slices);
        parts += slices.count;
    }
    return parts;
}

_Static_assert(MR_FRAME_VERSION == 1, "the names of values have the version of their format");

static void set_key(struct mr_tier_part *part, const unsigned char *key)
{
    char *out = part->key;
    memcpy(out, "mr1:", 4);
    mr_sha256_hex(key, MR_HASH_BYTES, out + 4);
    out += 4 + 2 * MR_HASH_BYTES;
    int wrote =
        snprintf(out, sizeof part->key - (size_t)(out - part->key), ":%u", part->frame.slice);
    part->key_length = (uint32_t)(out - part->key) + (uint32_t)wrote;
}

static void set_parts(struct mr_tier_job *job, const struct mr_tier_request *request,
                      enum mr_frame_codec codec)
{
    struct mr_tier_part *part = job->parts;
    struct mr_slices slices = {0};
    enum mr_tier_step step = job->work == MR_TIER_LOAD ? MR_TIER_STEP_GET : MR_TIER_STEP_LOOKUP;
    for (uint32_t i = 0; i < job->item_count; i++) {
        const struct mr_tier_item *from = &request->items[i];
        slices_of(request, i, &slices);
        job->items[i].open = slices.count;
        for (uint32_t slice = 0; slice < slices.count; slice++, part++) {
            part->job = job;
            part->step = step;
            part->item = i;
            part->payload = from->bytes ? (char *)from->bytes + slices.bytes * slice : NULL;
            part->deadline_ns = job->deadline_ns;
            part->frame =
                (struct mr_frame){.key = job->items[i].key,
                                  .token_count = from->token_count,
                                  .slice = slice,
                                  .slice_count = slices.count,
                                  .length = mr_slices_length(&slices, from->length, slice),
                                  .codec = codec};
            set_key(part, job->items[i].key);
        }
    }
}

/* ---- jobs ---- */

/* Where the arrays of a job (items, parts, answers) begin in the job's memory. */
struct layout {
    size_t items_at, parts_at, answers_at, bytes;
};

static size_t aligned(size_t bytes)
{
    return (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

static struct layout layout_of(uint32_t items, uint64_t parts)
{
    struct layout layout = {.items_at = aligned(sizeof(struct mr_tier_job))};
    layout.parts_at = layout.items_at + aligned(items * sizeof(struct mr_tier_entry));
    layout.answers_at = layout.parts_at + aligned(parts * sizeof(struct mr_tier_part));
    layout.bytes = layout.answers_at + ((size_t)items + 1) * sizeof(struct mr_tier_note);
    return layout;
}

size_t mr_tier_job_bytes(const struct mr_tier_request *request)
{
    uint64_t parts = count_parts(request);
    return parts > PARTS_MAX ? 0 : layout_of(request->count, parts).bytes;
}

struct mr_tier_job *mr_tier_job_init(void *memory, const struct mr_tier_job_options *options)
{
    const struct mr_tier_request *request = options->request;
    uint64_t parts = count_parts(request);
    struct layout layout = layout_of(request->count, parts);
    struct mr_tier_job *job = memory;
    *job = (struct mr_tier_job){.work = options->work,
                                .ticket = request->ticket,
                                .posted_ns = options->now_ns,
                                .deadline_ns = options->deadline_ns,
                                .item_count = request->count,
                                .part_count = (uint32_t)parts,
                                .untaken = (uint32_t)parts,
                                .open = (uint32_t)parts,
                                .refs = 1};
    job->items = (struct mr_tier_entry *)(void *)((char *)memory + layout.items_at);
    job->parts = (struct mr_tier_part *)(void *)((char *)memory + layout.parts_at);
    job->answers = (struct mr_tier_note *)(void *)((char *)memory + layout.answers_at);
    for (uint32_t i = 0; i < request->count; i++) {
        memcpy(job->items[i].key, request->items[i].key, MR_HASH_BYTES);
        job->items[i].length = request->items[i].length;
        job->bytes += request->items[i].length;
    }
    set_parts(job, request, options->codec);
    return job;
}

uint32_t mr_tier_job_present(const struct mr_tier_job *job)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < job->item_count; i++) {
        if (!job->items[i].present && job->work == MR_TIER_LOOKUP) break;
        sum += job->items[i].present;
    }
    return sum;
}

/* ---- lists ---- */

void mr_tier_job_list_push(struct mr_tier_job_list *list, struct mr_tier_job *job)
{
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
}

void mr_tier_job_list_remove(struct mr_tier_job_list *list, struct mr_tier_job *job)
{
    struct mr_tier_job *before = NULL, *at = list->first;
    for (; at && at != job; at = at->next)
        before = at;
    if (!at) return;
    if (before)
        before->next = job->next;
    else
        list->first = job->next;
    if (list->last == job) list->last = before;
}
