#include "worker/offsets/partition.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

/* A commit that the broker has acknowledged. */
struct acked_commit {
    int64_t offset, since_ms;
    char metadata[MR_LEDGER_METADATA_TEXT_MAX];
};

/* The partitions of one topic by number; NULL where this worker has no state. */
struct by_number {
    struct mr_partition **items;
    struct acked_commit **released; /* last commits of partitions that were freed, or NULL */
    size_t count;
};

struct mr_partitions {
    const struct mr_handover *handover;
    size_t count, capacity;
    struct mr_partition **items; /* in no order */
    struct by_number topics[MR_LIST_MAX];
    /* higher than the epoch of every partition that was freed, so that a partition that is assigned
     * again gets a new epoch */
    uint64_t first_epoch;
};

enum mr_status mr_partitions_create(struct mr_partitions **out, struct mr_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for the partitions");
}

void mr_partitions_set_handover(struct mr_partitions *partitions,
                                const struct mr_handover *handover)
{
    partitions->handover = handover;
}

static void destroy(struct mr_partition *partition)
{
    mr_offset_ledger_destroy(partition->ledger);
    free(partition);
}

void mr_partitions_destroy(struct mr_partitions *partitions)
{
    if (!partitions) return;
    for (size_t i = 0; i < partitions->count; i++)
        destroy(partitions->items[i]);
    for (size_t i = 0; i < MR_LIST_MAX; i++) {
        struct by_number *topic = &partitions->topics[i];
        for (size_t number = 0; number < topic->count; number++)
            free(topic->released[number]);
        free(topic->released);
        free(topic->items);
    }
    free(partitions->items);
    free(partitions);
}

struct mr_partition *mr_partitions_find(struct mr_partitions *partitions, size_t topic_index,
                                        int32_t number)
{
    if (topic_index >= MR_LIST_MAX || number < 0) return NULL;
    const struct by_number *topic = &partitions->topics[topic_index];
    return (size_t)number < topic->count ? topic->items[number] : NULL;
}

size_t mr_partitions_count(const struct mr_partitions *partitions)
{
    return partitions->count;
}

struct mr_partition *mr_partitions_at(struct mr_partitions *partitions, size_t index)
{
    MR_ASSERT(index < partitions->count);
    return partitions->items[index];
}

/* Makes the array hold `count` pointers; new ones are NULL. */
static bool grow(struct mr_partition ***items, size_t *capacity, size_t count)
{
    size_t wanted = *capacity > 0 ? *capacity : 16;
    if (count <= *capacity) return true;
    while (wanted < count)
        wanted *= 2;
    struct mr_partition **grown = realloc(*items, wanted * sizeof *grown);
    if (!grown) return false;
    memset(grown + *capacity, 0, (wanted - *capacity) * sizeof *grown);
    *items = grown;
    *capacity = wanted;
    return true;
}

/* Makes the topic's arrays hold `count` partitions. */
static bool grow_topic(struct by_number *topic, size_t count)
{
    size_t capacity = topic->count;
    if (count <= capacity) return true;
    struct acked_commit **released = realloc(topic->released, 2 * count * sizeof *released);
    if (!released) return false;
    topic->released = released;
    struct mr_partition **items = realloc(topic->items, 2 * count * sizeof *items);
    if (!items) return false;
    topic->items = items;
    memset(items + capacity, 0, (2 * count - capacity) * sizeof *items);
    memset(released + capacity, 0, (2 * count - capacity) * sizeof *released);
    topic->count = 2 * count;
    return true;
}

/* Keeps the partition's last commit for its next assignment; not kept if memory is out. */
static void keep_commit(struct by_number *topic, const struct mr_partition *partition)
{
    if (partition->acked_offset < 0 || partition->acked_metadata[0] == '\0') return;
    struct acked_commit *kept = malloc(sizeof *kept);
    if (!kept) return;
    kept->offset = partition->acked_offset;
    kept->since_ms = partition->acked_since_ms;
    memcpy(kept->metadata, partition->acked_metadata, sizeof kept->metadata);
    topic->released[partition->number] = kept;
}

