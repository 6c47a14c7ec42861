#include "worker/publish/publish.h"

#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/kafka/kafka_out.h"
#include "worker/publish/terminal.h"
#include "worker/ticket/write_gate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAIL_COUNT_MAX   65536u
#define MAIL_BYTES_MAX   ((size_t)64 << 20)
#define PRIME_TIMEOUT_MS 10000u
#define SECOND_NS        ((uint64_t)1000000000)
#define HELD_NS          ((uint64_t)20000000) /* between looks at a gate that holds */

struct mr_publish {
    struct mr_publish_options options;
    struct mr_wake wake;
    struct mr_mailbox *mailbox;
    struct mr_kafka_out *out;
    struct mr_output output;
    pthread_t thread;
    atomic_bool stopping;
    uint32_t stop_timeout_ms;
    bool flushed;
    struct mr_ticket *oldest, *newest; /* those with an ending */
    struct mr_ticket *advances, *held; /* those to go on with; those a gate held */
    struct mr_ticket *resends;         /* those with a terminal record to produce again */
    uint64_t resend_ns;                /* not before this time */
    bool failed;                       /* said once */
    bool giving_up;                    /* while stopping: nothing is produced again */
    pthread_mutex_t mutex;
    struct mr_publish_stats stats; /* the thread's own */
    struct mr_publish_stats shown; /* under mutex */
};

static void fail(struct mr_publish *publish, const struct mr_error *err)
{
    if (publish->failed) return;
    publish->failed = true;
    publish->options.failed(publish->options.context, err);
}

/* ---- the end of a ticket ---- */

static void tell_oldest(struct mr_publish *publish)
{
    if (publish->options.oldest_ms)
        atomic_store(publish->options.oldest_ms,
                     publish->oldest ? publish->oldest->publish.terminal_ms : 0);
}

static void list_ending(struct mr_publish *publish, struct mr_ticket *ticket)
{
    ticket->publish.terminal_ms = mr_clock_unix_ms();
    ticket->publish.newer = NULL;
    ticket->publish.older = publish->newest;
    if (publish->newest)
        publish->newest->publish.newer = ticket;
    else
        publish->oldest = ticket;
    publish->newest = ticket;
    if (!ticket->publish.older) tell_oldest(publish);
}

static void unlist_ending(struct mr_publish *publish, struct mr_ticket *ticket)
{
    if (ticket->publish.older)
        ticket->publish.older->publish.newer = ticket->publish.newer;
    else
        publish->oldest = ticket->publish.newer;
    if (ticket->publish.newer)
        ticket->publish.newer->publish.older = ticket->publish.older;
    else
        publish->newest = ticket->publish.older;
    ticket->publish.older = ticket->publish.newer = NULL;
}

/* Through with it. Intake has the message before the oldest ending is another one: what it then
 * commits is true of every result older than that. */
static void give_back(struct mr_publish *publish, struct mr_ticket *ticket, enum mr_mail_kind kind)
{
    bool first = !ticket->publish.older;
    unlist_ending(publish, ticket);
    ticket->done.kind = kind;
    mr_mailbox_post_control(publish->options.intake, &ticket->done);
    if (first) tell_oldest(publish);
}

static void end_ticket(struct mr_publish *publish, struct mr_ticket *ticket)
{
    mr_mail_free(ticket->publish.terminal);
    ticket->publish.terminal = NULL;
    give_back(publish, ticket, MR_MAIL_DONE);
}

static bool is_pending(const struct mr_ticket *ticket)
{
    if (ticket->publish.tokens_pending > 0) return true;
    for (size_t i = 0; i < MR_PART_TOKENS; i++)
        if (ticket->publish.parts[i].pending) return true;
    return false;
}

/* Looked at again soon: not from within a report, where a produce that waits for room may be below
 * on the stack. */
