#include "worker/intake/intake_resume.h"

#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/intake/intake_state.h"

#include <stdlib.h>
#include <string.h>

static void count_unheard(struct mr_intake *intake)
{
    mr_metrics_add(intake->targets.metrics, MR_COUNTER_UNHEARD, 1);
}

void mr_intake_ask(struct mr_intake *intake, struct mr_ticket *ticket,
                   const struct mr_kafka_record *record)
{
    const struct mr_config *config = intake->options.config;
    if (!intake->targets.resume) return;
    struct mr_progress_origin origin = {.group = config->group,
                                        .tenant =
                                            config->request_topics[ticket->topic_index].tenant,
                                        .topic = ticket->topic,
                                        .partition = ticket->partition,
                                        .offset = ticket->offset,
                                        .timestamp_ms = record->timestamp_ms,
                                        .id = {ticket->id, strlen(ticket->id)},
                                        .value = record->value};
    struct mr_resume *resume = intake->targets.resume;
    bool known = ticket->attempt > 1;
    bool asks = known || !mr_resume_is_silent(resume);
    ticket->trail = mr_resume_lookup(resume, &origin, ticket->intake.request, ticket,
                                     asks ? &ticket->intake.asked : NULL);
    if (!asks) count_unheard(intake);
    if (!ticket->intake.asked) return;
    ticket->intake.asked_until_ns = known ? UINT64_MAX : mr_clock_ns() + MR_INTAKE_ASK_WAIT_NS;
    if (ticket->intake.asked_until_ns < intake->asking_due_ns)
        intake->asking_due_ns = ticket->intake.asked_until_ns;
    /* Should the answer be that it is poison, the record is gone by then. */
    ticket->intake.refusal =
        mr_refusal_mail_create(ticket, record, ticket->intake.request->metadata);
    if (ticket->intake.refusal) intake->asking_bytes += ticket->intake.refusal->mail.bytes;
}

static void drop_refusal(struct mr_ticket *ticket)
{
    if (ticket->intake.refusal) mr_mail_free(&ticket->intake.refusal->mail);
    ticket->intake.refusal = NULL;
}

static void stop_counting(struct mr_intake *intake, const struct mr_ticket *ticket)
{
    size_t bytes = ticket->intake.refusal ? ticket->intake.refusal->mail.bytes : 0;
    MR_ASSERT(bytes <= intake->asking_bytes);
    intake->asking_bytes -= bytes;
}

/* Redis knows of attempts that the commits do not. */
static void learn(struct mr_intake *intake, struct mr_ticket *ticket,
                  const struct mr_progress_history *history)
{
    if (ticket->attempt == 1) {
        intake->stats.redelivered++;
        mr_metrics_add(intake->targets.metrics, MR_COUNTER_REDELIVERIES, 1);
    }
    ticket->attempt = history->attempts + 1;
    if (history->crashes > ticket->intake.crashes)
        ticket->intake.crashes = (uint8_t)history->crashes;
    ticket->intake.start_by_ns = 0; /* it counted to the first start */
    if (ticket->intake.lane->epoch != ticket->epoch) return;
    struct mr_ledger_history known = {(uint8_t)history->attempts, ticket->intake.crashes};
    mr_offset_ledger_learn(ticket->intake.lane->ledger, ticket->offset, known);
}

static void take_tokens(struct mr_ticket *ticket, struct mr_progress_history *history)
{
    if (history->count == 0 || !mr_trail_keeps(ticket->trail)) return;
    ticket->intake.kept = history->samples;
    ticket->kept_count = history->count;
    ticket->kept_shown = history->shown;
    history->samples = NULL;
}

void mr_intake_found(struct mr_intake *intake, struct mr_found_mail *found)
{
    struct mr_ticket *ticket = found->ticket;
    if (ticket) {
        ticket->intake.asked = NULL;
        intake->retry_parked = true;
        stop_counting(intake, ticket);
        mr_trail_apply(ticket->trail, found);
        if (found->history.attempts >= ticket->attempt) learn(intake, ticket, &found->history);
        take_tokens(ticket, &found->history);
        if (ticket->intake.crashes < intake->options.config->attempts_max) drop_refusal(ticket);
    }
    mr_found_mail_free(found);
}

void mr_intake_stop_asking(struct mr_intake *intake, struct mr_ticket *ticket)
{
    if (!ticket->intake.asked) return;
    ticket->intake.asked->ticket = NULL;
    ticket->intake.asked = NULL;
    stop_counting(intake, ticket);
    drop_refusal(ticket);
}

void mr_intake_expire_asking(struct mr_intake *intake, uint64_t now_ns)
{
    if (now_ns < intake->asking_due_ns) return;
    intake->asking_due_ns = UINT64_MAX;
    for (struct mr_ticket *ticket = intake->parked; ticket; ticket = ticket->intake.next) {
        if (!ticket->intake.asked) continue;
        if (now_ns < ticket->intake.asked_until_ns) {
            if (ticket->intake.asked_until_ns < intake->asking_due_ns)
                intake->asking_due_ns = ticket->intake.asked_until_ns;
            continue;
        }
        if (!mr_resume_abandon(intake->targets.resume, ticket->intake.asked)) continue;
        mr_intake_stop_asking(intake, ticket);
        count_unheard(intake);
        intake->retry_parked = true;
    }
}

void mr_intake_end_asking(struct mr_intake *intake)
{
    if (!intake->targets.resume) return;
    mr_resume_stop_answers(intake->targets.resume);
    for (struct mr_mail *mail = mr_mailbox_take(intake->mailbox), *next; mail; mail = next) {
        next = mail->next;
        MR_ASSERT(mail->kind == MR_MAIL_FOUND);
        mr_found_mail_free((struct mr_found_mail *)mail);
    }
}
