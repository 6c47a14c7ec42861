#include "worker/publish/writer.h"

#include "codec/check.h"
#include "worker/publish/deltas.h"
#include "worker/ticket/write_gate.h"

#include <inttypes.h>

#define SECOND_NS ((uint64_t)1000000000)
/* time until a retry when the producer is full; a delivery report wakes the thread earlier */
#define FULL_NS (SECOND_NS / 10)
/* pause before a refused record is produced again, because a broker may refuse at once each time */
#define REFUSED_NS (SECOND_NS / 2)
/* longest wait of all token records for the lookup of one request's reply topic */
#define REPLY_LOOKUP_NS (2 * SECOND_NS)

void mr_writer_fail(struct mr_writer *writer, const struct mr_error *err)
{
    if (writer->has_failed) return;
    writer->has_failed = true;
    writer->options.failed(writer->options.context, err);
}

/* ---- lists of tickets ---- */

bool mr_writer_is_idle(const struct mr_ticket *ticket)
{
    if (ticket->publish.tokens_pending > 0) return false;
    for (size_t i = 0; i < MR_PART_TOKENS; i++)
        if (ticket->publish.parts[i].pending) return false;
    return true;
}

void mr_writer_queue_if_written(struct mr_writer *writer, struct mr_ticket *ticket)
{
    if (!ticket->publish.terminal || ticket->publish.advancing || !mr_writer_is_idle(ticket))
        return;
    ticket->publish.advancing = true;
    ticket->publish.advance_next = writer->written;
    writer->written = ticket;
}

struct mr_ticket *mr_writer_take_written(struct mr_writer *writer)
{
    struct mr_ticket *written = writer->written;
    writer->written = NULL;
    return written;
}

static void queue_unsent(struct mr_writer *writer, struct mr_ticket *ticket)
{
    if (ticket->publish.unsent) return;
    ticket->publish.unsent = true;
    ticket->publish.unsent_next = NULL;
    *writer->unsent_end = ticket;
    writer->unsent_end = &ticket->publish.unsent_next;
}

static void queue_refused(struct mr_writer *writer, struct mr_ticket *ticket)
{
    if (ticket->publish.refused) return;
    ticket->publish.refused = true;
    ticket->publish.refused_next = writer->refused;
    writer->refused = ticket;
}

/* ---- producing ---- */

/* The worker's own topic to which the part's records go; NULL: they go to a reply topic. */
static const char *own_topic(const struct mr_output_options *output,
                             const struct mr_ticket_part *part)
{
    switch (part->kind) {
    case MR_PART_TOKENS:
        return part->ticket->reply_tokens ? NULL : output->tokens_topic;
    case MR_PART_RESULT:
        return output->results_topic;
    case MR_PART_DEAD_LETTER:
        return output->dlq_topic;
    default:
        return NULL;
    }
}

/* Records whether the topic for records of this part refuses this worker's records. */
static void note_topic(struct mr_writer *writer, const struct mr_ticket_part *part,
                       enum mr_status status)
{
    const char *topic = own_topic(&writer->options.output, part);
    if (status == MR_BAD_CONFIG && topic) writer->stats.refused_topic = topic;
    if (status == MR_OK && writer->stats.refused_topic == topic) writer->stats.refused_topic = NULL;
}

/* Produces the encoded record. MR_OK: produced. Class MR_CLASS_RETRY: try again later. Any other
 * status: the record can never be produced. */
static enum mr_status produce(struct mr_writer *writer, struct mr_ticket_part *part,
                              struct mr_error *err)
{
    const struct mr_kafka_record *record = &writer->output.record;
    if (writer->full) return MR_FULL;
    enum mr_status status = writer->producer.produce(writer->producer.self, record, part, err);
    if (status == MR_OK) writer->stats.bytes += record->value.length;
    if (status == MR_BACKEND) mr_writer_fail(writer, err);
    if (status != MR_OK) note_topic(writer, part, status);
    writer->full = mr_status_class(status) == MR_CLASS_RETRY;
    return status;
}

/* True when a record could not be encoded because memory is out. It is retried as if the producer's
 * queue were full. */
static bool retries_for_memory(struct mr_writer *writer, enum mr_status status)
{
    writer->full |= status == MR_NOMEM;
    return status == MR_NOMEM;
}