static void queue_advance(struct mr_publish *publish, struct mr_ticket *ticket)
{
    if (!ticket->publish.terminal || ticket->publish.advancing || is_pending(ticket)) return;
    ticket->publish.advancing = true;
    ticket->publish.advance_next = publish->advances;
    publish->advances = ticket;
}

static void queue_held(struct mr_publish *publish, struct mr_ticket *ticket)
{
    ticket->publish.advancing = true;
    ticket->publish.advance_next = publish->held;
    publish->held = ticket;
}

/* ---- producing ---- */

/* Waits out a full queue by serving reports. Anything but MR_OK is for good. */
static enum mr_status produce(struct mr_publish *publish, const struct mr_kafka_record *record,
                              struct mr_ticket_part *part, struct mr_error *err)
{
    for (;;) {
        enum mr_status status = mr_kafka_out_produce(publish->out, record, part, err);
        if (status == MR_OK) {
            publish->stats.bytes += record->value.length;
            return MR_OK;
        }
        if (status == MR_BACKEND) fail(publish, err);
        if (mr_status_class(status) != MR_CLASS_RETRY || publish->giving_up) return status;
        mr_kafka_out_serve(publish->out, 100);
    }
}

static void produce_tokens(struct mr_publish *publish, struct mr_tokens_mail *mail)
{
    struct mr_error err = {0};
    struct mr_ticket *ticket = mail->ticket;
    struct mr_ticket_part *part = &ticket->publish.parts[MR_PART_TOKENS];
    if (atomic_load(&ticket->dropped)) return;
    *part = (struct mr_ticket_part){.ticket = ticket, .kind = MR_PART_TOKENS};
    enum mr_status status =
        mr_output_tokens(&publish->output, &publish->options.output, mail, &err);
    if (status == MR_OK) {
        ticket->publish.tokens_pending++;
        ticket->publish.records_made++;
        status = produce(publish, &publish->output.record, part, &err);
        if (status != MR_OK) ticket->publish.tokens_pending--;
    }
    if (status != MR_OK) {
        struct mr_log_place place = mr_terminal_place(ticket);
        publish->stats.tokens_lost++;
        ticket->publish.tokens_lost = true;
        mr_log_write(publish->options.log, MR_LOG_ERROR, &place, "token record lost: %s",
                     err.detail);
        return;
    }
    uint64_t delay_ns = mr_clock_ns() - mail->made_ns;
    publish->stats.token_records++;
    publish->stats.delay_ns_sum += delay_ns;
    if (delay_ns > publish->stats.delay_ns_max) publish->stats.delay_ns_max = delay_ns;
    mr_metrics_add(publish->options.metrics, MR_COUNTER_TOKEN_RECORDS, 1);
    mr_metrics_observe_publish_delay(publish->options.metrics, delay_ns);
    if (mail->record.choice > 0) return;
    if (ticket->publish.token_ns > 0)
        mr_metrics_observe_gap(publish->options.metrics, mail->made_ns - ticket->publish.token_ns);
    ticket->publish.token_ns = mail->made_ns;
}

/* One terminal record; again without its bulk if it is too large. A reply that cannot be written is
 * given up (its topic is the caller's); anything else that cannot is the end of this worker. */
static void produce_part(struct mr_publish *publish, struct mr_ticket *ticket, enum mr_part kind,
                         bool shrunk)
{
    struct mr_error err = {0};
    struct mr_ticket_part *part = &ticket->publish.parts[kind];
    *part = (struct mr_ticket_part){.ticket = ticket, .kind = kind, .pending = true};
    enum mr_status status =
        mr_terminal_make(&publish->output, &publish->options.output, ticket, kind, shrunk, &err);
    if (status == MR_OK) status = produce(publish, &publish->output.record, part, &err);
    if (status == MR_OK) return;
    if (status == MR_RECORD_TOO_LARGE && !shrunk) {
        produce_part(publish, ticket, kind, true);
        return;
    }
    struct mr_log_place place = mr_terminal_place(ticket);
    mr_log_write(publish->options.log, MR_LOG_ERROR, &place, "record not written: %s", err.detail);
    if (kind == MR_PART_REPLY)
        part->pending = false;
    else
        fail(publish, &err);
}

