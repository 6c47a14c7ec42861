#include "worker/intake/intake.h"

#include "codec/check.h"
#include "worker/intake/intake_state.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket_trace.h"

#define SECOND_NS      ((uint64_t)1000000000)
#define CANCEL_READ_NS (5 * SECOND_NS)
#define REFRESH_NS     (MR_PARTITION_REFRESH_MS * (uint64_t)1000000)
/* time between checks whether the revoked partitions' terminal records are acknowledged */
#define HOLD_POLL_NS ((uint64_t)2000000)
/* most records taken in one step, so that the step's clock reading stays accurate */
#define TAKE_BURST 16u

/* ---- commits ---- */

static void commit(struct mr_intake *intake, uint64_t now_ns)
{
    struct mr_error err = {0};
    struct mr_kafka_consumer_port *consumer = &intake->consumer;
    struct mr_commit_schedule *schedule = &intake->schedule;
    struct mr_exactly_once *exactly_once = &intake->exactly_once;
    if (mr_exactly_once_is_due(exactly_once, now_ns)) {
        if (mr_exactly_once_seal(exactly_once, now_ns))
            mr_exactly_once_start(exactly_once, consumer->membership(consumer->self), now_ns);
        return;
    }
    size_t count = mr_commit_schedule_gather(schedule);
    mr_commit_schedule_by(schedule, exactly_once->due_ns);
    if (count == 0) return;
    mr_commit_schedule_sent(schedule, false, now_ns);
    enum mr_status status =
        consumer->commit(consumer->self, schedule->batch, count, schedule->commits, &err);
    if (status != MR_OK) mr_commit_schedule_finished(schedule, status, err.detail, now_ns);
}

/* Makes the next commit due now, with the terminal records that are ready. */
static void make_commit_due(struct mr_intake *intake, uint64_t now_ns)
{
    if (intake->exactly_once.ready) intake->exactly_once.due_ns = now_ns;
    mr_commit_schedule_by(&intake->schedule, now_ns);
}

static void commit_if_due(struct mr_intake *intake, uint64_t now_ns)
{
    struct mr_exactly_once *exactly_once = &intake->exactly_once;
    if (exactly_once->transactions) mr_exactly_once_poll(exactly_once, now_ns);
    mr_commit_schedule_expire(&intake->schedule, now_ns);
    /* During a revocation drain, a ready request can end only with its transaction: commit at
     * once. */
    if (intake->ownership.revocation == MR_REVOCATION_DRAINING && exactly_once->ready)
        make_commit_due(intake, now_ns);
    if (mr_commit_schedule_is_due(&intake->schedule, now_ns)) commit(intake, now_ns);
}

/* ---- rebalances ---- */

/* Commits all offsets before the partitions are released. With transactions it commits again while
 * more requests become ready. True: there is no commit to wait for. */
static bool commit_revocation(struct mr_intake *intake, uint64_t now_ns)
{
    struct mr_commit_schedule *schedule = &intake->schedule;
    if (schedule->pending) {
        if (now_ns < intake->ownership.deadline_ns) return false;
        if (!schedule->in_transaction)
            mr_commit_schedule_finished(schedule, MR_TIMEOUT, "no answer", now_ns);
        return true;
    }
    bool more = intake->exactly_once.ready && schedule->outcome == MR_OK;
    if (intake->revocation_sent && !more) return true;
    if (intake->revocation_sent && now_ns >= intake->ownership.deadline_ns) return true;
    intake->revocation_sent = true;
    make_commit_due(intake, now_ns);
    commit(intake, now_ns);
    return !schedule->pending;
}

static void complete_rebalance(struct mr_intake *intake)
{
    if (intake->rebalancing) intake->consumer.complete_rebalance(intake->consumer.self);
    intake->rebalancing = false;
}

static void advance_revocation(struct mr_intake *intake, const struct mr_time *now)
{
    struct mr_ownership *ownership = &intake->ownership;
    if (ownership->revocation == MR_REVOCATION_NONE) return;
    mr_ownership_release(ownership, now);
    if (ownership->revocation == MR_REVOCATION_COMMITTING && commit_revocation(intake, now->ns))
        mr_ownership_committed(ownership);
    if (ownership->revocation != MR_REVOCATION_COMPLETE) return;
    intake->revocation_sent = false;
    mr_ownership_complete(ownership);
    complete_rebalance(intake);
}

