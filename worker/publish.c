#include "worker/publish.h"

#include "codec/check.h"
#include "worker/clock.h"
#include "worker/kafka_out.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAIL_COUNT_MAX   65536u
#define MAIL_BYTES_MAX   ((size_t)64 << 20)
#define PRIME_TIMEOUT_MS 10000u
#define REPLY_TIMEOUT_MS 5000u
#define SECOND_NS        ((uint64_t)1000000000)

/* What a record is to its ticket. */
enum part {
    PART_RESULT,
    PART_REPLY,
    PART_DEAD_LETTER,
    PART_TOKENS /* all token records of the ticket together */
};
_Static_assert(PART_TOKENS + 1 == MR_TICKET_PARTS, "one place in the ticket for each");

struct mr_publish {
    struct mr_publish_options options;
    struct mr_wake wake;
    struct mr_mailbox *mailbox;
    struct mr_kafka_out *out;
    struct mr_answer answer;
    pthread_t thread;
    atomic_bool stopping;
    uint32_t stop_timeout_ms;
    bool flushed;
    struct mr_ticket *resends; /* those with a terminal record to produce again */
    uint64_t resend_ns;        /* not before this time */
    bool failed;               /* said once */
    bool giving_up;            /* while stopping: nothing is produced again */
    pthread_mutex_t mutex;
    struct mr_publish_stats stats; /* the thread's own */
    struct mr_publish_stats shown; /* under mutex */
};

static struct mr_log_place place_of(const struct mr_ticket *ticket)
{
    return (struct mr_log_place){.req_id = {ticket->id, strlen(ticket->id)},
                                 .topic = {ticket->topic, strlen(ticket->topic)},
                                 .partition = ticket->partition,
                                 .offset = ticket->offset};
}

static void fail(struct mr_publish *publish, const struct mr_error *err)
{
    if (publish->failed) return;
    publish->failed = true;
    publish->options.failed(publish->options.context, err);
}

/* ---- the end of a ticket ---- */