/* Writes a part if the ending asks for it. */
static void write_part(struct mr_publish *publish, struct mr_ticket *ticket, enum mr_part kind)
{
    if (mr_terminal_wants(ticket, kind, publish->out, publish->options.log))
        produce_part(publish, ticket, kind, false);
}

static enum mr_write_permit ask_gate(struct mr_ticket *ticket)
{
    if (atomic_load(&ticket->dropped)) return MR_WRITE_CLOSED;
    return ticket->gate ? mr_write_gate_admit(ticket->gate, ticket->epoch) : MR_WRITE_OPEN;
}

static void drop(struct mr_publish *publish, struct mr_ticket *ticket)
{
    atomic_store(&ticket->dropped, true);
    publish->stats.dropped++;
    end_ticket(publish, ticket);
}

/* From phase to phase, as far as nothing is pending. */
static void advance(struct mr_publish *publish, struct mr_ticket *ticket)
{
    if (publish->options.hand_over) { /* intake and settle do the rest */
        give_back(publish, ticket, MR_MAIL_READY);
        return;
    }
    if (ticket->publish.phase == MR_TERMINAL_WAITING) {
        enum mr_write_permit gate = ask_gate(ticket);
        if (gate == MR_WRITE_CLOSED) drop(publish, ticket);
        if (gate == MR_WRITE_HELD) queue_held(publish, ticket);
        if (gate != MR_WRITE_OPEN) return;
        ticket->publish.phase = MR_TERMINAL_REPLY;
        write_part(publish, ticket, MR_PART_DEAD_LETTER);
        write_part(publish, ticket, MR_PART_REPLY);
    }
    if (ticket->publish.phase == MR_TERMINAL_REPLY && !is_pending(ticket)) {
        ticket->publish.phase = MR_TERMINAL_RESULT;
        write_part(publish, ticket, MR_PART_RESULT);
    }
    if (is_pending(ticket)) return;
    if (ticket->gate) mr_write_gate_acknowledge(ticket->gate);
    end_ticket(publish, ticket);
}

static void advance_all(struct mr_publish *publish, struct mr_ticket *ticket)
{
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->publish.advance_next;
        ticket->publish.advancing = false;
        advance(publish, ticket);
    }
}

/* What the reports let go on, then what a gate held. */
static void advance_queued(struct mr_publish *publish)
{
    struct mr_ticket *held = publish->held;
    publish->held = NULL;
    advance_all(publish, held);
    while (publish->advances) {
        struct mr_ticket *queued = publish->advances;
        publish->advances = NULL;
        advance_all(publish, queued);
    }
}

static void observe_result(struct mr_publish *publish, const struct mr_result_mail *mail)
{
    double waited_ms = mail->ticket->waited_ms;
    mr_metrics_observe_result(publish->options.metrics, &mail->result,
                              waited_ms < 0 ? -1.0 : waited_ms + mail->result.first_token_ms);
}

static void handle_ending(struct mr_publish *publish, struct mr_ticket *ticket,
                          struct mr_mail *mail)
{
    MR_ASSERT(!ticket->publish.terminal);
    ticket->publish.terminal = mail;
    ticket->publish.phase = MR_TERMINAL_WAITING;
    list_ending(publish, ticket);
    if (mail->kind == MR_MAIL_REFUSAL) publish->stats.refusals++;
    if (mail->kind == MR_MAIL_RESULT && !atomic_load(&ticket->dropped))
        observe_result(publish, (const struct mr_result_mail *)mail);
    queue_advance(publish, ticket);
}

