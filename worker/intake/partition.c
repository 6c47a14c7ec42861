#include "worker/intake/partition.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

struct mr_partitions {
    size_t count;
    struct mr_partition *lanes[MR_PARTITIONS_MAX];
};

enum mr_status mr_partitions_create(struct mr_partitions **out, struct mr_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for the lanes");
}

void mr_partitions_destroy(struct mr_partitions *lanes)
{
    if (!lanes) return;
    for (size_t i = 0; i < lanes->count; i++) {
        mr_offset_ledger_destroy(lanes->lanes[i]->ledger);
        free(lanes->lanes[i]);
    }
    free(lanes);
}

struct mr_partition *mr_partitions_find(struct mr_partitions *lanes, size_t topic_index,
                                        int32_t partition)
{
    for (size_t i = 0; i < lanes->count; i++)
        if (lanes->lanes[i]->topic_index == topic_index && lanes->lanes[i]->partition == partition)
            return lanes->lanes[i];
    return NULL;
}

size_t mr_partitions_count(const struct mr_partitions *lanes)
{
    return lanes->count;
}

struct mr_partition *mr_partitions_at(struct mr_partitions *lanes, size_t index)
{
    MR_ASSERT(index < lanes->count);
    return lanes->lanes[index];
}

static enum mr_status add(struct mr_partitions *lanes, const struct mr_kafka_claim *claim,
                          struct mr_partition **out, struct mr_error *err)
{
    if (lanes->count == MR_PARTITIONS_MAX)
        return mr_fail(err, MR_FULL, "more than %zu partitions in one worker", MR_PARTITIONS_MAX);
    struct mr_partition *lane = calloc(1, sizeof *lane);
    if (!lane) return mr_fail(err, MR_NOMEM, "no memory for a lane");
    enum mr_status status = mr_offset_ledger_create(&lane->ledger, MR_LEDGER_SPAN_MAX, err);
    if (status != MR_OK) {
        free(lane);
        return status;
    }
    lane->topic_index = claim->topic_index;
    lane->partition = claim->partition;
    lane->acked_offset = lane->sent_offset = -1;
    lane->blocked_base = -2;
    lanes->lanes[lanes->count++] = lane;
    *out = lane;
    return MR_OK;
}

static void set_gate(struct mr_partition *lane, bool open)
{
    mr_write_gate_set(&lane->gate, lane->epoch, open);
}

/* Nobody has committed since this worker's last acknowledged commit. */
static bool unchanged(const struct mr_partition *lane, const struct mr_kafka_claim *claim)
{
    return claim->committed == lane->acked_offset &&
           claim->metadata.length == strlen(lane->acked_metadata) &&
           (claim->metadata.length == 0 ||
            memcmp(claim->metadata.bytes, lane->acked_metadata, claim->metadata.length) == 0);
}

static void remember_committed(struct mr_partition *lane, const struct mr_kafka_claim *claim,
                               int64_t since_ms)
{
    size_t length = claim->metadata.length;
    if (length >= sizeof lane->acked_metadata) length = 0; /* another application's */
    if (length > 0) memcpy(lane->acked_metadata, claim->metadata.bytes, length);
    lane->acked_metadata[length] = '\0';
    lane->acked_offset = claim->committed;
    lane->acked_since_ms = since_ms;
    lane->acked_version = lane->sent_version = mr_offset_ledger_version(lane->ledger);
}

