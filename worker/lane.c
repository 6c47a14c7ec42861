#include "worker/lane.h"

#include "codec/check.h"

#include <stdlib.h>
#include <string.h>

struct mr_lanes {
    size_t count;
    struct mr_lane *lanes[MR_LANES_MAX];
};

enum mr_status mr_lanes_create(struct mr_lanes **out, struct mr_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? MR_OK : mr_fail(err, MR_NOMEM, "no memory for the lanes");
}

void mr_lanes_destroy(struct mr_lanes *lanes)
{
    if (!lanes) return;
    for (size_t i = 0; i < lanes->count; i++) {
        mr_offset_ledger_destroy(lanes->lanes[i]->ledger);
        free(lanes->lanes[i]);
    }
    free(lanes);
}

struct mr_lane *mr_lanes_find(struct mr_lanes *lanes, size_t topic_index, int32_t partition)
{
    for (size_t i = 0; i < lanes->count; i++)
        if (lanes->lanes[i]->topic_index == topic_index && lanes->lanes[i]->partition == partition)
            return lanes->lanes[i];
    return NULL;
}

size_t mr_lanes_count(const struct mr_lanes *lanes)
{
    return lanes->count;
}

struct mr_lane *mr_lanes_at(struct mr_lanes *lanes, size_t index)
{
    MR_ASSERT(index < lanes->count);
    return lanes->lanes[index];
}

static enum mr_status add(struct mr_lanes *lanes, const struct mr_kafka_claim *claim,
                          struct mr_lane **out, struct mr_error *err)
{
    if (lanes->count == MR_LANES_MAX)
        return mr_fail(err, MR_FULL, "more than %zu partitions in one worker", MR_LANES_MAX);
    struct mr_lane *lane = calloc(1, sizeof *lane);
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

/* Nobody has committed since this worker's last acknowledged commit. */
static bool unchanged(const struct mr_lane *lane, const struct mr_kafka_claim *claim)
{
    return claim->committed == lane->acked_offset &&
           claim->metadata.length == strlen(lane->acked_metadata) &&
           (claim->metadata.length == 0 ||
            memcmp(claim->metadata.bytes, lane->acked_metadata, claim->metadata.length) == 0);
}

static void remember_committed(struct mr_lane *lane, const struct mr_kafka_claim *claim)
{
    size_t length = claim->metadata.length;
    if (length >= sizeof lane->acked_metadata) length = 0; /* another application's */
    if (length > 0) memcpy(lane->acked_metadata, claim->metadata.bytes, length);
    lane->acked_metadata[length] = '\0';
    lane->acked_offset = claim->committed;
    lane->acked_version = lane->sent_version = mr_offset_ledger_version(lane->ledger);
}

enum mr_status mr_lanes_take(struct mr_lanes *lanes, struct mr_kafka_claim *claim,
                             struct mr_lane **out, bool *resumed, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    struct mr_lane *lane = mr_lanes_find(lanes, claim->topic_index, claim->partition);
    *out = NULL;
    *resumed = false;
    if (!lane) status = add(lanes, claim, &lane, err);
    if (status != MR_OK) return status;
    *out = lane;
    if (lane->state == MR_LANE_LIMBO && unchanged(lane, claim)) {
        *resumed = true;
        lane->state = MR_LANE_OWNED;
        if (mr_offset_ledger_next(lane->ledger) >= 0)
            claim->start = mr_offset_ledger_next(lane->ledger);
        return MR_OK;
    }
    lane->epoch++;
    lane->state = MR_LANE_OWNED;
    lane->blocked_base = -2;
    if (claim->committed >= 0)
        status = mr_ledger_metadata_restore(lane->ledger, claim->committed, claim->metadata, err);
    else
        mr_offset_ledger_reset(lane->ledger, -1);
    remember_committed(lane, claim);
    return status;
}

void mr_lane_suspend(struct mr_lane *lane)
{
    MR_ASSERT(lane->state == MR_LANE_OWNED);
    lane->state = MR_LANE_LIMBO;
}

void mr_lane_forget(struct mr_lane *lane)
{
    lane->state = MR_LANE_NONE;
    lane->epoch++;
}

bool mr_lane_commit(struct mr_lane *lane, struct mr_kafka_commit *commit)
{
    uint64_t version = mr_offset_ledger_version(lane->ledger);
    int64_t base = mr_offset_ledger_base(lane->ledger);
    if (lane->state != MR_LANE_OWNED || base < 0 || version == lane->acked_version) return false;
    mr_ledger_metadata_encode(lane->ledger, lane->sent_metadata);
    lane->sent_version = version;
    lane->sent_offset = base;
    if (base == lane->acked_offset && strcmp(lane->sent_metadata, lane->acked_metadata) == 0) {
        lane->acked_version = version;
        return false;
    }
    *commit =
        (struct mr_kafka_commit){lane->topic_index, lane->partition, base, lane->sent_metadata};
    return true;
}

void mr_lane_committed(struct mr_lane *lane, bool ok)
{
    if (!ok || lane->sent_version == lane->acked_version) return;
    lane->acked_version = lane->sent_version;
    lane->acked_offset = lane->sent_offset;
    memcpy(lane->acked_metadata, lane->sent_metadata, sizeof lane->acked_metadata);
}

void mr_lanes_check(const struct mr_lanes *lanes)
{
    for (size_t i = 0; i < lanes->count; i++) {
        mr_offset_ledger_check(lanes->lanes[i]->ledger);
        for (size_t k = 0; k < i; k++)
            MR_ASSERT(lanes->lanes[i]->topic_index != lanes->lanes[k]->topic_index ||
                      lanes->lanes[i]->partition != lanes->lanes[k]->partition);
    }
}
