#include "worker/offsets/ownership.h"

#include "codec/check.h"

#include <stdlib.h>

#define CLOCK_SKEW_MS 5000 /* largest clock difference assumed between two machines */
/* age of the oldest results that are read for a partition without a committed offset */
#define NO_COMMIT_MS 60000

static struct mr_partition *find_owned(struct mr_ownership *ownership,
                                       const struct mr_kafka_claim *claim)
{
    struct mr_partition *partition =
        mr_partitions_find(ownership->partitions, claim->topic_index, claim->partition);
    return partition && partition->state == MR_PARTITION_OWNED ? partition : NULL;
}

/* Returns the number of partitions that are owned and not being revoked. */
static uint32_t count_owned(const struct mr_ownership *ownership)
{
    uint32_t count = 0;
    for (size_t i = 0; i < mr_partitions_count(ownership->partitions); i++) {
        const struct mr_partition *partition = mr_partitions_at(ownership->partitions, i);
        count += partition->state == MR_PARTITION_OWNED && !partition->revoking;
    }
    return count;
}

/* ---- recovery ---- */

/* Plans the scan for results that were written but not committed. A commit without a time was set
 * by a person; requests from that offset on run without a scan. */
static void plan_scan(struct mr_ownership *ownership, struct mr_partition *partition,
                      const struct mr_kafka_claim *claim, const struct mr_time *now)
{
    int64_t since_ms = partition->acked_since_ms - CLOCK_SKEW_MS;
    if (claim->committed < 0) since_ms = now->unix_ms - NO_COMMIT_MS;
    if (!ownership->recovery || since_ms <= 0) return;
    struct mr_recovery_scan *scan = calloc(1, sizeof *scan);
    if (!scan) return; /* out of memory, so no scan: finished requests may run again */
    scan->topic = ownership->config->request_topics[partition->topic_index].name;
    scan->topic_index = partition->topic_index;
    scan->partition = partition->number;
    scan->epoch = partition->epoch;
    scan->base = scan->committed = claim->committed;
    scan->since_ms = since_ms;
    scan->proofs_ms = partition->acked_since_ms;
    partition->recovering = true;
    scan->next = ownership->scans;
    ownership->scans = scan;
}

static void apply_scan(struct mr_ownership *ownership, struct mr_partition *partition,
                       const struct mr_recovery_scan *scan)
{
    if (mr_offset_ledger_base(partition->ledger) < 0 && scan->base >= 0)
        mr_offset_ledger_reset(partition->ledger, scan->base);
    if (mr_recovery_has_moved(scan)) {
        mr_partition_pass(partition, scan->base);
        mr_log_warn(ownership->log,
                    "%s/%d: the broker reports committed offset %lld, but results show that all "
                    "requests below %lld are finished; they are skipped",
                    scan->topic, scan->partition, (long long)scan->committed,
                    (long long)scan->base);
    }
    for (int64_t i = 0; i < MR_LEDGER_SPAN_MAX && scan->found > 0; i++)
        if (mr_recovery_is_finished(scan, scan->base + i))
            mr_offset_ledger_found(partition->ledger, scan->base + i);
    if (scan->committed < 0 && scan->found > 0)
        partition->findings = (struct mr_findings){scan->first, scan->first_ms + CLOCK_SKEW_MS,
                                                   scan->newest_ms + CLOCK_SKEW_MS};
    if (scan->found > 0)
        mr_log_event(
            ownership->log, MR_LOG_INFO, NULL, "recovery found results of a partition",
            MR_LOG_STRING("topic", scan->topic), MR_LOG_NUMBER("partition", scan->partition),
            MR_LOG_NUMBER("from_offset", scan->base), MR_LOG_NUMBER("results", scan->found));
}

void mr_ownership_recover(struct mr_ownership *ownership, uint64_t now_ns)
{
    if (!ownership->recovery) return;
    struct mr_recovery_scan *scan = mr_recovery_take(ownership->recovery);
    for (struct mr_recovery_scan *next; scan; scan = next) {
        struct mr_partition *partition =
            mr_partitions_find(ownership->partitions, scan->topic_index, scan->partition);
        next = scan->next;
        if (partition && partition->recovering && partition->epoch == scan->epoch) {
            partition->recovering = false;
            apply_scan(ownership, partition, scan);
            mr_commit_schedule_by(ownership->schedule, now_ns);
        }
        free(scan);
    }
}

/* ---- assignment ---- */

/* Handles a committed offset whose metadata another program has written. The worker fails rather
 * than overwrite it, unless the configuration allows that. */
