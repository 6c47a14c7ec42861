#include "worker/intake/intake_claims.h"

#include "worker/base/clock.h"
#include "worker/intake/intake_state.h"
#include "worker/intake/intake_transactions.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REVOKE_COMMIT_MS 5000u
#define RETRY_NS         ((uint64_t)500000000)
#define SETTLE_MS        2000u /* what is being written is waited for, before a partition goes */
#define SETTLE_LOOK_MS   2u
#define DRAIN_LOOK_MS    5u
#define SINCE_MARGIN_MS  5000  /* what clocks may differ by */
#define NO_COMMIT_MS     60000 /* how old the first life of a partition without a commit may be */

/* ---- tickets of one lane ---- */

struct lane_visit {
    struct mr_intake *intake;
    const struct mr_partition *lane; /* NULL: all */
    uint64_t epoch;
    void (*change)(struct mr_offset_ledger *ledger, int64_t offset);
    void (*note)(struct mr_trail *trail);
};

static bool is_of(const struct lane_visit *visit, const struct mr_ticket *ticket)
{
    return ticket->intake.lane == visit->lane && ticket->epoch == visit->epoch;
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

void mr_intake_forget_lane(struct mr_intake *intake, struct mr_partition *lane)
{
    struct lane_visit visit = {.intake = intake, .lane = lane, .epoch = lane->epoch};
    mr_ticket_table_each(intake->table, drop_ticket, &visit);
    mr_partition_forget(lane);
    intake->retry_parked = true;
}

static void change_ticket(void *context, struct mr_ticket *ticket)
{
    struct lane_visit *visit = context;
    if (visit->lane && !is_of(visit, ticket)) return;
    if (!ticket->intake.running) return;
    visit->change(ticket->intake.lane->ledger, ticket->offset);
    if (ticket->trail) visit->note(ticket->trail);
}

/* What runs of the lane is handed back, or goes on. */
static void release_lane(struct mr_intake *intake, const struct mr_partition *lane)
{
    struct lane_visit visit = {.lane = lane,
                               .epoch = lane ? lane->epoch : 0,
                               .change = mr_offset_ledger_release,
                               .note = mr_trail_release};
    mr_ticket_table_each(intake->table, change_ticket, &visit);
}

static void resume_lane(struct mr_intake *intake, const struct mr_partition *lane)
{
    struct lane_visit visit = {.lane = lane,
                               .epoch = lane->epoch,
                               .change = mr_offset_ledger_resume,
                               .note = mr_trail_reclaim};
    mr_ticket_table_each(intake->table, change_ticket, &visit);
}

void mr_intake_release_all(struct mr_intake *intake)
{
    release_lane(intake, NULL);
}

/* ---- what the last owner answered and did not commit ---- */

/* Where a commit says no time somebody set the offset by hand: that is to be obeyed. */
static void look_back(struct mr_intake *intake, struct mr_partition *lane,
                      const struct mr_kafka_claim *claim)
{
    int64_t since_ms = lane->acked_since_ms - SINCE_MARGIN_MS;
    if (claim->committed < 0) since_ms = mr_clock_unix_ms() - NO_COMMIT_MS;
    if (!intake->recovery || since_ms <= 0) return;
    struct mr_recovery_look *look = calloc(1, sizeof *look);
    if (!look) return; /* finished requests may be run again */
    look->topic = intake->options.config->request_topics[lane->topic_index].name;
    look->topic_index = lane->topic_index;
    look->partition = lane->partition;
    look->epoch = lane->epoch;
    look->base = claim->committed;
    look->since_ms = since_ms;
    lane->looking = true;
    look->next = intake->looks;
    intake->looks = look;
}

static void mark_found(struct mr_intake *intake, struct mr_partition *lane,
                       const struct mr_recovery_look *look)
{
    if (mr_offset_ledger_base(lane->ledger) < 0 && look->base >= 0)
        mr_offset_ledger_reset(lane->ledger, look->base);
    for (uint32_t i = 0; i < MR_LEDGER_SPAN_MAX && look->found > 0; i++)
        if (look->finished[i / 8] >> (i % 8) & 1)
            mr_offset_ledger_found(lane->ledger, look->base + i);
    if (look->found > 0)
        mr_log_info(intake->options.log, "%s/%d: %u results found from %lld on", look->topic,
                    look->partition, look->found, (long long)look->base);
}

void mr_intake_recovered(struct mr_intake *intake)
{
    struct mr_recovery_look *look = mr_recovery_take(intake->recovery);
    for (struct mr_recovery_look *next; look; look = next) {
        struct mr_partition *lane =
            mr_partitions_find(intake->lanes, look->topic_index, look->partition);
        next = look->next;
        if (lane && lane->looking && lane->epoch == look->epoch) {
            lane->looking = false;
            mark_found(intake, lane, look);
            mr_intake_commit_by(intake, mr_clock_ns());
        }
        free(look);
    }
}

/* ---- events of the consumer ---- */

/* The offset's metadata is not ours. Nothing is committed over it unless that was asked for. */
static void meet_foreign(struct mr_intake *intake, const struct mr_kafka_claim *claim,
                         const struct mr_error *found)
{
    struct mr_error err;
    const struct mr_config *config = intake->options.config;
    if (config->foreign_commits == MR_FOREIGN_COMMITS_IGNORE) {
        mr_log_warn(intake->options.log, "%s/%d: %s; finished requests may be run again",
                    claim->topic, claim->partition, found->detail);
        return;
    }
    mr_fail(&err, MR_BAD_CONFIG,
            "%s/%d: another application commits offsets of the group %s; use another --group, or "
            "--foreign-commits ignore",
            claim->topic, claim->partition, config->group);
    mr_intake_fail(intake, &err);
}

static void take_claim(struct mr_intake *intake, struct mr_kafka_claim *claim)
{
    struct mr_error err = {0};
    struct mr_partition *lane =
        mr_partitions_find(intake->lanes, claim->topic_index, claim->partition);
    bool resumed = false;
    uint64_t epoch = lane ? lane->epoch : 0;
    enum mr_status status = mr_partitions_take(intake->lanes, claim, &lane, &resumed, &err);
    if (status == MR_MALFORMED)
        meet_foreign(intake, claim, &err);
    else if (status != MR_OK)
        mr_intake_fail(intake, &err);
    if (!lane) return;
    if (resumed) {
        resume_lane(intake, lane);
        return;
    }
    struct lane_visit visit = {.intake = intake, .lane = lane, .epoch = epoch};
    mr_ticket_table_each(intake->table, drop_ticket, &visit); /* of an older life, if any */
    look_back(intake, lane, claim);
}

/* Partitions that are here and not about to go. */
static uint32_t staying(struct mr_intake *intake)
{
    uint32_t count = 0;
    for (size_t i = 0; i < mr_partitions_count(intake->lanes); i++) {
        const struct mr_partition *lane = mr_partitions_at(intake->lanes, i);
        count += lane->state == MR_PARTITION_OWNED && !lane->leaving;
    }
    return count;
}

void mr_intake_assigned(void *context, struct mr_kafka_claim *claims, size_t count)
{
    struct mr_intake *intake = context;
    if (intake->targets.settle) mr_intake_settled(intake, 0); /* the claims know of it already */
    for (size_t i = 0; i < count; i++)
        take_claim(intake, &claims[i]);
    if (intake->looks) mr_recovery_ask(intake->recovery, intake->looks);
    intake->looks = NULL;
    for (size_t i = 0; i < mr_partitions_count(intake->lanes); i++) {
        struct mr_partition *lane = mr_partitions_at(intake->lanes, i);
        if (lane->state == MR_PARTITION_LIMBO) mr_intake_forget_lane(intake, lane);
    }
    intake->stats.rebalances++;
    intake->stats.assigned = true;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_REBALANCES, 1);
    intake->retry_parked = true;
    mr_intake_commit_by(intake, mr_clock_ns() + intake->options.config->commit_interval_ns);
    mr_log_info(intake->options.log, "assigned %zu partitions, %u held", count, staying(intake));
}

