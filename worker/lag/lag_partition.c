#include "worker/lag/lag_partition.h"

#include "codec/check.h"
#include "worker/offsets/ledger_metadata.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY ((size_t)64)

void mr_lag_partition_init(struct mr_lag_partition *partition, size_t topic, int32_t number,
                           size_t max)
{
    *partition = (struct mr_lag_partition){.topic = topic, .partition = number, .max = max};
}

void mr_lag_partition_free(struct mr_lag_partition *partition)
{
    free(partition->requests);
    partition->requests = NULL;
}

static bool is_set(const struct mr_lag_partition *partition, const unsigned char *bits,
                   int64_t offset)
{
    const int64_t bit = offset - partition->base_of_bits;
    if (bit < 0 || bit >= (int64_t)MR_LEDGER_SPAN_MAX) return false;
    return bits[bit / 8] >> (bit % 8) & 1;
}

bool mr_lag_partition_is_started(const struct mr_lag_partition *partition, int64_t offset)
{
    return is_set(partition, partition->started, offset);
}

/* Copies the lists of the commit: finished requests, and started ones. */
static void read_commit(struct mr_lag_partition *partition,
                        const struct mr_kafka_backlog_partition *state,
                        struct mr_offset_ledger *scratch)
{
    struct mr_ledger_head head;
    memset(partition->finished, 0, sizeof partition->finished);
    memset(partition->started, 0, sizeof partition->started);
    partition->base_of_bits = state->committed;
    if (state->committed < 0 || state->metadata.length == 0) return;
    mr_ledger_metadata_restore(scratch, state->committed, state->metadata, &head, NULL);
    for (uint32_t i = 0; i < mr_offset_ledger_extent(scratch); i++) {
        const struct mr_ledger_slot *slot = mr_offset_ledger_slot(scratch, state->committed + i);
        const unsigned char bit = (unsigned char)(1u << (i % 8));
        if (slot->flags & MR_LEDGER_SLOT_FINISHED) partition->finished[i / 8] |= bit;
        if (slot->flags & MR_LEDGER_SLOT_RUNNING) partition->started[i / 8] |= bit;
    }
}

/* Removes the requests that are finished now. */
static void drop_finished(struct mr_lag_partition *partition)
{
    size_t kept = 0;
    for (size_t i = 0; i < partition->count; i++) {
        const int64_t offset = partition->requests[i].offset;
        if (offset >= partition->base && !is_set(partition, partition->finished, offset))
            partition->requests[kept++] = partition->requests[i];
    }
    partition->count = kept;
}

void mr_lag_partition_update(struct mr_lag_partition *partition,
                             const struct mr_kafka_backlog_partition *state,
                             struct mr_offset_ledger *scratch)
{
    int64_t base = state->committed > state->begin ? state->committed : state->begin;
    const int64_t end = state->end;
    /* after a topic was recreated the committed offset can lie beyond its end */
    if (base > end) base = end;
    if (base < partition->base || end < partition->next) {
        partition->count = 0;
        partition->next = base;
    }
    read_commit(partition, state, scratch);
    partition->base = base;
    partition->end = end;
    if (partition->next < base) partition->next = base;
    drop_finished(partition);
}

bool mr_lag_partition_has_unread(const struct mr_lag_partition *partition)
{
    return partition->next < partition->end && partition->count < partition->max;
}

bool mr_lag_partition_add(struct mr_lag_partition *partition, const struct mr_lag_request *request)
{
    MR_ASSERT(request->offset >= partition->next);
    if (!is_set(partition, partition->finished, request->offset)) {
        if (partition->count == partition->max) return false;
        if (partition->count == partition->capacity) {
            size_t capacity = partition->capacity ? 2 * partition->capacity : FIRST_CAPACITY;
            if (capacity > partition->max) capacity = partition->max;
            struct mr_lag_request *more =
                realloc(partition->requests, capacity * sizeof *partition->requests);
            if (!more) return false;
            partition->requests = more;
            partition->capacity = capacity;
        }
        partition->requests[partition->count++] = *request;
    }
    partition->next = request->offset + 1;
    return true;
}

void mr_lag_partition_advance(struct mr_lag_partition *partition, int64_t next)
{
    if (next > partition->end) next = partition->end;
    if (next > partition->next) partition->next = next;
}

uint64_t mr_lag_partition_unread(const struct mr_lag_partition *partition)
{
    int64_t unread = partition->end - partition->next;
    const int64_t listed_end = partition->base_of_bits + (int64_t)MR_LEDGER_SPAN_MAX;
    for (int64_t o = partition->next; o < partition->end && o < listed_end; o++)
        unread -= is_set(partition, partition->finished, o);
    return (uint64_t)unread;
}

void mr_lag_partition_check(const struct mr_lag_partition *partition)
{
    MR_ASSERT(partition->base <= partition->next && partition->next <= partition->end);
    MR_ASSERT(partition->count <= partition->capacity && partition->capacity <= partition->max);
    for (size_t i = 0; i < partition->count; i++) {
        const int64_t offset = partition->requests[i].offset;
        MR_ASSERT(offset >= partition->base && offset < partition->next);
        MR_ASSERT(i == 0 || partition->requests[i - 1].offset < offset);
        MR_ASSERT(!is_set(partition, partition->finished, offset));
    }
}