static void handle_event(struct mr_intake *intake, const struct mr_kafka_event *event,
                         const struct mr_time *now)
{
    struct mr_ownership *ownership = &intake->ownership;
    if (event->kind == MR_KAFKA_EVENT_COMMITTED) {
        if (!intake->schedule.in_transaction)
            mr_commit_schedule_answered(&intake->schedule, event, now->ns);
        return;
    }
    intake->rebalancing = true;
    if (event->kind == MR_KAFKA_EVENT_ASSIGNED) {
        mr_ownership_assign(ownership, event->claims, event->claim_count, now);
        complete_rebalance(intake);
    } else {
        mr_ownership_revoke(ownership, event->claims, event->claim_count, event->how, now);
    }
}

static void serve_consumer(struct mr_intake *intake, const struct mr_time *now)
{
    struct mr_error err = {0};
    struct mr_kafka_event event;
    struct mr_kafka_consumer_port *consumer = &intake->consumer;
    if (consumer->serve(consumer->self, &err) != MR_OK) mr_fault_raise(&intake->fault, &err);
    /* Before an assignment is handled: its offsets may be those that a transaction of this worker
     * has just committed. */
    if (intake->exactly_once.transactions) mr_exactly_once_poll(&intake->exactly_once, now->ns);
    while (intake->leaving == MR_INTAKE_STAYS && consumer->next_event(consumer->self, &event))
        handle_event(intake, &event, now);
    while (intake->leaving != MR_INTAKE_STAYS && consumer->next_event(consumer->self, &event))
        if (event.kind == MR_KAFKA_EVENT_COMMITTED) handle_event(intake, &event, now);
    if (intake->ownership.revocation != MR_REVOCATION_NONE && consumer->is_lost(consumer->self))
        mr_ownership_lose(&intake->ownership);
}

/* ---- messages and cancels ---- */

/* Reads the time of the oldest unacknowledged result. Call before the mailbox is emptied: the
 * message of a result that is acknowledged in between is then in the mailbox. */
static void read_since(struct mr_intake *intake, int64_t now_ms)
{
    int64_t oldest_ms = atomic_load(&intake->oldest_ms);
    intake->schedule.since_ms = oldest_ms > 0 && oldest_ms < now_ms ? oldest_ms : now_ms;
}

static void handle_mail(struct mr_intake *intake, const struct mr_time *now)
{
    struct mr_admission *admission = &intake->admission;
    read_since(intake, now->unix_ms);
    for (struct mr_mail *mail = mr_mailbox_take(intake->mailbox), *next; mail; mail = next) {
        next = mail->next;
        if (mail->kind == MR_MAIL_FOUND) {
            if (mr_lookups_finish(&intake->lookups, (struct mr_found_mail *)mail))
                intake->flight.retry_parked = true;
        } else if (mail->kind == MR_MAIL_NOTED) {
            mr_starts_answer(&intake->starts, (struct mr_found_mail *)mail);
        } else if (mail->kind == MR_MAIL_STARTING) {
            struct mr_ticket *ticket = MR_TICKET_OF(mail, starting);
            mr_ticket_trace_start(ticket, admission->tracer, now->ns);
            mr_starts_add(&intake->starts, ticket);
        } else if (mail->kind == MR_MAIL_DONE) {
            mr_admission_done(admission, MR_TICKET_OF(mail, done));
        } else if (mail->kind == MR_MAIL_READY) {
            mr_exactly_once_ready(&intake->exactly_once, MR_TICKET_OF(mail, done));
        } else {
            MR_ASSERT(mail->kind == MR_MAIL_RETURNED);
            mr_admission_returned(admission, MR_TICKET_OF(mail, done));
        }
    }
}

static void handle_cancels(struct mr_intake *intake, const struct mr_time *now)
{
    struct mr_kafka_record record;
    struct mr_kafka_reader_port *cancels = &intake->cancels;
    int64_t oldest_ms = now->unix_ms - (int64_t)(MR_CANCEL_KEEP_NS / 1000000);
    while (cancels->self && cancels->take(cancels->self, &record))
        if (record.timestamp_ms <= 0 || record.timestamp_ms > oldest_ms)
            mr_cancels_apply(&intake->admission, &record, now);
}

/* True while the cancel records written before the start are being read. No request is taken then,
 * because one of them may cancel it. Ends after CANCEL_READ_NS at the latest. */
static bool awaits_cancels(struct mr_intake *intake, uint64_t now_ns)
{
    struct mr_kafka_reader_port *cancels = &intake->cancels;
    if (intake->cancels_read) return false;
    if (intake->opened_ns == 0) intake->opened_ns = now_ns;
    bool behind = cancels->self && cancels->is_behind(cancels->self);
    intake->cancels_read = !behind || now_ns > intake->opened_ns + CANCEL_READ_NS;
    return !intake->cancels_read;
}

/* ---- records ---- */