static void report_foreign(struct mr_ownership *ownership, const struct mr_kafka_claim *claim,
                           const struct mr_error *found)
{
    struct mr_error err;
    const struct mr_config *config = ownership->config;
    if (config->foreign_commits == MR_FOREIGN_COMMITS_IGNORE) {
        mr_log_warn(ownership->log, "%s/%d: %s; finished requests may run again", claim->topic,
                    claim->partition, found->detail);
        return;
    }
    mr_fail(&err, MR_BAD_CONFIG,
            "%s/%d: another application commits offsets of the group %s; use another --group, or "
            "--foreign-commits ignore",
            claim->topic, claim->partition, config->group);
    mr_fault_raise(ownership->fault, &err);
}

static void take_claim(struct mr_ownership *ownership, struct mr_kafka_claim *claim,
                       const struct mr_time *now)
{
    struct mr_error err = {0};
    struct mr_partition *partition =
        mr_partitions_find(ownership->partitions, claim->topic_index, claim->partition);
    const int64_t reported = claim->committed;
    bool resumed = false;
    const struct mr_request_port *requests = &ownership->requests;
    enum mr_status status =
        mr_partitions_take(ownership->partitions, claim, &partition, &resumed, &err);
    if (status == MR_MALFORMED)
        report_foreign(ownership, claim, &err);
    else if (status != MR_OK)
        mr_fault_raise(ownership->fault, &err);
    if (!partition) return;
    if (claim->committed != reported)
        mr_log_warn(
            ownership->log,
            "%s/%d: the broker reports committed offset %lld, but has acknowledged the later "
            "offset %lld to this worker; reading continues at %lld",
            claim->topic, claim->partition, (long long)reported, (long long)claim->committed,
            (long long)claim->committed);
    if (resumed) {
        requests->resume(requests->self, partition);
        return;
    }
    requests->drop_old(requests->self, partition);
    plan_scan(ownership, partition, claim, now);
}

void mr_ownership_assign(struct mr_ownership *ownership, struct mr_kafka_claim *claims,
                         size_t count, const struct mr_time *now)
{
    for (size_t i = 0; i < count; i++)
        take_claim(ownership, &claims[i], now);
    if (ownership->scans) mr_recovery_request(ownership->recovery, ownership->scans);
    ownership->scans = NULL;
    for (size_t i = 0; i < mr_partitions_count(ownership->partitions); i++) {
        struct mr_partition *partition = mr_partitions_at(ownership->partitions, i);
        if (partition->state == MR_PARTITION_SUSPENDED)
            ownership->requests.forget(ownership->requests.self, partition);
    }
    ownership->rebalances++;
    ownership->assigned = true;
    mr_metrics_add(ownership->metrics, MR_COUNTER_REBALANCES, 1);
    ownership->requests.retry_parked(ownership->requests.self);
    mr_commit_schedule_by(ownership->schedule, now->ns + ownership->config->commit_interval_ns);
    mr_log_event(ownership->log, MR_LOG_INFO, NULL, "assigned partitions",
                 MR_LOG_NUMBER("assigned", count), MR_LOG_NUMBER("owned", count_owned(ownership)));
}

/* ---- revocation ---- */

/* Returns the next partition that is being revoked and moves *index past it; NULL: none is left. */
static struct mr_partition *next_revoking(const struct mr_ownership *ownership, size_t *index)
{
    while (*index < mr_partitions_count(ownership->partitions)) {
        struct mr_partition *partition = mr_partitions_at(ownership->partitions, (*index)++);
        if (partition->revoking) return partition;
    }
    return NULL;
}

static void set_deadline(struct mr_ownership *ownership, uint64_t deadline_ns)
{
    bool limited = ownership->limit_ns > 0 && ownership->limit_ns < deadline_ns;
    ownership->deadline_ns = limited ? ownership->limit_ns : deadline_ns;
}

static void begin_holding(struct mr_ownership *ownership, uint64_t now_ns)
{
    size_t index = 0;
    for (struct mr_partition *partition; (partition = next_revoking(ownership, &index));)
        mr_partition_hold(partition);
    ownership->revocation = MR_REVOCATION_HOLDING;
    set_deadline(ownership, now_ns + MR_REVOKE_HOLD_NS);
}

static void begin_draining(struct mr_ownership *ownership, uint64_t now_ns)
{
    ownership->revocation = MR_REVOCATION_DRAINING;
    ownership->deadline_ns = now_ns + ownership->config->revoke_timeout_ns;
}

