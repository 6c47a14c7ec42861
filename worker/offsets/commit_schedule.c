#include "worker/offsets/commit_schedule.h"

#include <stdlib.h>

#define RETRY_NS ((uint64_t)500000000)

void mr_commit_schedule_by(struct mr_commit_schedule *schedule, uint64_t when_ns)
{
    if (when_ns < schedule->due_ns) schedule->due_ns = when_ns;
}

void mr_commit_schedule_soon(struct mr_commit_schedule *schedule)
{
    mr_commit_schedule_by(schedule, schedule->sent_ns + schedule->interval_ns);
}

bool mr_commit_schedule_is_due(const struct mr_commit_schedule *schedule, uint64_t now_ns)
{
    return !schedule->pending && now_ns >= schedule->due_ns;
}

/* False: there is no memory for a batch of all partitions. */
static bool make_room(struct mr_commit_schedule *schedule)
{
    size_t count = mr_partitions_count(schedule->partitions);
    if (count <= schedule->batch_max) return true;
    struct mr_kafka_commit *batch = realloc(schedule->batch, count * sizeof *batch);
    if (!batch) return false;
    schedule->batch = batch;
    schedule->batch_max = count;
    return true;
}

size_t mr_commit_schedule_gather(struct mr_commit_schedule *schedule)
{
    size_t count = 0;
    schedule->due_ns = UINT64_MAX;
    if (!make_room(schedule)) {
        mr_commit_schedule_by(schedule, schedule->sent_ns + RETRY_NS);
        return 0;
    }
    for (size_t i = 0; i < mr_partitions_count(schedule->partitions); i++)
        if (mr_partition_fill_commit(mr_partitions_at(schedule->partitions, i), schedule->since_ms,
                                     &schedule->batch[count]))
            count++;
    return count;
}

void mr_commit_schedule_sent(struct mr_commit_schedule *schedule, bool in_transaction,
                             uint64_t now_ns)
{
    schedule->commits++;
    mr_metrics_add(schedule->metrics, MR_COUNTER_COMMITS, 1);
    schedule->sent_ns = now_ns;
    schedule->pending = true;
    schedule->in_transaction = in_transaction;
}

/* Applies the outcome to the partitions that wait for one. */
static void settle_all(struct mr_commit_schedule *schedule, bool ok)
{
    for (size_t i = 0; i < mr_partitions_count(schedule->partitions); i++)
        mr_partition_committed(mr_partitions_at(schedule->partitions, i), ok);
}

void mr_commit_schedule_finished(struct mr_commit_schedule *schedule, enum mr_status status,
                                 const char *reason, uint64_t now_ns)
{
    if (!schedule->pending) return;
    schedule->pending = false;
    schedule->outcome = status;
    settle_all(schedule, status == MR_OK);
    if (status == MR_OK || schedule->fault->raised) return;
    schedule->failures++;
    mr_metrics_add(schedule->metrics, MR_COUNTER_COMMIT_ERRORS, 1);
    mr_log_warn(schedule->log, "commit failed, it will be repeated: %s", reason);
    uint64_t pause_ns = schedule->interval_ns > RETRY_NS ? schedule->interval_ns : RETRY_NS;
    mr_commit_schedule_by(schedule, now_ns + pause_ns);
}

void mr_commit_schedule_answered(struct mr_commit_schedule *schedule,
                                 const struct mr_kafka_event *event, uint64_t now_ns)
{
    if (event->number != schedule->commits || !schedule->pending) return;
    for (size_t i = 0; i < event->claim_count; i++) {
        const struct mr_kafka_claim *claim = &event->claims[i];
        struct mr_partition *partition =
            mr_partitions_find(schedule->partitions, claim->topic_index, claim->partition);
        if (partition) mr_partition_committed(partition, false);
    }
    if (event->claim_count > 0) settle_all(schedule, true);
    mr_commit_schedule_finished(schedule, event->status, event->reason, now_ns);
}

void mr_commit_schedule_expire(struct mr_commit_schedule *schedule, uint64_t now_ns)
{
    if (schedule->pending && !schedule->in_transaction &&
        now_ns - schedule->sent_ns > MR_COMMIT_OUTCOME_NS)
        mr_commit_schedule_finished(schedule, MR_TIMEOUT, "no answer", now_ns);
}
