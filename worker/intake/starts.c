#include "worker/intake/starts.h"

#define NEVER_NS UINT64_MAX

static void add(struct mr_starts *starts, struct mr_ticket *ticket)
{
    struct mr_ticket **link = &starts->first;
    while (*link)
        link = &(*link)->intake.start.next;
    ticket->intake.start.next = NULL;
    ticket->intake.start.pending = true;
    *link = ticket;
}

static void forget_note(struct mr_ticket *ticket)
{
    if (ticket->intake.start.note) ticket->intake.start.note->ticket = NULL;
    ticket->intake.start.note = NULL;
}

/* Removes the ticket from the list: its request may start, or is dropped. */
static void remove_from_list(struct mr_starts *starts, struct mr_ticket *ticket)
{
    struct mr_ticket **link = &starts->first;
    if (!ticket->intake.start.pending) return;
    while (*link != ticket)
        link = &(*link)->intake.start.next;
    *link = ticket->intake.start.next;
    ticket->intake.start.pending = false;
    forget_note(ticket);
}

void mr_starts_stop(struct mr_starts *starts, struct mr_ticket *ticket)
{
    remove_from_list(starts, ticket);
    if (ticket->intake.running) starts->running--;
    if (starts->lone == ticket) starts->lone = NULL;
    ticket->intake.running = false;
}

void mr_starts_add(struct mr_starts *starts, struct mr_ticket *ticket)
{
    add(starts, ticket);
    starts->due_ns = 0;
}

static void commit_soon(struct mr_starts *starts)
{
    struct mr_commit_schedule *schedule = starts->schedule;
    mr_commit_schedule_by(schedule, schedule->sent_ns + MR_START_COMMIT_NS);
}

/* Marks the request that ran alone until now as accompanied. Returns its trail if its start is in
 * Redis, so that the mark can be stored there; NULL: a commit has to store the mark. */
static struct mr_trail *accompany(struct mr_starts *starts)
{
    struct mr_ticket *lone = starts->lone;
    starts->lone = NULL;
    if (mr_partition_is_current(lone))
        mr_offset_ledger_accompany(lone->intake.partition->ledger, lone->offset);
    return lone->intake.start.in_redis ? lone->trail : NULL;
}

/* Counts the start in the ledger. Returns its marks: bits MR_LEDGER_SLOT_. */
static uint8_t start_in_ledger(struct mr_starts *starts, struct mr_ticket *ticket)
{
    struct mr_offset_ledger *ledger = ticket->intake.partition->ledger;
    uint8_t notes = 0;
    if (starts->running > 0) notes |= MR_LEDGER_SLOT_ACCOMPANIED;
    if (mr_flight_is_suspect(starts->flight, ticket)) notes |= MR_LEDGER_SLOT_APART;
    if (starts->running == 0) starts->lone = ticket;
    starts->running++;
    ticket->intake.running = true;
    mr_offset_ledger_start(ledger, ticket->offset, notes);
    ticket->intake.start.version = mr_offset_ledger_version(ledger);
    return notes;
}

/* Counts the start in the ledger, and sends it to Redis or makes a commit due. */
static void record_start(struct mr_starts *starts, struct mr_ticket *ticket, uint64_t now_ns)
{
    struct mr_start_state *start = &ticket->intake.start;
    bool joins = starts->lone != NULL;
    struct mr_trail *beside = joins ? accompany(starts) : NULL;
    uint8_t notes = start_in_ledger(starts, ticket);
    struct mr_trail_start entry = {.attempt = ticket->attempt,
                                   .index = ticket->kept_count,
                                   .shown = ticket->kept_shown,
                                   .accompanied = notes & MR_LEDGER_SLOT_ACCOMPANIED,
                                   .apart = notes & MR_LEDGER_SLOT_APART,
                                   .beside = beside};
    if (ticket->trail) {
        bool commits = mr_resume_is_silent(starts->resume) || (joins && !beside);
        start->note = mr_trail_start(ticket->trail, &entry, commits ? NULL : ticket, now_ns);
    }
    start->note_until_ns = now_ns + MR_START_WAIT_NS;
    if (start->note)
        mr_commit_schedule_soon(starts->schedule);
    else
        commit_soon(starts);
}