static void handle(struct mr_publish *publish, struct mr_mail *mail)
{
    if (mail->kind == MR_MAIL_DRAWN) {
        const struct mr_drawn_mail *drawn = (const struct mr_drawn_mail *)mail;
        drawn->ticket->publish.drawn = drawn->index + 1;
        mr_mail_free(mail);
        return;
    }
    if (mail->kind == MR_MAIL_TOKENS) {
        produce_tokens(publish, (struct mr_tokens_mail *)mail);
        mr_mail_free(mail);
        return;
    }
    struct mr_ticket *ticket = mail->kind == MR_MAIL_RESULT
                                   ? ((struct mr_result_mail *)mail)->ticket
                                   : ((struct mr_refusal_mail *)mail)->ticket;
    handle_ending(publish, ticket, mail);
}

/* ---- reports: called from within mr_kafka_out_serve, _flush and _produce's waits ---- */

static void on_tokens_reported(struct mr_publish *publish, struct mr_ticket *ticket,
                               enum mr_status status, const char *reason)
{
    MR_ASSERT(ticket->publish.tokens_pending > 0);
    ticket->publish.tokens_pending--;
    ticket->publish.records_acked += status == MR_OK;
    if (status == MR_OK) return;
    publish->stats.tokens_lost++;
    if (ticket->publish.tokens_lost) return;
    ticket->publish.tokens_lost = true;
    struct mr_log_place place = mr_terminal_place(ticket);
    mr_log_write(publish->options.log, MR_LOG_ERROR, &place, "token record lost: %s", reason);
}

/* Not from within the report: a produce that waits for room may be below it on the stack. */
static void queue_resend(struct mr_publish *publish, struct mr_ticket_part *part, bool shrunk)
{
    struct mr_ticket *ticket = part->ticket;
    part->resend = true;
    part->shrunk = shrunk;
    if (ticket->publish.resending) return;
    ticket->publish.resending = true;
    ticket->publish.resend_next = publish->resends;
    publish->resends = ticket;
}

static void on_part_reported(struct mr_publish *publish, struct mr_ticket_part *part,
                             enum mr_status status, const char *reason)
{
    enum mr_part kind = part->kind;
    part->pending = false;
    if (status == MR_OK) {
        mr_terminal_count(&publish->stats.terminal, publish->options.metrics, kind);
        return;
    }
    part->pending = true; /* until it is written or given up */
    mr_metrics_add(publish->options.metrics, MR_COUNTER_PRODUCE_ERRORS, 1);
    if (publish->giving_up) return;
    struct mr_error err = {0};
    mr_fail(&err, status, "%s", reason);
    if (mr_status_class(status) == MR_CLASS_RETRY || status == MR_RECORD_TOO_LARGE) {
        queue_resend(publish, part, status == MR_RECORD_TOO_LARGE);
    } else if (kind == MR_PART_REPLY) {
        part->pending = false;
    } else {
        fail(publish, &err);
    }
}

static void on_reported(void *context, void *opaque, enum mr_status status, const char *reason)
{
    struct mr_publish *publish = context;
    struct mr_ticket_part *part = opaque;
    struct mr_ticket *ticket = part->ticket;
    if (status == MR_BACKEND) {
        struct mr_error err = {0};
        mr_fail(&err, status, "producer: %s", reason);
        fail(publish, &err);
    }
    if (part->kind == MR_PART_TOKENS)
        on_tokens_reported(publish, ticket, status, reason);
    else
        on_part_reported(publish, part, status, reason);
    queue_advance(publish, ticket);
}

/* ---- the thread ---- */

/* How many tokens have reached the broker for certain. Its acknowledgements come in order: when
 * those of a moment of before are all here, what was out by then is read, and the next moment to
 * wait for is now. */
static uint32_t tokens_shown(struct mr_ticket *ticket)
{
    for (int i = 0; i < 2 && !ticket->publish.tokens_lost &&
                    ticket->publish.records_acked >= ticket->publish.mark_made;
         i++) {
        ticket->publish.shown = ticket->publish.mark_drawn;
        ticket->publish.mark_made = ticket->publish.records_made;
        ticket->publish.mark_drawn = ticket->publish.drawn;
    }
    return ticket->publish.shown;
}

