#include "worker/intake/intake_transactions.h"

#include "worker/base/clock.h"
#include "worker/intake/intake_claims.h"
#include "worker/intake/intake_record.h"
#include "worker/intake/intake_state.h"

#define TICKETS_MAX 1024u /* of one transaction */

void mr_intake_ready(struct mr_intake *intake, struct mr_ticket *ticket)
{
    ticket->intake.ready_next = NULL;
    if (intake->ready_last)
        intake->ready_last->intake.ready_next = ticket;
    else
        intake->ready = ticket;
    intake->ready_last = ticket;
    mr_intake_commit_by(intake, intake->committed_ns + intake->options.config->commit_interval_ns);
}

static bool is_gone(const struct mr_ticket *ticket)
{
    return atomic_load(&ticket->dropped) || ticket->intake.lane->epoch != ticket->epoch;
}

static void finish(const struct mr_ticket *ticket)
{
    if (ticket->intake.lane->state == MR_PARTITION_OWNED &&
        ticket->intake.lane->epoch == ticket->epoch)
        mr_offset_ledger_finish(ticket->intake.lane->ledger, ticket->offset);
}

/* Takes from what is ready what may be written now; the rest stays, or is dropped. */
static struct mr_ticket *seal(struct mr_intake *intake)
{
    struct mr_ticket *ticket = intake->ready, *sealed = NULL, **end = &sealed;
    uint32_t count = 0;
    intake->ready = intake->ready_last = NULL;
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->intake.ready_next;
        if (is_gone(ticket)) {
            atomic_store(&ticket->dropped, true);
            mr_intake_done(intake, ticket);
        } else if (ticket->intake.lane->state != MR_PARTITION_OWNED || count == TICKETS_MAX) {
            mr_intake_ready(intake, ticket);
        } else {
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

static void start(struct mr_intake *intake)
{
    struct mr_transactions_job *job = &intake->job;
    *job = (struct mr_transactions_job){.commits = intake->commits};
    job->tickets = seal(intake);
    job->commit_count = mr_intake_gather(intake, intake->commits);
    if (job->commit_count == 0 && !job->tickets) return;
    job->membership = mr_kafka_in_membership(intake->in);
    intake->stats.commits++;
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_COMMITS, 1);
    intake->committed_ns = mr_clock_ns();
    intake->committing = true;
    intake->committing_ns = intake->committed_ns;
    mr_transactions_submit(intake->targets.settle, job);
}

/* Aborted: ahead of what has become ready since. */
static void take_back(struct mr_intake *intake, struct mr_ticket *tickets)
{
    struct mr_ticket *newer = intake->ready;
    intake->ready = intake->ready_last = NULL;
    for (struct mr_ticket *next; tickets; tickets = next) {
        next = tickets->intake.ready_next;
        mr_intake_ready(intake, tickets);
    }
    for (struct mr_ticket *next; newer; newer = next) {
        next = newer->intake.ready_next;
        mr_intake_ready(intake, newer);
    }
}

void mr_intake_settled(struct mr_intake *intake, uint32_t timeout_ms)
{
    if (!mr_transactions_wait(intake->targets.settle, timeout_ms)) return;
    struct mr_error *outcome = &intake->job.outcome;
    struct mr_ticket *tickets = intake->job.tickets;
    intake->job.tickets = NULL;
    if (outcome->status != MR_OK) take_back(intake, tickets);
    for (struct mr_ticket *next; tickets && outcome->status == MR_OK; tickets = next) {
        next = tickets->intake.ready_next;
        mr_intake_done(intake, tickets);
    }
    if (mr_status_class(outcome->status) == MR_CLASS_FATAL) mr_intake_fail(intake, outcome);
    mr_intake_committed(intake, outcome->status, outcome->detail);
}

/* What is left of timeout_ms. */
static uint32_t left_ms(uint64_t since_ns, uint32_t timeout_ms)
{
    uint64_t gone_ms = (mr_clock_ns() - since_ns) / 1000000;
    return gone_ms < timeout_ms ? timeout_ms - (uint32_t)gone_ms : 0;
}

void mr_intake_settle(struct mr_intake *intake, uint32_t timeout_ms)
{
    uint64_t since_ns = mr_clock_ns();
    mr_intake_settled(intake, timeout_ms);
    if (intake->committing || intake->failed) return;
    do {
        intake->commit_due_ns = UINT64_MAX;
        start(intake);
        if (!intake->committing || timeout_ms == 0) return;
        mr_intake_settled(intake, left_ms(since_ns, timeout_ms));
    } while (!intake->committing && intake->job.outcome.status == MR_OK && intake->ready);
}

void mr_intake_drop_ready(struct mr_intake *intake)
{
    take_back(intake, intake->job.tickets);
    intake->job.tickets = NULL;
    for (struct mr_ticket *ticket = intake->ready, *next; ticket; ticket = next) {
        next = ticket->intake.ready_next;
        mr_intake_returned(intake, ticket);
    }
    intake->ready = intake->ready_last = NULL;
}