static void take_kept_commit(struct by_number *topic, struct mr_partition *partition)
{
    struct acked_commit *kept = topic->released[partition->number];
    if (!kept) return;
    partition->acked_offset = kept->offset;
    partition->acked_since_ms = kept->since_ms;
    memcpy(partition->acked_metadata, kept->metadata, sizeof kept->metadata);
    topic->released[partition->number] = NULL;
    free(kept);
}

static enum mr_status add(struct mr_partitions *partitions, const struct mr_kafka_claim *claim,
                          struct mr_partition **out, struct mr_error *err)
{
    MR_ASSERT(claim->topic_index < MR_LIST_MAX && claim->partition >= 0);
    struct by_number *topic = &partitions->topics[claim->topic_index];
    if (!grow(&partitions->items, &partitions->capacity, partitions->count + 1) ||
        !grow_topic(topic, (size_t)claim->partition + 1))
        return mr_fail(err, MR_NOMEM, "no memory for the partitions");
    struct mr_partition *partition = calloc(1, sizeof *partition);
    if (!partition) return mr_fail(err, MR_NOMEM, "no memory for a partition");
    enum mr_status status = mr_offset_ledger_create(&partition->ledger, MR_LEDGER_SPAN_MAX, err);
    if (status != MR_OK) {
        free(partition);
        return status;
    }
    partition->instance = partitions->handover ? partitions->handover->instance : 0;
    partition->topic_index = claim->topic_index;
    partition->number = claim->partition;
    partition->acked_offset = partition->sent_offset = -1;
    take_kept_commit(topic, partition);
    partition->blocked_base = -2;
    partition->epoch = partitions->first_epoch;
    partitions->items[partitions->count++] = partition;
    topic->items[partition->number] = partition;
    *out = partition;
    return MR_OK;
}

void mr_partitions_release(struct mr_partitions *partitions)
{
    for (size_t i = partitions->count; i-- > 0;) {
        struct mr_partition *partition = partitions->items[i];
        if (partition->state != MR_PARTITION_NONE || partition->tickets > 0 || partition->sent ||
            mr_write_gate_unacknowledged(&partition->gate) > 0)
            continue;
        if (partition->epoch >= partitions->first_epoch)
            partitions->first_epoch = partition->epoch + 1;
        struct by_number *topic = &partitions->topics[partition->topic_index];
        keep_commit(topic, partition);
        topic->items[partition->number] = NULL;
        partitions->items[i] = partitions->items[--partitions->count];
        destroy(partition);
    }
}

bool mr_partition_is_current(const struct mr_ticket *ticket)
{
    return ticket->intake.partition->epoch == ticket->epoch;
}

static void set_gate(struct mr_partition *partition, bool open)
{
    mr_write_gate_set(&partition->gate, partition->epoch, open);
}

/* True when no other worker can have owned the partition while it was suspended, and none has
 * committed since this worker's last acknowledged commit. In a generation without this worker, the
 * partition may have belonged to a worker that wrote results and committed nothing. A static member
 * that returns keeps its generation. */
static bool unchanged(const struct mr_partition *partition, const struct mr_kafka_claim *claim,
                      int32_t generation)
{
    bool follows = claim->generation < 0 || generation < 0 ||
                   (claim->generation >= generation && claim->generation - generation <= 1);
    return follows && claim->committed == partition->acked_offset &&
           claim->metadata.length == strlen(partition->acked_metadata) &&
           (claim->metadata.length == 0 ||
            memcmp(claim->metadata.bytes, partition->acked_metadata, claim->metadata.length) == 0);
}

static void remember_committed(struct mr_partition *partition, const struct mr_kafka_claim *claim,
                               int64_t since_ms)
{
    size_t length = claim->metadata.length;
    /* too long to be millrace's metadata */
    if (length >= sizeof partition->acked_metadata) length = 0;
    if (length > 0) memmove(partition->acked_metadata, claim->metadata.bytes, length);
    partition->acked_metadata[length] = '\0';
    partition->acked_offset = claim->committed;
    partition->acked_since_ms = since_ms;
    partition->acked_version = partition->sent_version =
        mr_offset_ledger_version(partition->ledger);
}