void mr_starts_answer(struct mr_starts *starts, struct mr_found_mail *answer)
{
    struct mr_ticket *ticket = answer->ticket;
    if (ticket) {
        ticket->intake.start.note = NULL;
        ticket->intake.start.in_redis = answer->answered;
        if (answer->answered)
            ticket->intake.start.version = 0; /* durable without a commit */
        else
            commit_soon(starts);
        starts->due_ns = 0;
    }
    mr_found_mail_free(answer);
}

static bool is_owned(const struct mr_ticket *ticket)
{
    return ticket->intake.partition->state == MR_PARTITION_OWNED &&
           !ticket->intake.partition->recovering;
}

/* Redis has not answered in time, so the start is committed instead. */
static void expire_note(struct mr_starts *starts, struct mr_ticket *ticket)
{
    if (!mr_resume_abandon(starts->resume, ticket->intake.start.note)) return;
    forget_note(ticket);
    commit_soon(starts);
}

/* Advances one start as far as possible; true: the start is durable. */
static bool advance(struct mr_starts *starts, struct mr_ticket *ticket, uint64_t now_ns)
{
    struct mr_start_state *start = &ticket->intake.start;
    const struct mr_commit_schedule *schedule = starts->schedule;
    if (!is_owned(ticket)) return false;
    if (!ticket->intake.running && !ticket->intake.partition->revoking &&
        mr_offset_ledger_may_start(ticket->intake.partition->ledger, ticket->offset))
        record_start(starts, ticket, now_ns);
    if (!ticket->intake.running) return false;
    if (start->note && now_ns >= start->note_until_ns) expire_note(starts, ticket);
    if (ticket->intake.partition->acked_version >= start->version) return true;
    if (start->note) {
        if (start->note_until_ns < starts->due_ns) starts->due_ns = start->note_until_ns;
    } else if (start->version != UINT64_MAX && !schedule->pending && schedule->due_ns == NEVER_NS) {
        /* the last commit did not include the partition, which was suspended */
        commit_soon(starts);
    }
    return false;
}

bool mr_starts_step(struct mr_starts *starts, uint64_t now_ns)
{
    bool any = false;
    starts->due_ns = NEVER_NS;
    for (struct mr_ticket *ticket = starts->first, *next; ticket; ticket = next) {
        next = ticket->intake.start.next;
        bool gone = atomic_load(&ticket->dropped) || !mr_partition_is_current(ticket);
        bool durable = !gone && advance(starts, ticket, now_ns);
        if (durable) atomic_store(&ticket->may_start, true);
        if (gone || durable) remove_from_list(starts, ticket);
        any |= durable;
    }
    return any;
}

void mr_starts_release(struct mr_starts *starts, struct mr_ticket *ticket)
{
    struct mr_start_state *start = &ticket->intake.start;
    bool ran = atomic_load(&ticket->may_start);
    if (start->released || (ran && atomic_load(&starts->step_failed))) return;
    start->released = true;
    mr_offset_ledger_release(ticket->intake.partition->ledger, ticket->offset);
    if (ticket->trail) mr_trail_release(ticket->trail);
    if (!start->pending) return;
    forget_note(ticket);
    start->version = UINT64_MAX;
}

void mr_starts_resume(struct mr_starts *starts, struct mr_ticket *ticket)
{
    struct mr_start_state *start = &ticket->intake.start;
    struct mr_offset_ledger *ledger = ticket->intake.partition->ledger;
    if (!start->released) return;
    start->released = false;
    mr_offset_ledger_resume(ledger, ticket->offset);
    if (ticket->trail) mr_trail_reclaim(ticket->trail);
    if (!start->pending) return;
    start->version = mr_offset_ledger_version(ledger);
    commit_soon(starts);
}

void mr_starts_hand_over(struct mr_starts *starts, struct mr_ticket *ticket)
{
    struct mr_handover_place place = {ticket->topic, ticket->partition, ticket->offset,
                                      ticket->attempt};
    if (starts->handover && ticket->intake.start.released)
        mr_handover_add(starts->handover, &place);
}
