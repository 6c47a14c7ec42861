#include "worker/publish/terminal.h"

#include "codec/check.h"

#include <string.h>

static const struct mr_refusal_mail *refusal_of(const struct mr_ticket *ticket)
{
    if (ticket->publish.terminal->kind != MR_MAIL_REFUSAL) return NULL;
    return (const struct mr_refusal_mail *)ticket->publish.terminal;
}

void mr_terminal_find_reply_topic(struct mr_ticket_part *part,
                                  const struct mr_producer_port *producer, struct mr_log *log)
{
    const struct mr_ticket *ticket = part->ticket;
    uint32_t count = 0;
    struct mr_error err = {0};
    enum mr_status status = producer->partitions(producer->self, ticket->reply_topic, &count, &err);
    if (status == MR_AGAIN) return;
    part->topic_exists = status == MR_OK && count > 0 && ticket->reply_partition < (int64_t)count;
    if (part->topic_exists) return;
    struct mr_log_place place = mr_ticket_log_place(ticket);
    part->pending = false;
    mr_log_write(log, MR_LOG_WARN, &place, "reply not written: topic %s has %u partitions",
                 ticket->reply_topic, count);
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
        mr_output_dead_letter(output, options, refusal_of(ticket), part->shrunk);
        return MR_OK;
    }
    enum mr_status status =
        mr_output_result(output, options, ticket->publish.terminal, part->shrunk, err);
    if (part->kind == MR_PART_REPLY) {
        output->record.topic = ticket->reply_topic;
        output->record.partition = ticket->reply_partition;
    }
    return status;
}

void mr_terminal_count(struct mr_terminal_stats *stats, struct mr_metrics *metrics,
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