/* The instance of the worker that made the commit of a claim. */
struct writer {
    const struct mr_handover *handover; /* NULL: its released requests are unknown */
    const struct mr_kafka_claim *claim;
    uint32_t instance;
};

static bool was_released(void *context, int64_t offset, uint8_t attempt)
{
    const struct writer *writer = context;
    struct mr_handover_place place = {writer->claim->topic, writer->claim->partition, offset,
                                      attempt};
    return writer->handover && mr_handover_has(writer->handover, writer->instance, &place);
}

/* Restores the ledger from the committed offset and metadata of the claim. A broker whose group
 * coordinator has just moved or started can report an older commit than the last one that it
 * acknowledged (Kafka 4.3.1); the claim is then set to the acknowledged one. A lower offset is
 * accepted in two cases: it has no metadata (a person has set it), or its time is later (the log
 * was replaced). */
static enum mr_status restore(struct mr_partition *partition, struct mr_kafka_claim *claim,
                              struct mr_ledger_head *head, struct mr_error *err)
{
    enum mr_status status =
        mr_ledger_metadata_restore(partition->ledger, claim->committed, claim->metadata, head, err);
    const struct mr_text acked = {partition->acked_metadata, strlen(partition->acked_metadata)};
    if (status != MR_OK || claim->metadata.length == 0 || acked.length == 0) return status;
    if (claim->committed >= partition->acked_offset || head->since_ms > partition->acked_since_ms)
        return MR_OK;
    claim->committed = claim->start = partition->acked_offset;
    claim->metadata = acked;
    return mr_ledger_metadata_restore(partition->ledger, claim->committed, acked, head, err);
}

enum mr_status mr_partitions_take(struct mr_partitions *partitions, struct mr_kafka_claim *claim,
                                  struct mr_partition **out, bool *resumed, struct mr_error *err)
{
    struct mr_ledger_head head = {0};
    enum mr_status status = MR_OK;
    struct mr_partition *partition =
        mr_partitions_find(partitions, claim->topic_index, claim->partition);
    *out = NULL;
    *resumed = false;
    if (!partition) status = add(partitions, claim, &partition, err);
    if (status != MR_OK) return status;
    *out = partition;
    int32_t generation = partition->generation;
    partition->generation = claim->generation;
    if (partition->state == MR_PARTITION_SUSPENDED && unchanged(partition, claim, generation)) {
        *resumed = true;
        partition->state = MR_PARTITION_OWNED;
        set_gate(partition, true);
        if (mr_offset_ledger_next(partition->ledger) >= 0)
            claim->start = mr_offset_ledger_next(partition->ledger);
        return MR_OK;
    }
    partition->epoch++;
    partition->state = MR_PARTITION_OWNED;
    partition->blocked_base = -2;
    partition->skipped_to = partition->passed_from = partition->passed_to = 0;
    partition->findings = (struct mr_findings){0};
    partition->recovering = partition->sent = false;
    set_gate(partition, true);
    if (claim->committed >= 0)
        status = restore(partition, claim, &head, err);
    else
        mr_offset_ledger_reset(partition->ledger, -1);
    struct writer writer = {partitions->handover, claim, head.instance};
    mr_offset_ledger_take_over(partition->ledger, was_released, &writer);
    remember_committed(partition, claim, head.since_ms);
    return status;
}

void mr_partition_suspend(struct mr_partition *partition)
{
    MR_ASSERT(partition->state == MR_PARTITION_OWNED);
    partition->state = MR_PARTITION_SUSPENDED;
    partition->revoking = false;
    set_gate(partition, false);
}

void mr_partition_hold(struct mr_partition *partition)
{
    mr_write_gate_finish(&partition->gate, partition->epoch);
}

void mr_partition_shut(struct mr_partition *partition)
{
    set_gate(partition, false);
}

void mr_partition_forget(struct mr_partition *partition)
{
    partition->state = MR_PARTITION_NONE;
    partition->epoch++;
    partition->recovering = partition->revoking = false;
    set_gate(partition, false);
}

void mr_partition_pass(struct mr_partition *partition, int64_t offset)
{
    const int64_t base = mr_offset_ledger_base(partition->ledger);
    MR_ASSERT(base >= 0 && base == mr_offset_ledger_next(partition->ledger) && base < offset);
    partition->passed_from = base;
    partition->passed_to = offset;
    mr_offset_ledger_pass(partition->ledger, offset);
}

