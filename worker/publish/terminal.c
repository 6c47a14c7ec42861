#include "worker/publish/terminal.h"

#include "codec/check.h"

#include <string.h>

static const struct mr_refusal_mail *refusal_of(const struct mr_ticket *ticket)
{
    if (ticket->publish.terminal->kind != MR_MAIL_REFUSAL) return NULL;
    return (const struct mr_refusal_mail *)ticket->publish.terminal;
}

/* Whether the broker may accept the record later, unchanged. Limits: MR_TERMINAL_REPLY_NS from the
 * first try of a reply; MR_TERMINAL_REFUSED_NS of temporary errors for other records. */
static bool may_pass(struct mr_ticket_part *part, enum mr_status status, uint64_t now_ns)
{
    bool reply = part->kind == MR_PART_REPLY;
    if (!reply && status != MR_AGAIN) part->trying_since_ns = 0;
    if (mr_status_class(status) != MR_CLASS_RETRY && status != MR_UNREACHABLE) return false;
    if (!reply && status != MR_AGAIN) return true;
    if (part->trying_since_ns == 0) part->trying_since_ns = now_ns;
    return now_ns - part->trying_since_ns < (reply ? MR_TERMINAL_REPLY_NS : MR_TERMINAL_REFUSED_NS);
}

void mr_terminal_check_reply_topic(struct mr_ticket_part *part,
                                   const struct mr_producer_port *producer, struct mr_log *log,
                                   struct mr_metrics *metrics, uint64_t now_ns)
{
    const struct mr_ticket *ticket = part->ticket;
    uint32_t count = 0;
    struct mr_error err = {0};
    enum mr_status status = producer->partitions(producer->self, ticket->reply_topic, &count, &err);
    if (may_pass(part, status, now_ns)) return;
    part->topic_exists = status == MR_OK && count > 0 && ticket->reply_partition < (int64_t)count;
    if (part->topic_exists) return;
    if (status == MR_OK)
        mr_fail(&err, MR_BAD_CONFIG, "topic %s has %u partitions", ticket->reply_topic, count);
    else
        mr_fail(&err, MR_TIMEOUT, "the broker did not answer whether topic %s exists",
                ticket->reply_topic);
    mr_terminal_lose(part, err.detail, log, metrics);
}

/* ---- records that were not accepted ---- */

/* True if log-probabilities make the record larger. */
static bool has_logprobs(const struct mr_ticket_part *part)
{
    if (part->kind == MR_PART_DEAD_LETTER || refusal_of(part->ticket)) return false;
    const struct mr_result *result =
        &((const struct mr_result_mail *)part->ticket->publish.terminal)->result;
    bool found = result->prompt_logprobs != NULL;
    for (size_t i = 0; i < result->choice_count; i++)
        found |= result->choices[i].logprobs != NULL;
    return found;
}

/* Removes the part of the record that the topic may have refused; false: there is none left. */
static bool change(struct mr_ticket_part *part, enum mr_status status)
{
    bool *changed = NULL;
    const struct mr_refusal_mail *refusal = refusal_of(part->ticket);
    if (status == MR_RECORD_TOO_LARGE)
        changed = !part->bare && has_logprobs(part) ? &part->bare : &part->shrunk;
    else if (part->kind == MR_PART_DEAD_LETTER && !refusal->record.key.bytes)
        changed = &part->keyed;
    if (!changed || *changed) return false;
    *changed = true;
    if (part->kind == MR_PART_RESULT && part->shrunk) part->ticket->end.error = MR_RECORD_TOO_LARGE;
    return true;
}

enum mr_terminal_next mr_terminal_refused(struct mr_ticket_part *part, enum mr_status status,
                                          uint64_t now_ns)
{
    MR_ASSERT(status != MR_OK && part->kind != MR_PART_TOKENS);
    if (status == MR_BACKEND || status == MR_NOMEM) return MR_TERMINAL_FAILED;
    if (may_pass(part, status, now_ns)) return MR_TERMINAL_RETRY;
    if (change(part, status)) return MR_TERMINAL_CHANGED;
    return part->kind == MR_PART_RESULT ? MR_TERMINAL_FAILED : MR_TERMINAL_LOST;
}

void mr_terminal_drop(struct mr_ticket_part *part, struct mr_metrics *metrics)
{
    bool reply = part->kind == MR_PART_REPLY;
    part->pending = false;
    part->lost = true;
    mr_metrics_add(metrics, reply ? MR_COUNTER_REPLIES_LOST : MR_COUNTER_DEAD_LETTERS_LOST, 1);
}

void mr_terminal_lose(struct mr_ticket_part *part, const char *reason, struct mr_log *log,
                      struct mr_metrics *metrics)
{
    bool reply = part->kind == MR_PART_REPLY;
    struct mr_log_place place = mr_ticket_log_place(part->ticket);
    mr_terminal_drop(part, metrics);
    mr_log_write(log, reply ? MR_LOG_WARN : MR_LOG_ERROR, &place, "%s not written: %s",
                 reply ? "reply" : "dead letter", reason);
}

bool mr_terminal_wants(const struct mr_ticket *ticket, enum mr_part kind)
{
    const struct mr_refusal_mail *refusal = refusal_of(ticket);
    bool result = !refusal || refusal->write_result;
    if (kind == MR_PART_DEAD_LETTER) return refusal && refusal->dead_letter;
    if (kind == MR_PART_RESULT) return result;
    MR_ASSERT(kind == MR_PART_REPLY);
    return result && ticket->reply_topic;
}

enum mr_status mr_terminal_make(struct mr_output *output, const struct mr_output_options *options,
                                const struct mr_ticket_part *part, struct mr_error *err)
{
    const struct mr_ticket *ticket = part->ticket;
    if (part->kind == MR_PART_DEAD_LETTER) {
        mr_output_dead_letter(output, options, refusal_of(ticket), part);
        return MR_OK;
    }
    enum mr_status status = mr_output_result(output, options, ticket->publish.terminal, part, err);
    if (part->kind == MR_PART_REPLY) {
        output->record.topic = ticket->reply_topic;
        output->record.partition = ticket->reply_partition;
    }
    return status;
}

void mr_terminal_acknowledged(struct mr_terminal_stats *stats, struct mr_metrics *metrics,
                              enum mr_part kind)
{
    if (kind == MR_PART_REPLY) stats->replies++;
    if (kind == MR_PART_RESULT) {
        stats->results++;
        mr_metrics_add(metrics, MR_COUNTER_RESULT_RECORDS, 1);
    }
    if (kind == MR_PART_DEAD_LETTER) {
        stats->dead_letters++;
        mr_metrics_add(metrics, MR_COUNTER_DEAD_LETTERS, 1);
    }
}
