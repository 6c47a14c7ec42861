#include "worker/intake/lookups.h"

#include "codec/check.h"
#include "worker/offsets/partition.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket.h"

static void wait_until(struct mr_lookups *lookups, struct mr_ticket *ticket, uint64_t until_ns)
{
    ticket->intake.lookup_until_ns = until_ns;
    if (until_ns < lookups->due_ns) lookups->due_ns = until_ns;
}

void mr_lookups_start(struct mr_lookups *lookups, struct mr_ticket *ticket,
                      const struct mr_kafka_record *record, uint64_t now_ns)
{
    const struct mr_config *config = lookups->config;
    if (!lookups->resume) return;
    struct mr_progress_origin origin = {.group = config->group,
                                        .tenant =
                                            config->request_topics[ticket->topic_index].tenant,
                                        .topic = ticket->topic,
                                        .partition = ticket->partition,
                                        .offset = ticket->offset,
                                        .timestamp_ms = record->timestamp_ms,
                                        .id = mr_ticket_id(ticket),
                                        .value = record->value};
    bool started_before = ticket->attempt > 1;
    bool waits = started_before || !mr_resume_is_silent(lookups->resume);
    ticket->trail = mr_resume_lookup(lookups->resume, &origin, ticket->intake.request, ticket,
                                     waits ? &ticket->intake.lookup : NULL);
    if (!waits) mr_metrics_add(lookups->metrics, MR_COUNTER_UNHEARD, 1);
    if (!ticket->intake.lookup) return;
    wait_until(lookups, ticket, started_before ? UINT64_MAX : now_ns + MR_LOOKUP_WAIT_NS);
    /* Copy the record now: if the request has crashed too many workers, the dead letter needs it,
     * and by then the consumer has freed it. */
    ticket->intake.refusal =
        mr_refusal_mail_create(ticket, record, ticket->intake.request->metadata);
    if (ticket->intake.refusal) lookups->bytes += ticket->intake.refusal->mail.bytes;
}

static void drop_refusal(struct mr_ticket *ticket)
{
    if (ticket->intake.refusal) mr_mail_free(&ticket->intake.refusal->mail);
    ticket->intake.refusal = NULL;
}

static void stop_counting(struct mr_lookups *lookups, const struct mr_ticket *ticket)
{
    size_t bytes = ticket->intake.refusal ? ticket->intake.refusal->mail.bytes : 0;
    MR_ASSERT(bytes <= lookups->bytes);
    lookups->bytes -= bytes;
}

/* Combines the crashes in Redis with those in the commits. For an attempt in both, either source
 * may have a fact that the other lacks: its release, or that it was accompanied. */
static void merge_crashes(struct mr_start_state *start, uint32_t attempts,
                          const struct mr_progress_history *history)
{
    uint32_t last = mr_progress_last_crash(history);
    if (start->crashed && mr_progress_was_released(history, attempts)) {
        start->crashes--;
        start->crashed = start->crashed_alone = false;
    }
    if (last > attempts || (last > 0 && start->crashes == 0))
        start->crashed_alone = mr_progress_was_alone(history, last);
    else if (last == attempts && !mr_progress_was_alone(history, last))
        start->crashed_alone = false;
    if (history->crashes > start->crashes) start->crashes = (uint8_t)history->crashes;
    if (history->attempts > attempts) start->crashed = last == history->attempts;
}

/* Applies the earlier attempts found in Redis. */
static void apply_history(struct mr_lookups *lookups, struct mr_ticket *ticket,
                          struct mr_progress_history *history)
{
    uint32_t attempts = ticket->attempt - 1;
    if (history->attempts == 0) return;
    if (attempts > 0 && !ticket->intake.start.crashed) mr_progress_note_release(history, attempts);
    merge_crashes(&ticket->intake.start, attempts, history);
    if (attempts == 0) {
        lookups->redelivered++;
        mr_metrics_add(lookups->metrics, MR_COUNTER_REDELIVERIES, 1);
    }
    if (history->attempts > attempts) ticket->attempt = history->attempts + 1;
    /* the queue limit applies to the first start only, and the request was started before */
    ticket->intake.start_by_ns = 0;
    if (!mr_partition_is_current(ticket)) return;
    struct mr_ledger_history known = {.attempts = (uint8_t)(ticket->attempt - 1),
                                      .crashes = ticket->intake.start.crashes,
                                      .crashed = ticket->intake.start.crashed,
                                      .alone = ticket->intake.start.crashed_alone};
    mr_offset_ledger_learn(ticket->intake.partition->ledger, ticket->offset, known);
}

static void take_tokens(struct mr_ticket *ticket, struct mr_progress_history *history)
{
    if (history->count == 0 || !mr_trail_keeps(ticket->trail)) return;
    ticket->intake.kept = history->samples;
    ticket->kept_count = history->count;
    ticket->kept_shown = history->shown;
    history->samples = NULL;
}

bool mr_lookups_finish(struct mr_lookups *lookups, struct mr_found_mail *found)
{
    struct mr_ticket *ticket = found->ticket;
    if (ticket) {
        ticket->intake.lookup = NULL;
        stop_counting(lookups, ticket);
        mr_trail_apply(ticket->trail, found);
        apply_history(lookups, ticket, &found->history);
        take_tokens(ticket, &found->history);
        if (ticket->intake.start.crashes < lookups->config->attempts_max) drop_refusal(ticket);
    }
    mr_found_mail_free(found);
    return ticket != NULL;
}

void mr_lookups_stop(struct mr_lookups *lookups, struct mr_ticket *ticket)
{
    if (!ticket->intake.lookup) return;
    ticket->intake.lookup->ticket = NULL;
    ticket->intake.lookup = NULL;
    stop_counting(lookups, ticket);
    drop_refusal(ticket);
}

bool mr_lookups_expire(struct mr_lookups *lookups, struct mr_ticket *parked, uint64_t now_ns)
{
    bool expired = false;
    if (!lookups->resume || now_ns < lookups->due_ns) return false;
    lookups->due_ns = UINT64_MAX;
    for (struct mr_ticket *ticket = parked; ticket; ticket = ticket->intake.next) {
        if (!ticket->intake.lookup) continue;
        if (now_ns < ticket->intake.lookup_until_ns) {
            wait_until(lookups, ticket, ticket->intake.lookup_until_ns);
            continue;
        }
        if (!mr_resume_abandon(lookups->resume, ticket->intake.lookup)) continue;
        mr_lookups_stop(lookups, ticket);
        mr_metrics_add(lookups->metrics, MR_COUNTER_UNHEARD, 1);
        expired = true;
    }
    return expired;
}

void mr_lookups_close(struct mr_lookups *lookups, struct mr_mailbox *mailbox)
{
    if (!lookups->resume) return;
    mr_resume_stop_answers(lookups->resume);
    for (struct mr_mail *mail = mr_mailbox_take(mailbox), *next; mail; mail = next) {
        next = mail->next;
        MR_ASSERT(mail->kind == MR_MAIL_FOUND || mail->kind == MR_MAIL_NOTED);
        mr_found_mail_free((struct mr_found_mail *)mail);
    }
}
