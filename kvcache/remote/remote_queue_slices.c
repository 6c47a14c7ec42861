#include "kvcache/remote/remote_queue_state.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#define SLICES_MAX ((uint64_t)65536) /* most slices of one operation */

/* ---- slices ---- */

/* Computes how value i of the posted operation is cut into slices. Consecutive values of equal size
 * use the cut computed before. */
static void slices_of(const struct mr_remote_operation *posted, uint32_t i, struct mr_slices *cut)
{
    const struct mr_remote_value *value = &posted->values[i], *before = value - 1;
    if (i > 0 && value->length == before->length && value->layer_bytes == before->layer_bytes)
        return;
    *cut = mr_slices_of(value->length, value->layer_bytes);
}

static uint64_t count_slices(const struct mr_remote_operation *posted)
{
    uint64_t slices = 0;
    struct mr_slices cut = {0};
    for (uint32_t i = 0; i < posted->count; i++) {
        slices_of(posted, i, &cut);
        slices += cut.count;
    }
    return slices;
}

_Static_assert(MR_FRAME_VERSION == 1, "the keys of slices have the version of their format");

static void set_key(struct mr_remote_slice *slice, const unsigned char *key)
{
    char *out = slice->key;
    memcpy(out, "mr1:", 4);
    mr_sha256_hex(key, MR_HASH_BYTES, out + 4);
    out += 4 + 2 * MR_HASH_BYTES;
    int wrote =
        snprintf(out, sizeof slice->key - (size_t)(out - slice->key), ":%u", slice->frame.slice);
    slice->key_length = (uint32_t)(out - slice->key) + (uint32_t)wrote;
}

static void set_slices(struct mr_queued_operation *operation,
                       const struct mr_remote_operation *posted, enum mr_frame_codec codec)
{
    struct mr_remote_slice *slice = operation->slices;
    struct mr_slices cut = {0};
    enum mr_remote_step step =
        operation->kind == MR_REMOTE_LOAD ? MR_REMOTE_STEP_GET : MR_REMOTE_STEP_LOOKUP;
    for (uint32_t i = 0; i < operation->value_count; i++) {
        const struct mr_remote_value *from = &posted->values[i];
        slices_of(posted, i, &cut);
        operation->values[i].open = cut.count;
        for (uint32_t number = 0; number < cut.count; number++, slice++) {
            slice->operation = operation;
            slice->step = step;
            slice->value = i;
            slice->payload = from->bytes ? (char *)from->bytes + cut.bytes * number : NULL;
            slice->deadline_ns = operation->deadline_ns;
            slice->frame = (struct mr_frame){.key = operation->values[i].key,
                                             .token_count = from->token_count,
                                             .slice = number,
                                             .slice_count = cut.count,
                                             .length = mr_slices_length(&cut, from->length, number),
                                             .codec = codec};
            set_key(slice, operation->values[i].key);
        }
    }
}

/* ---- operations ---- */

/* Where the arrays of an operation (values, slices, answers) begin in the operation's memory. */
struct layout {
    size_t values_at, slices_at, answers_at, bytes;
};

static size_t aligned(size_t bytes)
{
    return (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

static struct layout layout_of(uint32_t values, uint64_t slices)
{
    struct layout layout = {.values_at = aligned(sizeof(struct mr_queued_operation))};
    layout.slices_at = layout.values_at + aligned(values * sizeof(struct mr_queued_value));
    layout.answers_at = layout.slices_at + aligned(slices * sizeof(struct mr_remote_slice));
    layout.bytes = layout.answers_at + ((size_t)values + 1) * sizeof(struct mr_queued_answer);
    return layout;
}

size_t mr_queued_operation_bytes(const struct mr_remote_operation *posted)
{
    uint64_t slices = count_slices(posted);
    return slices > SLICES_MAX ? 0 : layout_of(posted->count, slices).bytes;
}

struct mr_queued_operation *
mr_queued_operation_init(void *memory, const struct mr_queued_operation_options *options)
{
    const struct mr_remote_operation *posted = options->posted;
    uint64_t slices = count_slices(posted);
    struct layout layout = layout_of(posted->count, slices);
    struct mr_queued_operation *operation = memory;
    *operation = (struct mr_queued_operation){.kind = options->kind,
                                              .id = posted->id,
                                              .posted_ns = options->now_ns,
                                              .deadline_ns = options->deadline_ns,
                                              .value_count = posted->count,
                                              .slice_count = (uint32_t)slices,
                                              .untaken = (uint32_t)slices,
                                              .open = (uint32_t)slices,
                                              .refs = 1};
    operation->values = (struct mr_queued_value *)(void *)((char *)memory + layout.values_at);
    operation->slices = (struct mr_remote_slice *)(void *)((char *)memory + layout.slices_at);
    operation->answers = (struct mr_queued_answer *)(void *)((char *)memory + layout.answers_at);
    for (uint32_t i = 0; i < posted->count; i++) {
        memcpy(operation->values[i].key, posted->values[i].key, MR_HASH_BYTES);
        operation->values[i].length = posted->values[i].length;
        operation->bytes += posted->values[i].length;
    }
    set_slices(operation, posted, options->codec);
    return operation;
}

uint32_t mr_queued_operation_present(const struct mr_queued_operation *operation)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < operation->value_count; i++) {
        if (!operation->values[i].present && operation->kind == MR_REMOTE_LOOKUP) break;
        sum += operation->values[i].present;
    }
    return sum;
}

/* ---- lists ---- */

void mr_queued_list_push(struct mr_queued_list *list, struct mr_queued_operation *operation)
{
    operation->next = NULL;
    if (list->last)
        list->last->next = operation;
    else
        list->first = operation;
    list->last = operation;
}

void mr_queued_list_remove(struct mr_queued_list *list, struct mr_queued_operation *operation)
{
    struct mr_queued_operation *before = NULL, *at = list->first;
    for (; at && at != operation; at = at->next)
        before = at;
    if (!at) return;
    if (before)
        before->next = operation->next;
    else
        list->first = operation->next;
    if (list->last == operation) list->last = before;
}