static void lose_tokens(struct mr_writer *writer, struct mr_ticket *ticket, const char *reason)
{
    writer->stats.tokens_lost++;
    mr_metrics_add(writer->options.metrics, MR_COUNTER_TOKENS_LOST, 1);
    if (ticket->publish.tokens_lost) return;
    ticket->publish.tokens_lost = true;
    struct mr_log_place place = mr_ticket_log_place(ticket);
    mr_log_write(writer->options.log, MR_LOG_ERROR, &place, "token record lost: %s", reason);
}

static void observe_tokens(struct mr_writer *writer, const struct mr_tokens_mail *mail,
                           uint64_t now_ns)
{
    struct mr_ticket_publish *ticket = &mail->ticket->publish;
    uint64_t delay_ns = now_ns > mail->made_ns ? now_ns - mail->made_ns : 0;
    writer->stats.token_records++;
    writer->stats.delay_ns_sum += delay_ns;
    if (delay_ns > writer->stats.delay_ns_max) writer->stats.delay_ns_max = delay_ns;
    mr_metrics_add(writer->options.metrics, MR_COUNTER_TOKEN_RECORDS, 1);
    mr_metrics_observe_publish_delay(writer->options.metrics, delay_ns);
    if (mail->record.choice > 0) return;
    if (ticket->token_ns > 0)
        mr_metrics_observe_gap(writer->options.metrics, mail->made_ns - ticket->token_ns);
    ticket->token_ns = mail->made_ns;
}

/* Looks up the reply topic before the request's first token record. MR_AGAIN: unknown so far.
 * Another failure: the topic or partition does not exist, or the lookup took longer than
 * REPLY_LOOKUP_NS; all token records of the request are lost. */
static enum mr_status find_reply_topic(struct mr_writer *writer, struct mr_ticket_part *part,
                                       struct mr_error *err)
{
    uint32_t count = 0;
    const struct mr_ticket *ticket = part->ticket;
    if (part->topic_exists) return MR_OK;
    if (part->trying_since_ns == 0) part->trying_since_ns = writer->now_ns;
    enum mr_status status =
        part->lost
            ? MR_OK
            : writer->producer.partitions(writer->producer.self, ticket->reply_topic, &count, err);
    part->topic_exists = status == MR_OK && count > 0 && ticket->reply_partition < (int64_t)count;
    if (part->topic_exists) return MR_OK;
    if (status != MR_OK && writer->now_ns - part->trying_since_ns < REPLY_LOOKUP_NS)
        return MR_AGAIN;
    part->lost = true;
    return mr_fail(err, MR_BAD_CONFIG, "reply topic %s not found, or it has no partition %" PRId32,
                   ticket->reply_topic, ticket->reply_partition);
}

bool mr_writer_write_tokens(struct mr_writer *writer, struct mr_tokens_mail *mail, uint64_t now_ns)
{
    struct mr_error err = {0};
    struct mr_ticket *ticket = mail->ticket;
    struct mr_ticket_part *part = &ticket->publish.parts[MR_PART_TOKENS];
    if (atomic_load(&ticket->dropped)) return true;
    part->ticket = ticket;
    part->kind = MR_PART_TOKENS;
    enum mr_status status = ticket->reply_tokens ? find_reply_topic(writer, part, &err) : MR_OK;
    if (status == MR_AGAIN) return false;
    if (status == MR_OK) status = mr_deltas_fill(mail, &err);
    if (status == MR_OK && mr_deltas_is_void(&mail->record)) return true;
    if (status == MR_OK)
        status = mr_output_tokens(&writer->output, &writer->options.output, mail, &err);
    if (retries_for_memory(writer, status)) return false;
    if (status == MR_OK) {
        status = produce(writer, part, &err);
        if (mr_status_class(status) == MR_CLASS_RETRY) return false;
    }
    if (status != MR_OK) {
        lose_tokens(writer, ticket, err.detail);
        return true;
    }
    ticket->publish.tokens_pending++;
    ticket->publish.records_produced++;
    observe_tokens(writer, mail, now_ns);
    return true;
}

