#include "worker/offsets/exactly_once.h"

#define TICKETS_MAX 1024u /* most requests in one transaction */

static void append_ready(struct mr_exactly_once *exactly_once, struct mr_ticket *ticket)
{
    ticket->intake.ready_next = NULL;
    if (exactly_once->ready_last)
        exactly_once->ready_last->intake.ready_next = ticket;
    else
        exactly_once->ready = ticket;
    exactly_once->ready_last = ticket;
}

void mr_exactly_once_ready(struct mr_exactly_once *exactly_once, struct mr_ticket *ticket)
{
    uint64_t due_ns = exactly_once->sent_ns + exactly_once->schedule->interval_ns;
    append_ready(exactly_once, ticket);
    exactly_once->sealed += ticket->intake.sealed;
    if (due_ns < exactly_once->due_ns) exactly_once->due_ns = due_ns;
    mr_commit_schedule_by(exactly_once->schedule, exactly_once->due_ns);
}

bool mr_exactly_once_is_due(const struct mr_exactly_once *exactly_once, uint64_t now_ns)
{
    return exactly_once->ready && (exactly_once->sealed > 0 || now_ns >= exactly_once->due_ns);
}

static bool is_gone(const struct mr_ticket *ticket)
{
    return atomic_load(&ticket->dropped) || !mr_partition_is_current(ticket);
}

static void finish(const struct mr_ticket *ticket)
{
    const struct mr_partition *partition = ticket->intake.partition;
    if (partition->state == MR_PARTITION_OWNED && mr_partition_is_current(ticket))
        mr_offset_ledger_finish(partition->ledger, ticket->offset);
}

/* Removes the requests whose terminal records may be written now from the ready list and returns
 * them. Requests of suspended partitions stay in the list; requests of lost partitions are
 * dropped. */
static struct mr_ticket *seal_ready(struct mr_exactly_once *exactly_once)
{
    const struct mr_ticket_sink *sink = &exactly_once->sink;
    struct mr_ticket *ticket = exactly_once->ready, *sealed = NULL, **end = &sealed;
    uint32_t count = 0;
    exactly_once->ready = exactly_once->ready_last = NULL;
    exactly_once->sealed = 0;
    exactly_once->due_ns = UINT64_MAX;
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->intake.ready_next;
        if (is_gone(ticket)) {
            atomic_store(&ticket->dropped, true);
            sink->done(sink->self, ticket);
        } else if (ticket->intake.partition->state != MR_PARTITION_OWNED || count == TICKETS_MAX) {
            mr_exactly_once_ready(exactly_once, ticket);
        } else {
            ticket->intake.sealed = true;
            finish(ticket);
            for (const struct mr_ticket *same = ticket->intake.followers; same;
                 same = same->intake.next)
                finish(same);
            ticket->intake.ready_next = NULL;
            *end = ticket;
            end = &ticket->intake.ready_next;
            count++;
        }
    }
    return sealed;
}

bool mr_exactly_once_seal(struct mr_exactly_once *exactly_once, uint64_t now_ns)
{
    struct mr_commit_schedule *schedule = exactly_once->schedule;
    struct mr_transactions_job *job = &exactly_once->job;
    schedule->due_ns = UINT64_MAX;
    if (exactly_once->fault->raised) return false;
    *job = (struct mr_transactions_job){0};
    exactly_once->sent_ns = now_ns;
    job->tickets = seal_ready(exactly_once);
    /* _gather clears due_ns, which seal_ready has set for the requests that stay in the list */
    uint64_t due_ns = schedule->due_ns;
    job->commit_count = mr_commit_schedule_gather(schedule);
    job->commits = schedule->batch;
    schedule->due_ns = due_ns;
    return job->commit_count > 0 || job->tickets;
}

void mr_exactly_once_start(struct mr_exactly_once *exactly_once,
                           struct mr_kafka_membership *membership, uint64_t now_ns)
{
    exactly_once->job.membership = membership;
    mr_commit_schedule_sent(exactly_once->schedule, true, now_ns);
    mr_transactions_submit(exactly_once->transactions, &exactly_once->job);
}

/* Puts the requests of an aborted transaction back into the ready list, before those that became
 * ready since. */
static void unseal(struct mr_exactly_once *exactly_once, struct mr_ticket *tickets)
{
    if (!tickets) return;
    struct mr_ticket *newer = exactly_once->ready, *newer_last = exactly_once->ready_last;
    exactly_once->ready = exactly_once->ready_last = NULL;
    for (struct mr_ticket *next; tickets; tickets = next) {
        next = tickets->intake.ready_next;
        mr_exactly_once_ready(exactly_once, tickets);
    }
    exactly_once->ready_last->intake.ready_next = newer;
    if (newer) exactly_once->ready_last = newer_last;
}

void mr_exactly_once_poll(struct mr_exactly_once *exactly_once, uint64_t now_ns)
{
    if (!mr_transactions_take_outcome(exactly_once->transactions)) return;
    const struct mr_ticket_sink *sink = &exactly_once->sink;
    struct mr_error *outcome = &exactly_once->job.outcome;
    struct mr_ticket *tickets = exactly_once->job.tickets;
    exactly_once->job.tickets = NULL;
    if (outcome->status != MR_OK) {
        unseal(exactly_once, tickets);
        tickets = NULL;
    }
    for (struct mr_ticket *next; tickets; tickets = next) {
        next = tickets->intake.ready_next;
        sink->done(sink->self, tickets);
    }
    if (outcome->status != MR_OK && mr_status_class(outcome->status) != MR_CLASS_RETRY)
        mr_fault_raise(exactly_once->fault, outcome);
    mr_commit_schedule_finished(exactly_once->schedule, outcome->status, outcome->detail, now_ns);
}

void mr_exactly_once_tick(struct mr_exactly_once *exactly_once)
{
    struct mr_error err;
    uint64_t call_ns = mr_transactions_call_ns(exactly_once->transactions);
    bool same = call_ns > 0 && call_ns == exactly_once->call_ns;
    exactly_once->call_ticks = same ? exactly_once->call_ticks + 1 : 0;
    exactly_once->call_ns = call_ns;
    if (exactly_once->call_ticks < MR_CALL_TICKS_MAX) return;
    mr_fail(&err, MR_BACKEND, "a call of a transaction does not return");
    mr_fault_raise(exactly_once->fault, &err);
}

void mr_exactly_once_drop_all(struct mr_exactly_once *exactly_once)
{
    const struct mr_ticket_sink *sink = &exactly_once->sink;
    unseal(exactly_once, exactly_once->job.tickets);
    exactly_once->job.tickets = NULL;
    for (struct mr_ticket *ticket = exactly_once->ready, *next; ticket; ticket = next) {
        next = ticket->intake.ready_next;
        sink->returned(sink->self, ticket);
    }
    exactly_once->ready = exactly_once->ready_last = NULL;
}
