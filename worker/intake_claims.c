#include "worker/intake_claims.h"

#include "worker/clock.h"
#include "worker/intake_state.h"

#include <string.h>

#define REVOKE_COMMIT_MS 5000u

/* ---- tickets of one lane ---- */

struct lane_visit {
    struct mr_intake *intake;
    const struct mr_lane *lane; /* NULL: all */
    uint64_t epoch;
    void (*change)(struct mr_offset_ledger *ledger, int64_t offset);
};

static bool is_of(const struct lane_visit *visit, const struct mr_ticket *ticket)
{
    return ticket->lane == visit->lane && ticket->lane_epoch == visit->epoch;
}

static void drop_ticket(void *context, struct mr_ticket *ticket)
{
    struct lane_visit *visit = context;
    if (!is_of(visit, ticket)) return;
    struct mr_intake *intake = visit->intake;
    atomic_store(&ticket->dropped, true);
    pthread_mutex_lock(&intake->mutex);
    if (intake->targets.engine)
        mr_engine_cancel(intake->targets.engine, (struct mr_text){ticket->id, strlen(ticket->id)});
    pthread_mutex_unlock(&intake->mutex);
}

void mr_intake_forget_lane(struct mr_intake *intake, struct mr_lane *lane)
{
    struct lane_visit visit = {.intake = intake, .lane = lane, .epoch = lane->epoch};
    mr_ticket_table_each(intake->table, drop_ticket, &visit);
    mr_lane_forget(lane);
    intake->retry_parked = true;
}

static void change_ticket(void *context, struct mr_ticket *ticket)
{
    struct lane_visit *visit = context;
    if (visit->lane && !is_of(visit, ticket)) return;
    if (ticket->running) visit->change(ticket->lane->ledger, ticket->offset);
}

/* What runs of the lane is handed back, or goes on. */
static void release_lane(struct mr_intake *intake, const struct mr_lane *lane)
{
    struct lane_visit visit = {
        .lane = lane, .epoch = lane ? lane->epoch : 0, .change = mr_offset_ledger_release};
    mr_ticket_table_each(intake->table, change_ticket, &visit);
}

static void resume_lane(struct mr_intake *intake, const struct mr_lane *lane)
{
    struct lane_visit visit = {
        .lane = lane, .epoch = lane->epoch, .change = mr_offset_ledger_resume};
    mr_ticket_table_each(intake->table, change_ticket, &visit);
}

void mr_intake_release_all(struct mr_intake *intake)
{
    release_lane(intake, NULL);
}

/* ---- events of the consumer ---- */

static void take_claim(struct mr_intake *intake, struct mr_kafka_claim *claim)
{
    struct mr_error err = {0};
    struct mr_lane *lane = mr_lanes_find(intake->lanes, claim->topic_index, claim->partition);
    bool resumed = false;
    uint64_t epoch = lane ? lane->epoch : 0;
    enum mr_status status = mr_lanes_take(intake->lanes, claim, &lane, &resumed, &err);
    if (status == MR_MALFORMED)
        mr_log_warn(intake->options.log, "%s/%d: %s; finished requests may be run again",
                    claim->topic, claim->partition, err.detail);
    else if (status != MR_OK)
        mr_intake_fail(intake, &err);
    if (!lane) return;
    if (resumed) {
        resume_lane(intake, lane);
        return;
    }
    struct lane_visit visit = {.intake = intake, .lane = lane, .epoch = epoch};
    mr_ticket_table_each(intake->table, drop_ticket, &visit); /* of an older life, if any */
}

void mr_intake_assigned(void *context, struct mr_kafka_claim *claims, size_t count)
{
    struct mr_intake *intake = context;
    for (size_t i = 0; i < count; i++)
        take_claim(intake, &claims[i]);
    for (size_t i = 0; i < mr_lanes_count(intake->lanes); i++) {
        struct mr_lane *lane = mr_lanes_at(intake->lanes, i);
        if (lane->state == MR_LANE_LIMBO) mr_intake_forget_lane(intake, lane);
    }
    intake->stats.rebalances++;
    intake->stats.assigned = true;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_REBALANCES, 1);
    intake->retry_parked = true;
    mr_intake_commit_by(intake, mr_clock_ns() + intake->options.config->commit_interval_ns);
    mr_log_info(intake->options.log, "assigned %zu partitions", count);
}

static struct mr_lane *lane_of(struct mr_intake *intake, const struct mr_kafka_claim *claim)
{
    struct mr_lane *lane = mr_lanes_find(intake->lanes, claim->topic_index, claim->partition);
    return lane && lane->state == MR_LANE_OWNED ? lane : NULL;
}

void mr_intake_revoked(void *context, const struct mr_kafka_claim *claims, size_t count,
                       enum mr_kafka_revoke how)
{
    struct mr_intake *intake = context;
    struct mr_lane *lane;
    for (size_t i = 0; i < count && how != MR_KAFKA_REVOKE_LOST; i++)
        if ((lane = lane_of(intake, &claims[i]))) release_lane(intake, lane);
    if (how != MR_KAFKA_REVOKE_LOST) mr_intake_commit(intake, REVOKE_COMMIT_MS);
    for (size_t i = 0; i < count; i++) {
        if (!(lane = lane_of(intake, &claims[i]))) continue;
        mr_metrics_drop_lag(intake->targets.metrics, claims[i].topic, claims[i].partition);
        if (how == MR_KAFKA_REVOKE_PAUSE)
            mr_lane_suspend(lane);
        else
            mr_intake_forget_lane(intake, lane);
    }
    mr_log_info(intake->options.log, "%s %zu partitions",
                how == MR_KAFKA_REVOKE_LOST ? "lost" : "gave back", count);
}

void mr_intake_committed(void *context, enum mr_status status, const char *reason)
{
    struct mr_intake *intake = context;
    if (!intake->committing) return; /* answered too late: the commit was repeated */
    intake->committing = false;
    for (size_t i = 0; i < mr_lanes_count(intake->lanes); i++)
        mr_lane_committed(mr_lanes_at(intake->lanes, i), status == MR_OK);
    if (status == MR_OK) return;
    intake->stats.commit_failures++;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_COMMIT_ERRORS, 1);
    mr_log_warn(intake->options.log, "commit failed, will be repeated: %s", reason);
    mr_intake_commit_by(intake, mr_clock_ns() + intake->options.config->commit_interval_ns);
}