/* Handles a terminal record that was not accepted; true: produce the record again. */
static bool handle_refused(struct mr_writer *writer, struct mr_ticket_part *part,
                           const struct mr_error *reason)
{
    struct mr_log_place place = mr_ticket_log_place(part->ticket);
    switch (mr_terminal_refused(part, reason->status, writer->now_ns)) {
    case MR_TERMINAL_RETRY:
    case MR_TERMINAL_CHANGED:
        return true;
    case MR_TERMINAL_LOST:
        mr_terminal_lose(part, reason->detail, writer->options.log, writer->options.metrics);
        return false;
    default:
        mr_log_write(writer->options.log, MR_LOG_ERROR, &place, "record not written: %s",
                     reason->detail);
        mr_writer_fail(writer, reason);
        return false;
    }
}

/* Whether a request may write its next terminal record: its partition may have been revoked since
 * the request was admitted. */
static enum mr_write_permit permit_of(const struct mr_ticket *ticket)
{
    if (atomic_load(&ticket->dropped)) return MR_WRITE_CLOSED;
    return ticket->gate ? mr_write_gate_continue(ticket->gate, ticket->epoch) : MR_WRITE_OPEN;
}

/* Reads the write gate before a record is produced. False: the record is produced later, like a
 * refused one, or never. */
static bool pass_gate(struct mr_writer *writer, struct mr_ticket_part *part)
{
    enum mr_write_permit permit = permit_of(part->ticket);
    if (permit == MR_WRITE_OPEN) return true;
    part->unsent = false;
    part->refused = permit == MR_WRITE_HELD;
    if (part->refused) {
        queue_refused(writer, part->ticket);
        return false;
    }
    part->pending = false;
    atomic_store(&part->ticket->dropped, true);
    return false;
}

/* Produces one terminal record; part->unsent is true afterwards if that was not possible now. */
static void produce_part(struct mr_writer *writer, struct mr_ticket_part *part)
{
    struct mr_error err = {0};
    if (!pass_gate(writer, part)) return;
    part->unsent = true;
    if (part->kind == MR_PART_REPLY && !part->topic_exists) {
        mr_terminal_check_reply_topic(part, &writer->producer, writer->options.log,
                                      writer->options.metrics, writer->now_ns);
        part->unsent = part->pending;
        if (!part->topic_exists) return;
    }
    enum mr_status status = mr_terminal_make(&writer->output, &writer->options.output, part, &err);
    if (retries_for_memory(writer, status)) return;
    if (status == MR_OK) status = produce(writer, part, &err);
    if (mr_status_class(status) == MR_CLASS_RETRY) return;
    part->unsent = false;
    if (status != MR_OK && handle_refused(writer, part, &err)) produce_part(writer, part);
}

void mr_writer_write(struct mr_writer *writer, struct mr_ticket *ticket, enum mr_part kind)
{
    struct mr_ticket_part *part = &ticket->publish.parts[kind];
    if (!mr_terminal_wants(ticket, kind)) return;
    *part = (struct mr_ticket_part){.ticket = ticket, .kind = kind, .pending = true};
    produce_part(writer, part);
    if (part->unsent) queue_unsent(writer, ticket);
}

/* ---- reports ---- */

static void on_tokens_reported(struct mr_writer *writer, struct mr_ticket *ticket,
                               enum mr_status status, const char *reason)
{
    MR_ASSERT(ticket->publish.tokens_pending > 0);
    ticket->publish.tokens_pending--;
    ticket->publish.records_acknowledged += status == MR_OK;
    if (status != MR_OK) lose_tokens(writer, ticket, reason);
}

static void on_part_reported(struct mr_writer *writer, struct mr_ticket_part *part,
                             enum mr_status status, const char *reason)
{
    if (status == MR_OK) {
        part->pending = false;
        mr_terminal_acknowledged(&writer->stats.terminal, writer->options.metrics, part->kind);
        return;
    }
    mr_metrics_add(writer->options.metrics, MR_COUNTER_PRODUCE_ERRORS, 1);
    struct mr_error err = {0};
    mr_fail(&err, status, "%s", reason);
    part->refused = handle_refused(writer, part, &err);
    if (part->refused) queue_refused(writer, part->ticket);
}