/* What the mail would publish is in Redis before. */
static void keep_tokens(struct mr_publish *publish, const struct mr_mail *mail)
{
    bool any = false;
    for (; mail; mail = mail->next) {
        if (mail->kind != MR_MAIL_DRAWN) continue;
        const struct mr_drawn_mail *drawn = (const struct mr_drawn_mail *)mail;
        struct mr_ticket *ticket = drawn->ticket;
        if (atomic_load(&ticket->dropped)) continue;
        mr_trail_keep(ticket->trail, drawn->index, tokens_shown(ticket), &drawn->sample,
                      mr_clock_ns());
        any = true;
    }
    if (any) mr_resume_wait(publish->options.resume);
}

static void handle_mail(struct mr_publish *publish)
{
    struct mr_mail *mail = mr_mailbox_take(publish->mailbox);
    if (publish->options.resume) keep_tokens(publish, mail);
    for (struct mr_mail *next; mail; mail = next) {
        next = mail->next;
        handle(publish, mail);
    }
}

static void resend_ticket(struct mr_publish *publish, struct mr_ticket *ticket)
{
    enum mr_write_permit gate = MR_WRITE_OPEN;
    if (ticket->gate) gate = mr_write_gate_look(ticket->gate, ticket->epoch);
    if (atomic_load(&ticket->dropped)) gate = MR_WRITE_CLOSED;
    ticket->publish.resending = false;
    for (size_t i = 0; i < MR_PART_TOKENS; i++) {
        struct mr_ticket_part *part = &ticket->publish.parts[i];
        if (!part->resend) continue;
        if (gate == MR_WRITE_HELD) {
            queue_resend(publish, part, part->shrunk);
            continue;
        }
        part->resend = false;
        if (gate == MR_WRITE_CLOSED) {
            part->pending = false;
            continue;
        }
        publish->stats.resent++;
        produce_part(publish, ticket, (enum mr_part)i, part->shrunk);
    }
    queue_advance(publish, ticket);
}

/* At most twice a second, so that a broker that refuses at once is not hammered. */
static void resend(struct mr_publish *publish)
{
    uint64_t now_ns = mr_clock_ns();
    if (!publish->resends || now_ns < publish->resend_ns) return;
    publish->resend_ns = now_ns + SECOND_NS / 2;
    struct mr_ticket *ticket = publish->resends;
    publish->resends = NULL;
    for (struct mr_ticket *next; ticket; ticket = next) {
        next = ticket->publish.resend_next;
        resend_ticket(publish, ticket);
    }
}

static void show_stats(struct mr_publish *publish)
{
    publish->stats.unreported = mr_kafka_out_pending(publish->out);
    pthread_mutex_lock(&publish->mutex);
    publish->shown = publish->stats;
    pthread_mutex_unlock(&publish->mutex);
}

static void check_producer(struct mr_publish *publish)
{
    struct mr_error err = {0};
    if (mr_kafka_out_fatal(publish->out, &err) != MR_OK) fail(publish, &err);
}

static uint64_t sleep_ns(const struct mr_publish *publish)
{
    if (publish->held) return HELD_NS;
    return publish->resends ? SECOND_NS / 2 : SECOND_NS;
}

/* What ends a request is written in two steps, each of which waits for its reports. */
static bool flush(struct mr_publish *publish)
{
    uint64_t began_ns = mr_clock_ns();
    do {
        uint64_t gone_ms = (mr_clock_ns() - began_ns) / (SECOND_NS / 1000);
        if (gone_ms > publish->stop_timeout_ms) return false;
        uint32_t left_ms = publish->stop_timeout_ms - (uint32_t)gone_ms;
        if (mr_kafka_out_flush(publish->out, left_ms) != MR_OK) return false;
        advance_queued(publish);
    } while (mr_kafka_out_pending(publish->out) > 0);
    return publish->oldest == NULL;
}