static bool has_room(struct mr_intake *intake, uint64_t now_ns)
{
    if (intake->fault.raised || mr_flight_is_full(&intake->flight)) return false;
    if (awaits_cancels(intake, now_ns)) return false;
    if (intake->lookups.bytes >= MR_LOOKUP_BYTES_MAX) return false;
    if (!mr_mailbox_has_room(intake->admission.publish)) return false;
    intake->admission.room =
        mr_engine_link_room(&intake->admission.engine, intake->options.config->tenant_count) &
        mr_quota_room(&intake->admission.quota, now_ns);
    return intake->admission.room != 0;
}

/* Takes up to TAKE_BURST records; true: there may be more. */
static bool take_records(struct mr_intake *intake, const struct mr_time *now)
{
    struct mr_kafka_record record;
    struct mr_kafka_consumer_port *consumer = &intake->consumer;
    size_t topic_index = 0;
    for (unsigned i = 0; i < TAKE_BURST; i++) {
        if (!has_room(intake, now->ns)) return false;
        if (!consumer->take(consumer->self, mr_admission_may_take, &intake->admission, &record,
                            &topic_index))
            return false;
        if (!mr_admission_accept(&intake->admission, &record, topic_index, now))
            consumer->put_back(consumer->self);
    }
    return true;
}

static bool admit(struct mr_intake *intake, const struct mr_time *now)
{
    struct mr_flight *flight = &intake->flight;
    if (intake->admission.draining) return false;
    if (mr_lookups_expire(&intake->lookups, flight->parked, now->ns)) flight->retry_parked = true;
    if (intake->admission.adapters && mr_adapters_changed(intake->admission.adapters))
        flight->retry_parked = true;
    if (flight->retry_parked) mr_admission_retry_parked(&intake->admission, now);
    return take_records(intake, now);
}

/* ---- leaving ---- */

/* Called when the engine and publish have ended: releases every request that still runs and begins
 * the revocation of all partitions. */
static void begin_leaving(struct mr_intake *intake, const struct mr_time *now)
{
    intake->leaving = MR_INTAKE_LEAVES;
    mr_engine_link_close(&intake->admission.engine);
    handle_mail(intake, now);
    mr_partition_requests_change(&intake->requests, NULL, mr_starts_release);
    /* before the commit, because the process may be killed while it waits for the broker */
    intake->gone_lines = intake->options.handover ? intake->options.handover->lines : 0;
    mr_partition_requests_change(&intake->requests, NULL, mr_starts_hand_over);
    intake->revocation_sent = false;
    intake->ownership.limit_ns = intake->leave_by_ns;
    mr_ownership_revoke_all(&intake->ownership, now);
}

/* If the last commit was acknowledged, it lists every released request, and no handover file is
 * needed. */
static void end_leaving(struct mr_intake *intake)
{
    const struct mr_commit_schedule *schedule = &intake->schedule;
    bool committed = !schedule->pending && schedule->outcome == MR_OK;
    if (intake->options.handover && committed && intake->gone_lines == 0)
        mr_handover_remove(intake->options.handover);
    intake->leaving = MR_INTAKE_HAS_LEFT;
}

static void leave_if_requested(struct mr_intake *intake, const struct mr_time *now)
{
    if (intake->leaving == MR_INTAKE_STAYS && atomic_load(&intake->leave_requested))
        begin_leaving(intake, now);
    else if (intake->leaving == MR_INTAKE_LEAVES &&
             intake->ownership.revocation == MR_REVOCATION_NONE)
        end_leaving(intake);
}

/* ---- the step ---- */

static void show_lag(struct mr_intake *intake)
{
    struct mr_kafka_consumer_port *consumer = &intake->consumer;
    for (size_t i = 0; i < mr_partitions_count(intake->partitions); i++) {
        const struct mr_partition *partition = mr_partitions_at(intake->partitions, i);
        if (partition->state != MR_PARTITION_OWNED) continue;
        int64_t next = mr_offset_ledger_next(partition->ledger);
        int64_t unread =
            consumer->unread(consumer->self, partition->topic_index, partition->number);
        int64_t uncommitted = next < 0 ? -1 : next - mr_offset_ledger_base(partition->ledger);
        mr_metrics_set_lag(intake->admission.metrics,
                           intake->options.config->request_topics[partition->topic_index].name,
                           partition->number, unread, uncommitted);
    }
}

