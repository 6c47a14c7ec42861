#include "worker/ticket/ticket.h"

#include "worker/ticket/messages.h"
#include "worker/trace/request_trace.h"

#include <stdlib.h>
#include <string.h>

static void copy_echoes(struct mr_ticket *ticket, const struct mr_ticket_answer *answer, char **at)
{
    for (size_t i = 0; i < answer->echo_count; i++) {
        const struct mr_kafka_header *from = &answer->echo[i];
        ticket->echo[i] =
            (struct mr_kafka_header){from->name, from->value ? *at : NULL, from->length};
        if (from->length > 0) memcpy(*at, from->value, from->length);
        *at += from->length;
    }
    ticket->echo_count = answer->echo_count;
}

enum mr_status mr_ticket_create(struct mr_ticket **out, const struct mr_kafka_record *record,
                                const struct mr_ticket_answer *answer, struct mr_error *err)
{
    size_t reply_bytes = answer->reply_topic.length;
    size_t bytes = reply_bytes + 1;
    *out = NULL;
    for (size_t i = 0; i < answer->echo_count; i++)
        bytes += answer->echo[i].length;
    struct mr_ticket *ticket = calloc(1, sizeof *ticket + bytes);
    if (!ticket) return mr_fail(err, MR_NOMEM, "no memory for a ticket");
    char *at = (char *)(ticket + 1);
    copy_echoes(ticket, answer, &at);
    if (reply_bytes > 0) {
        memcpy(at, answer->reply_topic.bytes, reply_bytes);
        ticket->reply_topic = at;
    }
    ticket->reply_partition = answer->reply_partition;
    ticket->reply_tokens = ticket->reply_topic && answer->reply_tokens;
    ticket->partition = record->partition;
    ticket->offset = record->offset;
    atomic_init(&ticket->dropped, false);
    *out = ticket;
    return MR_OK;
}

void mr_ticket_destroy(struct mr_ticket *ticket)
{
    if (!ticket) return;
    for (size_t i = 0; i < MR_CHOICES_MAX; i++)
        mr_message_destroy(ticket->publish.messages[i]);
    mr_request_destroy(ticket->intake.request);
    mr_mail_free(ticket->publish.terminal);
    if (ticket->intake.refusal) mr_mail_free(&ticket->intake.refusal->mail);
    free(ticket->intake.kept);
    free(ticket->tool_types);
    mr_request_trace_destroy(ticket->trace);
    free(ticket);
}

struct mr_text mr_ticket_id(const struct mr_ticket *ticket)
{
    return (struct mr_text){ticket->id, strlen(ticket->id)};
}

struct mr_log_place mr_ticket_log_place(const struct mr_ticket *ticket)
{
    return (struct mr_log_place){.req_id = mr_ticket_id(ticket),
                                 .topic = {ticket->topic, strlen(ticket->topic)},
                                 .trace_id = {ticket->trace_id, strlen(ticket->trace_id)},
                                 .partition = ticket->partition,
                                 .offset = ticket->offset};
}