static void *run(void *argument)
{
    struct mr_publish *publish = argument;
    while (!atomic_load(&publish->stopping)) {
        bool rung = mr_wake_wait(&publish->wake, sleep_ns(publish));
        handle_mail(publish);
        mr_kafka_out_serve(publish->out, 0);
        advance_queued(publish);
        resend(publish);
        if (!rung) check_producer(publish);
        show_stats(publish);
    }
    handle_mail(publish);
    publish->flushed = flush(publish);
    publish->giving_up = true;
    show_stats(publish);
    return NULL;
}

static enum mr_status prime(struct mr_publish *publish, struct mr_error *err)
{
    const char *topics[] = {publish->options.output.tokens_topic,
                            publish->options.output.results_topic,
                            publish->options.output.dlq_topic};
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < sizeof topics / sizeof *topics && status == MR_OK; i++)
        status = mr_kafka_out_prime(publish->out, topics[i], PRIME_TIMEOUT_MS, err);
    return status;
}

enum mr_status mr_publish_create(struct mr_publish **out, const struct mr_publish_options *options,
                                 struct mr_error *err)
{
    *out = NULL;
    struct mr_publish *publish = calloc(1, sizeof *publish);
    if (!publish) return mr_fail(err, MR_NOMEM, "no memory for publish");
    publish->options = *options;
    pthread_mutex_init(&publish->mutex, NULL);
    enum mr_status status = mr_wake_open(&publish->wake, err);
    if (status != MR_OK) goto fail_memory;
    struct mr_mailbox_options mailbox = {MAIL_COUNT_MAX, MAIL_BYTES_MAX, &publish->wake};
    status = mr_mailbox_create(&publish->mailbox, &mailbox, err);
    if (status != MR_OK) goto fail_wake;
    struct mr_kafka_out_options kafka = {.kafka = options->kafka,
                                         .wake = &publish->wake,
                                         .reported = on_reported,
                                         .context = publish};
    status = mr_kafka_out_create(&publish->out, &kafka, err);
    if (status != MR_OK) goto fail_mailbox;
    status = prime(publish, err);
    if (status != MR_OK) goto fail_out;
    if (pthread_create(&publish->thread, NULL, run, publish) != 0) {
        status = mr_fail(err, MR_NOMEM, "no thread for publish");
        goto fail_out;
    }
    pthread_setname_np(publish->thread, "publish");
    *out = publish;
    return MR_OK;

fail_out:
    mr_kafka_out_destroy(publish->out);
fail_mailbox:
    mr_mailbox_destroy(publish->mailbox);
fail_wake:
    mr_wake_close(&publish->wake);
fail_memory:
    pthread_mutex_destroy(&publish->mutex);
    free(publish);
    return status;
}

struct mr_mailbox *mr_publish_mailbox(struct mr_publish *publish)
{
    return publish->mailbox;
}

bool mr_publish_destroy(struct mr_publish *publish, uint32_t timeout_ms)
{
    if (!publish) return true;
    publish->stop_timeout_ms = timeout_ms;
    atomic_store(&publish->stopping, true);
    mr_wake_ring(&publish->wake);
    pthread_join(publish->thread, NULL);
    bool flushed = publish->flushed;
    mr_output_clear(&publish->output);
    mr_kafka_out_destroy(publish->out);
    mr_mailbox_destroy(publish->mailbox);
    mr_wake_close(&publish->wake);
    pthread_mutex_destroy(&publish->mutex);
    free(publish);
    return flushed;
}

struct mr_publish_stats mr_publish_stats(struct mr_publish *publish)
{
    pthread_mutex_lock(&publish->mutex);
    struct mr_publish_stats stats = publish->shown;
    pthread_mutex_unlock(&publish->mutex);
    return stats;
}