static void fill_stats(struct mr_intake *intake, struct mr_intake_stats *stats)
{
    const struct mr_admission_stats *admission = &intake->admission.stats;
    stats->records = admission->records;
    stats->refused = admission->refused;
    stats->dead_lettered = admission->dead_lettered;
    stats->duplicates = admission->duplicates;
    stats->redelivered = admission->redelivered + intake->lookups.redelivered;
    stats->finished_before = admission->finished_before;
    stats->cancelled = admission->cancelled;
    stats->commits = intake->schedule.commits;
    stats->commit_failures = intake->schedule.failures;
    stats->rebalances = intake->ownership.rebalances;
    stats->assigned = intake->ownership.assigned;
    stats->in_flight = intake->flight.count;
    stats->parked = intake->flight.parked_count + intake->flight.held_count;
    stats->partitions = (uint32_t)intake->consumer.partition_count(intake->consumer.self);
    if (intake->consumer.heard_ns)
        stats->heard_ns = intake->consumer.heard_ns(intake->consumer.self);
}

static void add_oldest(void *context, struct mr_ticket *ticket)
{
    mr_oldest_add(context, ticket);
}

static void show_oldest(struct mr_intake *intake)
{
    struct mr_oldest oldest = {.count = 0};
    mr_ticket_table_each(intake->flight.submitted, add_oldest, &oldest);
    for (struct mr_ticket *each = intake->flight.parked; each; each = each->intake.next)
        mr_oldest_add(&oldest, each);
    for (struct mr_ticket *each = intake->flight.held; each; each = each->intake.next)
        mr_oldest_add(&oldest, each);
    pthread_mutex_lock(&intake->mutex);
    intake->oldest = oldest;
    pthread_mutex_unlock(&intake->mutex);
}

static void show_stats(struct mr_intake *intake, bool ticked)
{
    struct mr_transactions *transactions = intake->exactly_once.transactions;
    /* no mutex needed to read: only this thread writes `shown` */
    struct mr_intake_stats stats = intake->shown;
    fill_stats(intake, &stats);
    if (ticked) {
        stats.backlog = intake->consumer.backlog(intake->consumer.self);
        if (transactions) stats.transactions = mr_transactions_stats(transactions);
        show_lag(intake);
        show_oldest(intake);
    }
    bool left = intake->leaving == MR_INTAKE_HAS_LEFT;
    pthread_mutex_lock(&intake->mutex);
    intake->shown = stats;
    bool changed = intake->admission.draining != intake->drained || left != intake->left;
    intake->drained = intake->admission.draining;
    intake->left = left;
    if (changed) pthread_cond_broadcast(&intake->changed);
    pthread_mutex_unlock(&intake->mutex);
}

static void tick(struct mr_intake *intake, uint64_t now_ns)
{
    if (!intake->schedule.pending) mr_partitions_release(intake->partitions);
    if (intake->flight.parked || intake->flight.held) intake->flight.retry_parked = true;
    if (now_ns - intake->schedule.sent_ns >= REFRESH_NS) intake->schedule.due_ns = 0;
    if (intake->exactly_once.transactions) mr_exactly_once_tick(&intake->exactly_once);
}

static uint64_t next_ns(const struct mr_intake *intake, uint64_t now_ns)
{
    uint64_t due_ns = now_ns + SECOND_NS, state_ns = mr_ownership_due_ns(&intake->ownership);
    if (!intake->schedule.pending && intake->schedule.due_ns < due_ns)
        due_ns = intake->schedule.due_ns;
    if (!intake->admission.draining && intake->lookups.due_ns < due_ns)
        due_ns = intake->lookups.due_ns;
    if (intake->starts.due_ns < due_ns) due_ns = intake->starts.due_ns;
    if (intake->ownership.revocation == MR_REVOCATION_HOLDING) state_ns = now_ns + HOLD_POLL_NS;
    return state_ns < due_ns ? state_ns : due_ns;
}

uint64_t mr_intake_step(struct mr_intake *intake, struct mr_time now)
{
    if (intake->leaving == MR_INTAKE_HAS_LEFT) return UINT64_MAX;
    bool ticked = now.ns - intake->tick_ns >= SECOND_NS;
    if (ticked) intake->tick_ns = now.ns;
    intake->admission.draining = atomic_load(&intake->draining);
    intake->admission.now_ns = now.ns;
    serve_consumer(intake, &now);
    if (ticked) tick(intake, now.ns);
    leave_if_requested(intake, &now);
    mr_ownership_hold(&intake->ownership, &now);
    handle_mail(intake, &now);
    mr_ownership_recover(&intake->ownership, now.ns);
    handle_cancels(intake, &now);
    bool more = admit(intake, &now);
    if (mr_starts_step(&intake->starts, now.ns)) mr_engine_link_wake(&intake->admission.engine);
    commit_if_due(intake, now.ns);
    advance_revocation(intake, &now);
    leave_if_requested(intake, &now);
    show_stats(intake, ticked);
    return more || intake->leaving == MR_INTAKE_HAS_LEFT ? now.ns : next_ns(intake, now.ns);
}