enum mr_status mr_partitions_take(struct mr_partitions *lanes, struct mr_kafka_claim *claim,
                                  struct mr_partition **out, bool *resumed, struct mr_error *err)
{
    int64_t since_ms = 0;
    enum mr_status status = MR_OK;
    struct mr_partition *lane = mr_partitions_find(lanes, claim->topic_index, claim->partition);
    *out = NULL;
    *resumed = false;
    if (!lane) status = add(lanes, claim, &lane, err);
    if (status != MR_OK) return status;
    *out = lane;
    lane->generation = claim->generation;
    if (lane->state == MR_PARTITION_LIMBO && unchanged(lane, claim)) {
        *resumed = true;
        lane->state = MR_PARTITION_OWNED;
        set_gate(lane, true);
        if (mr_offset_ledger_next(lane->ledger) >= 0)
            claim->start = mr_offset_ledger_next(lane->ledger);
        return MR_OK;
    }
    lane->epoch++;
    lane->state = MR_PARTITION_OWNED;
    lane->blocked_base = -2;
    lane->looking = lane->sent = false;
    set_gate(lane, true);
    if (claim->committed >= 0)
        status = mr_ledger_metadata_restore(lane->ledger, claim->committed, claim->metadata,
                                            &since_ms, err);
    else
        mr_offset_ledger_reset(lane->ledger, -1);
    remember_committed(lane, claim, since_ms);
    return status;
}

void mr_partition_suspend(struct mr_partition *lane)
{
    MR_ASSERT(lane->state == MR_PARTITION_OWNED);
    lane->state = MR_PARTITION_LIMBO;
    lane->leaving = false;
    set_gate(lane, false);
}

void mr_partition_hold(struct mr_partition *lane)
{
    set_gate(lane, false);
}

void mr_partition_forget(struct mr_partition *lane)
{
    lane->state = MR_PARTITION_NONE;
    lane->epoch++;
    lane->looking = lane->leaving = false;
    set_gate(lane, false);
}

void mr_partition_restart(struct mr_partition *lane, int64_t offset)
{
    lane->state = MR_PARTITION_OWNED;
    set_gate(lane, true);
    mr_offset_ledger_reset(lane->ledger, offset);
}

/* What a commit says beside its time. */
static bool says_the_same(const char *a, const char *b)
{
    size_t skip = MR_LEDGER_METADATA_TIME_CHARS;
    return strlen(a) > skip && strlen(b) > skip && strcmp(a + skip, b + skip) == 0;
}

bool mr_partition_commit(struct mr_partition *lane, int64_t since_ms,
                         struct mr_kafka_commit *commit)
{
    uint64_t version = mr_offset_ledger_version(lane->ledger);
    int64_t base = mr_offset_ledger_base(lane->ledger);
    bool stale =
        lane->acked_since_ms > 0 && since_ms - lane->acked_since_ms >= MR_PARTITION_REFRESH_MS;
    if (lane->state != MR_PARTITION_OWNED || lane->looking || base < 0) return false;
    if (version == lane->acked_version && !stale) return false;
    mr_ledger_metadata_encode(lane->ledger, since_ms, lane->sent_metadata);
    lane->sent_version = version;
    lane->sent_offset = base;
    lane->sent_since_ms = since_ms;
    lane->sent = true;
    if (!stale && base == lane->acked_offset &&
        says_the_same(lane->sent_metadata, lane->acked_metadata)) {
        lane->sent = false;
        lane->acked_version = version;
        return false;
    }
    *commit =
        (struct mr_kafka_commit){lane->topic_index, lane->partition, base, lane->sent_metadata};
    return true;
}

void mr_partition_committed(struct mr_partition *lane, bool ok)
{
    bool sent = lane->sent;
    lane->sent = false;
    if (!ok || !sent) return;
    lane->acked_version = lane->sent_version;
    lane->acked_since_ms = lane->sent_since_ms;
    lane->acked_offset = lane->sent_offset;
    memcpy(lane->acked_metadata, lane->sent_metadata, sizeof lane->acked_metadata);
}

void mr_partitions_check(const struct mr_partitions *lanes)
{
    for (size_t i = 0; i < lanes->count; i++) {
        mr_offset_ledger_check(lanes->lanes[i]->ledger);
        for (size_t k = 0; k < i; k++)
            MR_ASSERT(lanes->lanes[i]->topic_index != lanes->lanes[k]->topic_index ||
                      lanes->lanes[i]->partition != lanes->lanes[k]->partition);
    }
}