bool mr_partition_discard_findings(struct mr_partition *partition, int64_t offset,
                                   int64_t timestamp_ms)
{
    const struct mr_findings *findings = &partition->findings;
    const int64_t latest_ms = offset == findings->first ? findings->first_ms : findings->newest_ms;
    if (latest_ms == 0 || timestamp_ms <= latest_ms ||
        !mr_offset_ledger_is_listed(partition->ledger, offset))
        return false;
    mr_offset_ledger_forget(partition->ledger);
    return true;
}

enum mr_ledger_verdict mr_partition_receive(struct mr_partition *partition, int64_t offset,
                                            bool skip, struct mr_ledger_history *history,
                                            int64_t *behind)
{
    *behind = 0;
    if (offset >= partition->passed_from && offset < partition->passed_to) {
        *history = (struct mr_ledger_history){0};
        return MR_LEDGER_FINISHED;
    }
    enum mr_ledger_verdict verdict = mr_offset_ledger_receive(partition->ledger, offset, history);
    partition->passed_from = partition->passed_to = 0;
    if (verdict != MR_LEDGER_BACKWARD) return verdict;
    bool begins = !skip || partition->skipped_to == 0 || offset < partition->skipped_to;
    if (begins) *behind = mr_offset_ledger_base(partition->ledger) - offset;
    partition->skipped_to = skip ? offset + 1 : 0;
    if (skip) return MR_LEDGER_FINISHED;
    mr_partition_forget(partition);
    partition->state = MR_PARTITION_OWNED;
    set_gate(partition, true);
    mr_offset_ledger_reset(partition->ledger, offset);
    return mr_offset_ledger_receive(partition->ledger, offset, history);
}

/* True when the metadata of two commits differs at most in the times. */
static bool is_same_state(const char *a, const char *b)
{
    size_t skip = MR_LEDGER_METADATA_TIME_CHARS;
    return strlen(a) > skip && strlen(b) > skip && strcmp(a + skip, b + skip) == 0;
}

bool mr_partition_fill_commit(struct mr_partition *partition, int64_t since_ms,
                              struct mr_kafka_commit *commit)
{
    uint64_t version = mr_offset_ledger_version(partition->ledger);
    int64_t base = mr_offset_ledger_base(partition->ledger);
    bool stale = partition->acked_since_ms > 0 &&
                 since_ms - partition->acked_since_ms >= MR_PARTITION_REFRESH_MS;
    if (partition->state != MR_PARTITION_OWNED || partition->recovering || base < 0) return false;
    if (version == partition->acked_version && !stale) return false;
    mr_ledger_metadata_encode(partition->ledger,
                              (struct mr_ledger_head){since_ms, partition->instance},
                              partition->sent_metadata);
    partition->sent_version = version;
    partition->sent_offset = base;
    partition->sent_since_ms = since_ms;
    partition->sent = true;
    if (!stale && base == partition->acked_offset &&
        is_same_state(partition->sent_metadata, partition->acked_metadata)) {
        partition->sent = false;
        partition->acked_version = version;
        return false;
    }
    *commit = (struct mr_kafka_commit){partition->topic_index, partition->number, base,
                                       partition->sent_metadata};
    return true;
}

void mr_partition_committed(struct mr_partition *partition, bool ok)
{
    bool sent = partition->sent;
    partition->sent = false;
    if (!ok || !sent) return;
    partition->acked_version = partition->sent_version;
    partition->acked_since_ms = partition->sent_since_ms;
    partition->acked_offset = partition->sent_offset;
    memcpy(partition->acked_metadata, partition->sent_metadata, sizeof partition->acked_metadata);
}

void mr_partitions_check(const struct mr_partitions *partitions)
{
    for (size_t i = 0; i < partitions->count; i++) {
        mr_offset_ledger_check(partitions->items[i]->ledger);
        const struct by_number *topic = &partitions->topics[partitions->items[i]->topic_index];
        MR_ASSERT(topic->items[partitions->items[i]->number] == partitions->items[i]);
    }
}