static struct mr_partition *lane_of(struct mr_intake *intake, const struct mr_kafka_claim *claim)
{
    struct mr_partition *lane =
        mr_partitions_find(intake->lanes, claim->topic_index, claim->partition);
    return lane && lane->state == MR_PARTITION_OWNED ? lane : NULL;
}

static void await_ticket(void *context, struct mr_ticket *ticket)
{
    struct lane_visit *visit = context;
    if (is_of(visit, ticket) && ticket->intake.running) ticket->intake.awaited = true;
}

static void count_awaited(void *context, struct mr_ticket *ticket)
{
    if (ticket->intake.awaited) (*(uint32_t *)context)++;
}

static void forget_awaited(void *context, struct mr_ticket *ticket)
{
    (void)context;
    ticket->intake.awaited = false;
}

/* The consumer is not polled meanwhile: never so long that the group gives this worker up. */
static uint64_t drain_limit_ns(const struct mr_config *config)
{
    uint64_t most_ns = config->poll_interval_max_ns / 2;
    return most_ns > 0 && most_ns < config->revoke_timeout_ns ? most_ns : config->revoke_timeout_ns;
}

void mr_intake_revoke_drain(struct mr_intake *intake, const struct mr_kafka_claim *claims,
                            size_t count)
{
    struct mr_partition *lane;
    struct timespec pause = {.tv_nsec = DRAIN_LOOK_MS * 1000000L};
    uint64_t until_ns = mr_clock_ns() + drain_limit_ns(intake->options.config);
    for (size_t i = 0; i < count; i++) {
        if (!(lane = lane_of(intake, &claims[i]))) continue;
        struct lane_visit visit = {.intake = intake, .lane = lane, .epoch = lane->epoch};
        mr_ticket_table_each(intake->table, await_ticket, &visit);
        lane->leaving = true;
    }
    bool some_stay = staying(intake) > 0;
    for (uint32_t left = 1; left > 0 && mr_clock_ns() < until_ns;) {
        if (some_stay)
            mr_intake_go_on(intake);
        else
            mr_intake_handle_mail(intake);
        left = 0;
        mr_ticket_table_each(intake->table, count_awaited, &left);
        if (intake->targets.settle) mr_intake_settle(intake, DRAIN_LOOK_MS);
        if (left > 0) nanosleep(&pause, NULL);
    }
    mr_ticket_table_each(intake->table, forget_awaited, NULL);
}