static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct mr_writer *writer = context;
    struct mr_ticket_part *part = opaque;
    struct mr_ticket *ticket = part->ticket;
    note_topic(writer, part, status);
    if (status == MR_BACKEND) {
        struct mr_error err = {0};
        mr_fail(&err, status, "producer: %s", reason);
        mr_writer_fail(writer, &err);
    }
    if (part->kind == MR_PART_TOKENS)
        on_tokens_reported(writer, ticket, status, reason);
    else
        on_part_reported(writer, part, status, reason);
    mr_writer_queue_if_written(writer, ticket);
}

void mr_writer_serve(struct mr_writer *writer, uint64_t now_ns)
{
    writer->full = false;
    writer->now_ns = now_ns;
    writer->producer.serve(writer->producer.self);
}

bool mr_writer_attend(struct mr_writer *writer, bool awaited)
{
    bool on = awaited || writer->full || writer->unsent || writer->refused;
    if (on == writer->attending) return false;
    writer->attending = on;
    return writer->producer.attend(writer->producer.self, on);
}

/* ---- retries ---- */

static void retry_unsent(struct mr_writer *writer)
{
    struct mr_ticket *ticket = writer->unsent;
    writer->unsent = NULL;
    writer->unsent_end = &writer->unsent;
    for (struct mr_ticket *next; ticket; ticket = next) {
        bool unsent = false;
        next = ticket->publish.unsent_next;
        ticket->publish.unsent = false;
        for (size_t i = 0; i < MR_PART_TOKENS; i++) {
            struct mr_ticket_part *part = &ticket->publish.parts[i];
            if (part->unsent) produce_part(writer, part);
            unsent |= part->unsent;
        }
        if (unsent) queue_unsent(writer, ticket);
        mr_writer_queue_if_written(writer, ticket);
    }
}

/* Produces the ticket's records that the broker refused or the write gate held back. */
static void retry_refused_ticket(struct mr_writer *writer, struct mr_ticket *ticket)
{
    ticket->publish.refused = false;
    for (size_t i = 0; i < MR_PART_TOKENS; i++) {
        struct mr_ticket_part *part = &ticket->publish.parts[i];
        if (!part->refused) continue;
        part->refused = false;
        writer->stats.resent += permit_of(ticket) == MR_WRITE_OPEN;
        produce_part(writer, part);
        if (part->unsent) queue_unsent(writer, ticket);
    }
    mr_writer_queue_if_written(writer, ticket);
}

void mr_writer_retry(struct mr_writer *writer, uint64_t now_ns, bool refused)
{
    retry_unsent(writer);
    if (!refused || !writer->refused || now_ns < writer->refused_ns) return;
    struct mr_ticket *ticket = writer->refused;
    writer->refused_ns = now_ns + REFUSED_NS;
    writer->refused = NULL;
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->publish.refused_next;
        retry_refused_ticket(writer, ticket);
    }
}

uint64_t mr_writer_retry_ns(const struct mr_writer *writer, uint64_t now_ns, bool refused)
{
    if (writer->unsent || writer->full) return now_ns + FULL_NS;
    if (!refused || !writer->refused) return UINT64_MAX;
    return writer->refused_ns > now_ns ? writer->refused_ns : now_ns;
}

uint32_t mr_writer_unreported(const struct mr_writer *writer)
{
    return writer->producer.pending(writer->producer.self);
}

bool mr_writer_is_flushed(const struct mr_writer *writer)
{
    return !writer->unsent && mr_writer_unreported(writer) == 0;
}

/* ---- life ---- */

enum mr_status mr_writer_open(struct mr_writer *writer, const struct mr_writer_options *options,
                              const struct mr_producer_opener *opener, const struct mr_wake *wake,
                              struct mr_error *err)
{
    const char *topics[] = {options->output.tokens_topic, options->output.results_topic,
                            options->output.dlq_topic};
    struct mr_producer_user user = {.wake = wake,
                                    .reported = on_reported,
                                    .context = writer,
                                    .topics = topics,
                                    .topic_count = sizeof topics / sizeof *topics};
    *writer = (struct mr_writer){.options = *options, .attending = true};
    writer->unsent_end = &writer->unsent;
    return opener->open(opener->context, &user, &writer->producer, err);
}

void mr_writer_close(struct mr_writer *writer)
{
    writer->producer.close(writer->producer.self);
    mr_output_clear(&writer->output);
}