static void end_if_done(struct mr_publish *publish, struct mr_ticket *ticket)
{
    if (!ticket->ending || ticket->tokens_pending > 0) return;
    for (size_t i = 0; i < PART_TOKENS; i++)
        if (ticket->parts[i].pending) return;
    mr_mail_free(ticket->ending);
    ticket->ending = NULL;
    ticket->done.kind = MR_MAIL_DONE;
    mr_mailbox_post_control(publish->options.intake, &ticket->done);
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
    struct mr_ticket_part *part = &ticket->parts[PART_TOKENS];
    if (atomic_load(&ticket->dropped)) return;
    *part = (struct mr_ticket_part){.ticket = ticket, .kind = PART_TOKENS};
    enum mr_status status =
        mr_answer_tokens(&publish->answer, &publish->options.source, mail, &err);
    if (status == MR_OK) {
        ticket->tokens_pending++;
        status = produce(publish, &publish->answer.record, part, &err);
        if (status != MR_OK) ticket->tokens_pending--;
    }
    if (status != MR_OK) {
        struct mr_log_place place = place_of(ticket);
        publish->stats.tokens_lost++;
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
    if (ticket->token_ns > 0)
        mr_metrics_observe_gap(publish->options.metrics, mail->made_ns - ticket->token_ns);
    ticket->token_ns = mail->made_ns;
}

static enum mr_status make_part(struct mr_publish *publish, struct mr_ticket *ticket,
                                enum part kind, bool shrunk, struct mr_error *err)
{
    if (kind == PART_DEAD_LETTER) {
        mr_answer_dead_letter(&publish->answer, &publish->options.source,
                              (const struct mr_refusal_mail *)ticket->ending, shrunk);
        return MR_OK;
    }
    enum mr_status status =
        mr_answer_result(&publish->answer, &publish->options.source, ticket->ending, shrunk, err);
    if (kind == PART_REPLY) {
        publish->answer.record.topic = ticket->reply_topic;
        publish->answer.record.partition = ticket->reply_partition;
    }
    return status;
}

static void count_part(struct mr_publish *publish, enum part kind)
{
    if (kind == PART_REPLY) publish->stats.replies++;
    if (kind == PART_RESULT) {
        publish->stats.results++;
        mr_metrics_add(publish->options.metrics, MR_COUNTER_RESULT_RECORDS, 1);
    }
    if (kind == PART_DEAD_LETTER) {
        publish->stats.dead_letters++;
        mr_metrics_add(publish->options.metrics, MR_COUNTER_DEAD_LETTERS, 1);
    }
}

/* One terminal record; again without its bulk if it is too large. A reply that cannot be written is
 * given up (its topic is the caller's); anything else that cannot is the end of this worker. */
static void produce_part(struct mr_publish *publish, struct mr_ticket *ticket, enum part kind,
                         bool shrunk)
{
    struct mr_error err = {0};
    struct mr_ticket_part *part = &ticket->parts[kind];
    *part = (struct mr_ticket_part){.ticket = ticket, .kind = kind, .pending = true};
    enum mr_status status = make_part(publish, ticket, kind, shrunk, &err);
    if (status == MR_OK) status = produce(publish, &publish->answer.record, part, &err);
    if (status == MR_OK) return;
    if (status == MR_RECORD_TOO_LARGE && !shrunk) {
        produce_part(publish, ticket, kind, true);
        return;
    }
    struct mr_log_place place = place_of(ticket);
    mr_log_write(publish->options.log, MR_LOG_ERROR, &place, "record not written: %s", err.detail);
    if (kind == PART_REPLY)
        part->pending = false;
    else
        fail(publish, &err);
}

/* The reply topic must exist (it is never created) and have the partition asked for: librdkafka
 * before 2.12 frees headers twice when it does not. */
static bool reply_exists(struct mr_publish *publish, const struct mr_ticket *ticket)
{
    uint32_t count = 0;
    struct mr_error err = {0};
    enum mr_status status =
        mr_kafka_out_partitions(publish->out, ticket->reply_topic, REPLY_TIMEOUT_MS, &count, &err);
    if (status == MR_OK && count > 0 && ticket->reply_partition < (int64_t)count) return true;
    struct mr_log_place place = place_of(ticket);
    mr_log_write(publish->options.log, MR_LOG_WARN, &place, "no reply: topic %s has %u partitions",
                 ticket->reply_topic, count);
    return false;
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
    MR_ASSERT(!ticket->ending);
    ticket->ending = mail;
    if (atomic_load(&ticket->dropped)) {
        publish->stats.dropped++;
        return;
    }
    bool refused = mail->kind == MR_MAIL_REFUSAL;
    if (!refused) observe_result(publish, (const struct mr_result_mail *)mail);
    const struct mr_refusal_mail *refusal = refused ? (struct mr_refusal_mail *)mail : NULL;
    bool result = !refusal || refusal->write_result;
    bool reply = result && ticket->reply_topic && reply_exists(publish, ticket);
    if (refusal) publish->stats.refusals++;
    if (refusal && refusal->dead_letter) produce_part(publish, ticket, PART_DEAD_LETTER, false);
    if (reply) produce_part(publish, ticket, PART_REPLY, false);
    if (result) produce_part(publish, ticket, PART_RESULT, false);
}

static void handle(struct mr_publish *publish, struct mr_mail *mail)
{
    if (mail->kind == MR_MAIL_TOKENS) {
        produce_tokens(publish, (struct mr_tokens_mail *)mail);
        mr_mail_free(mail);
        return;
    }
    struct mr_ticket *ticket = mail->kind == MR_MAIL_RESULT
                                   ? ((struct mr_result_mail *)mail)->ticket
                                   : ((struct mr_refusal_mail *)mail)->ticket;
    handle_ending(publish, ticket, mail);
    end_if_done(publish, ticket);
}

/* ---- reports: called from within mr_kafka_out_serve, _flush and _produce's waits ---- */

static void on_tokens_reported(struct mr_publish *publish, struct mr_ticket *ticket,
                               enum mr_status status, const char *reason)
{
    MR_ASSERT(ticket->tokens_pending > 0);
    ticket->tokens_pending--;
    if (status == MR_OK) return;
    publish->stats.tokens_lost++;
    if (ticket->tokens_lost) return;
    ticket->tokens_lost = true;
    struct mr_log_place place = place_of(ticket);
    mr_log_write(publish->options.log, MR_LOG_ERROR, &place, "token record lost: %s", reason);
}

/* Not from within the report: a produce that waits for room may be below it on the stack. */
static void queue_resend(struct mr_publish *publish, struct mr_ticket_part *part, bool shrunk)
{
    struct mr_ticket *ticket = part->ticket;
    part->resend = true;
    part->shrunk = shrunk;
    if (ticket->resending) return;
    ticket->resending = true;
    ticket->resend_next = publish->resends;
    publish->resends = ticket;
}

static void on_part_reported(struct mr_publish *publish, struct mr_ticket_part *part,
                             enum mr_status status, const char *reason)
{
    enum part kind = (enum part)part->kind;
    part->pending = false;
    if (status == MR_OK) {
        count_part(publish, kind);
        return;
    }
    part->pending = true; /* until it is written or given up */
    mr_metrics_add(publish->options.metrics, MR_COUNTER_PRODUCE_ERRORS, 1);
    if (publish->giving_up) return;
    struct mr_error err = {0};
    mr_fail(&err, status, "%s", reason);
    if (mr_status_class(status) == MR_CLASS_RETRY || status == MR_RECORD_TOO_LARGE) {
        queue_resend(publish, part, status == MR_RECORD_TOO_LARGE);
    } else if (kind == PART_REPLY) {
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
    if (part->kind == PART_TOKENS)
        on_tokens_reported(publish, ticket, status, reason);
    else
        on_part_reported(publish, part, status, reason);
    end_if_done(publish, ticket);
}

/* ---- the thread ---- */

static void handle_mail(struct mr_publish *publish)
{
    for (struct mr_mail *mail = mr_mailbox_take(publish->mailbox), *next; mail; mail = next) {
        next = mail->next;
        handle(publish, mail);
    }
}

static void resend_ticket(struct mr_publish *publish, struct mr_ticket *ticket)
{
    ticket->resending = false;
    for (size_t i = 0; i < PART_TOKENS; i++) {
        struct mr_ticket_part *part = &ticket->parts[i];
        if (!part->resend) continue;
        part->resend = false;
        if (atomic_load(&ticket->dropped)) {
            part->pending = false;
            continue;
        }
        publish->stats.resent++;
        produce_part(publish, ticket, (enum part)i, part->shrunk);
    }
    end_if_done(publish, ticket);
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
        next = ticket->resend_next;
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

static void *run(void *argument)
{
    struct mr_publish *publish = argument;
    while (!atomic_load(&publish->stopping)) {
        bool rung = mr_wake_wait(&publish->wake, publish->resends ? SECOND_NS / 2 : SECOND_NS);
        handle_mail(publish);
        mr_kafka_out_serve(publish->out, 0);
        resend(publish);
        if (!rung) check_producer(publish);
        show_stats(publish);
    }
    handle_mail(publish);
    publish->flushed = mr_kafka_out_flush(publish->out, publish->stop_timeout_ms) == MR_OK;
    publish->giving_up = true;
    show_stats(publish);
    return NULL;
}

static enum mr_status prime(struct mr_publish *publish, struct mr_error *err)
{
    const char *topics[] = {publish->options.source.tokens_topic,
                            publish->options.source.results_topic,
                            publish->options.source.dlq_topic};
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
    struct mr_kafka_out_options kafka = {options->kafka, &publish->wake, on_reported, publish};
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
    mr_answer_clear(&publish->answer);
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