static uint32_t unsettled(struct mr_intake *intake, const struct mr_kafka_claim *claims,
                          size_t count)
{
    uint32_t sum = 0;
    const struct mr_partition *lane;
    for (size_t i = 0; i < count; i++)
        if ((lane = lane_of(intake, &claims[i]))) sum += mr_write_gate_unacknowledged(&lane->gate);
    return sum;
}

/* Nothing more of these partitions is begun to be written; what is on its way arrives, so that its
 * offset can be committed before somebody else has the partition. */
static void settle(struct mr_intake *intake, const struct mr_kafka_claim *claims, size_t count)
{
    struct mr_partition *lane;
    struct timespec pause = {.tv_nsec = SETTLE_LOOK_MS * 1000000L};
    for (size_t i = 0; i < count; i++)
        if ((lane = lane_of(intake, &claims[i]))) mr_partition_hold(lane);
    for (uint32_t ms = 0; ms < SETTLE_MS && unsettled(intake, claims, count) > 0;
         ms += SETTLE_LOOK_MS)
        nanosleep(&pause, NULL);
    if (intake->mailbox) mr_intake_handle_mail(intake);
}

void mr_intake_revoked(void *context, const struct mr_kafka_claim *claims, size_t count,
                       enum mr_kafka_revoke how)
{
    struct mr_intake *intake = context;
    struct mr_partition *lane;
    if (how != MR_KAFKA_REVOKE_LOST && count > 0 && intake->targets.engine &&
        intake->options.config->on_revoke == MR_ON_REVOKE_DRAIN)
        mr_intake_revoke_drain(intake, claims, count);
    if (how != MR_KAFKA_REVOKE_LOST) settle(intake, claims, count);
    for (size_t i = 0; i < count && how != MR_KAFKA_REVOKE_LOST; i++)
        if ((lane = lane_of(intake, &claims[i]))) release_lane(intake, lane);
    if (how != MR_KAFKA_REVOKE_LOST) mr_intake_commit(intake, REVOKE_COMMIT_MS);
    for (size_t i = 0; i < count; i++) {
        if (!(lane = lane_of(intake, &claims[i]))) continue;
        mr_metrics_drop_lag(intake->targets.metrics, claims[i].topic, claims[i].partition);
        if (how == MR_KAFKA_REVOKE_PAUSE)
            mr_partition_suspend(lane);
        else
            mr_intake_forget_lane(intake, lane);
    }
    mr_log_info(intake->options.log, "%s %zu partitions, %u held",
                how == MR_KAFKA_REVOKE_LOST ? "lost" : "gave back", count, staying(intake));
}

void mr_intake_committed(void *context, enum mr_status status, const char *reason)
{
    struct mr_intake *intake = context;
    if (!intake->committing) return; /* answered too late: the commit was repeated */
    intake->committing = false;
    for (size_t i = 0; i < mr_partitions_count(intake->lanes); i++)
        mr_partition_committed(mr_partitions_at(intake->lanes, i), status == MR_OK);
    if (status == MR_OK || intake->failed) return;
    intake->stats.commit_failures++;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_COMMIT_ERRORS, 1);
    mr_log_warn(intake->options.log, "commit failed, will be repeated: %s", reason);
    uint64_t pause_ns = intake->options.config->commit_interval_ns;
    mr_intake_commit_by(intake, mr_clock_ns() + (pause_ns > RETRY_NS ? pause_ns : RETRY_NS));
}