/* Suspends or forgets the partitions that are being revoked; the revocation is then COMPLETE. */
static void end_ownership(struct mr_ownership *ownership)
{
    size_t index = 0;
    for (struct mr_partition *partition; (partition = next_revoking(ownership, &index));) {
        mr_metrics_drop_lag(ownership->metrics,
                            ownership->config->request_topics[partition->topic_index].name,
                            partition->number);
        if (ownership->how == MR_KAFKA_REVOKE_PAUSE)
            mr_partition_suspend(partition);
        else
            ownership->requests.forget(ownership->requests.self, partition);
    }
    ownership->requests.retry_parked(ownership->requests.self);
    ownership->revocation = MR_REVOCATION_COMPLETE;
    if (ownership->how == MR_KAFKA_REVOKE_LOST) ownership->assigned = false;
    mr_log_event(ownership->log, MR_LOG_INFO, NULL,
                 ownership->how == MR_KAFKA_REVOKE_LOST ? "lost partitions" : "revoked partitions",
                 MR_LOG_NUMBER("revoked", ownership->revoked),
                 MR_LOG_NUMBER("owned", count_owned(ownership)));
}

void mr_ownership_revoke(struct mr_ownership *ownership, const struct mr_kafka_claim *claims,
                         size_t count, enum mr_kafka_revoke how, const struct mr_time *now)
{
    struct mr_partition *partition;
    MR_ASSERT(ownership->revocation == MR_REVOCATION_NONE);
    ownership->how = how;
    ownership->revoked = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        if ((partition = find_owned(ownership, &claims[i]))) partition->revoking = true;
    if (how == MR_KAFKA_REVOKE_LOST)
        end_ownership(ownership);
    else if (count > 0 && ownership->config->on_revoke == MR_ON_REVOKE_DRAIN &&
             ownership->requests.can_end(ownership->requests.self))
        begin_draining(ownership, now->ns);
    else
        begin_holding(ownership, now->ns);
}

void mr_ownership_revoke_all(struct mr_ownership *ownership, const struct mr_time *now)
{
    if (ownership->revocation == MR_REVOCATION_COMPLETE) return;
    ownership->how = MR_KAFKA_REVOKE_GONE;
    ownership->revoked = 0;
    for (size_t i = 0; i < mr_partitions_count(ownership->partitions); i++) {
        struct mr_partition *partition = mr_partitions_at(ownership->partitions, i);
        if (partition->state != MR_PARTITION_OWNED) continue;
        partition->revoking = true;
        ownership->revoked++;
    }
    begin_holding(ownership, now->ns);
}

static uint32_t count_unacknowledged(const struct mr_ownership *ownership)
{
    uint32_t sum = 0;
    size_t index = 0;
    for (const struct mr_partition *partition; (partition = next_revoking(ownership, &index));)
        sum += mr_write_gate_unacknowledged(&partition->gate);
    return sum;
}

void mr_ownership_hold(struct mr_ownership *ownership, const struct mr_time *now)
{
    const struct mr_request_port *requests = &ownership->requests;
    bool late = now->ns >= ownership->deadline_ns;
    if (ownership->revocation == MR_REVOCATION_DRAINING) {
        if (late || requests->count_revoking(requests->self) == 0)
            begin_holding(ownership, now->ns);
        late = false;
    }
    if (ownership->revocation != MR_REVOCATION_HOLDING ||
        (!late && count_unacknowledged(ownership) > 0))
        return;
    size_t index = 0;
    for (struct mr_partition *partition; (partition = next_revoking(ownership, &index));)
        mr_partition_shut(partition);
    ownership->revocation = MR_REVOCATION_RELEASING;
}

void mr_ownership_release(struct mr_ownership *ownership, const struct mr_time *now)
{
    size_t index = 0;
    if (ownership->revocation != MR_REVOCATION_RELEASING) return;
    for (const struct mr_partition *partition; (partition = next_revoking(ownership, &index));)
        ownership->requests.release(ownership->requests.self, partition);
    ownership->revocation = MR_REVOCATION_COMMITTING;
    set_deadline(ownership, now->ns + MR_REVOKE_COMMIT_NS);
}

void mr_ownership_committed(struct mr_ownership *ownership)
{
    MR_ASSERT(ownership->revocation == MR_REVOCATION_COMMITTING);
    end_ownership(ownership);
}

void mr_ownership_lose(struct mr_ownership *ownership)
{
    MR_ASSERT(ownership->revocation != MR_REVOCATION_NONE);
    if (ownership->revocation == MR_REVOCATION_COMPLETE) return;
    ownership->how = MR_KAFKA_REVOKE_LOST;
    end_ownership(ownership);
}

void mr_ownership_complete(struct mr_ownership *ownership)
{
    MR_ASSERT(ownership->revocation == MR_REVOCATION_COMPLETE);
    ownership->revocation = MR_REVOCATION_NONE;
}

uint64_t mr_ownership_due_ns(const struct mr_ownership *ownership)
{
    return ownership->revocation == MR_REVOCATION_NONE ? UINT64_MAX : ownership->deadline_ns;
}
