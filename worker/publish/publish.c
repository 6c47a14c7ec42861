#include "worker/publish/publish.h"

#include "codec/check.h"
#include "worker/base/thread.h"
#include "worker/publish/finisher.h"

#include <pthread.h>
#include <stdlib.h>

/* Longest time of one step, which never blocks. */
#define STEP_MAX_NS ((uint64_t)60000000000)

#define MAIL_COUNT_MAX 65536u
#define MAIL_BYTES_MAX ((size_t)64 << 20)
#define SECOND_NS      ((uint64_t)1000000000)

struct mr_publish {
    struct mr_publish_options options;
    struct mr_wake wake;
    struct mr_mailbox *mailbox;
    struct mr_writer writer;
    struct mr_finisher finisher;
    struct mr_thread *thread; /* NULL: mr_publish_step is called by a simulation */
    struct mr_mail *mail;     /* messages taken from the mailbox and not handled yet, in order */
    bool storing;             /* Redis has not stored the tokens of the messages in `mail` yet */
    uint64_t checked_ns;      /* when the producer was last checked for a fatal error */
    bool flushed;             /* every record was reported; set before is_drained */
    uint64_t deadline_ns;     /* when draining ends at the latest; set before is_draining */
    atomic_bool is_draining, is_drained;
    struct mr_wake drained; /* notified when is_drained is set */
    pthread_mutex_t mutex;
    struct mr_publish_stats stats; /* under mutex: a copy of the statistics for other threads */
};

/* ---- mail ---- */

/* Returns how many tokens of the request are on the broker for certain. Records are acknowledged in
 * order. When all records up to the mark (mark_produced) are acknowledged, the tokens up to the
 * mark (mark_generated) are readable, and the mark moves to the last record produced. */
static uint32_t update_readable(struct mr_ticket_publish *ticket)
{
    for (int i = 0;
         i < 2 && !ticket->tokens_lost && ticket->records_acknowledged >= ticket->mark_produced;
         i++) {
        ticket->readable = ticket->mark_generated;
        ticket->mark_produced = ticket->records_produced;
        ticket->mark_generated = ticket->generated;
    }
    return ticket->readable;
}

/* Passes the tokens in the messages just taken to the trails; true: there were any. */
static bool store_tokens(struct mr_publish *publish, uint64_t now_ns)
{
    bool any = false;
    for (const struct mr_mail *mail = publish->mail; mail; mail = mail->next) {
        if (mail->kind != MR_MAIL_DRAWN) continue;
        const struct mr_drawn_mail *drawn = (const struct mr_drawn_mail *)mail;
        struct mr_ticket *ticket = drawn->ticket;
        if (atomic_load(&ticket->dropped)) continue;
        mr_trail_keep(ticket->trail, drawn->index, update_readable(&ticket->publish),
                      &drawn->sample, now_ns);
        any = true;
    }
    return any;
}

static void observe_result(struct mr_publish *publish, const struct mr_result_mail *mail)
{
    double waited_ms = mail->ticket->waited_ms;
    mr_metrics_observe_result(publish->options.metrics, mail->ticket->topic_index, &mail->result,
                              waited_ms < 0 ? -1.0 : waited_ms + mail->result.first_token_ms);
}

static void handle_terminal(struct mr_publish *publish, struct mr_mail *mail, int64_t unix_ms)
{
    struct mr_ticket *ticket = mail->kind == MR_MAIL_RESULT
                                   ? ((struct mr_result_mail *)mail)->ticket
                                   : ((struct mr_refusal_mail *)mail)->ticket;
    mr_finisher_begin(&publish->finisher, ticket, mail, unix_ms);
    if (mail->kind == MR_MAIL_REFUSAL) publish->writer.stats.refusals++;
    if (mail->kind == MR_MAIL_RESULT && !atomic_load(&ticket->dropped))
        observe_result(publish, (const struct mr_result_mail *)mail);
}

/* Handles one message. False: the producer's queue has no space for its record. */
static bool handle(struct mr_publish *publish, struct mr_mail *mail, struct mr_time now)
{
    if (mail->kind == MR_MAIL_DRAWN) {
        const struct mr_drawn_mail *drawn = (const struct mr_drawn_mail *)mail;
        drawn->ticket->publish.generated = drawn->index + 1;
    } else if (mail->kind == MR_MAIL_TOKENS) {
        struct mr_tokens_mail *tokens = (struct mr_tokens_mail *)mail;
        if (!mr_writer_write_tokens(&publish->writer, tokens, now.ns)) return false;
    } else {
        handle_terminal(publish, mail, now.unix_ms);
        return true;
    }
    mr_mail_free(mail);
    return true;
}

static void take_mail(struct mr_publish *publish, uint64_t now_ns)
{
    publish->mail = mr_mailbox_take(publish->mailbox);
    if (publish->mail && publish->options.resume) publish->storing = store_tokens(publish, now_ns);
}

/* Handles messages until the mailbox is empty, tokens wait for Redis, or the producer's queue is
 * full. Returns when to call again; UINT64_MAX: when the wake rings. */
static uint64_t handle_mail(struct mr_publish *publish, struct mr_time now)
{
    uint64_t retry_ns = UINT64_MAX;
    for (;;) {
        if (!publish->mail) take_mail(publish, now.ns);
        if (!publish->mail) return UINT64_MAX;
        if (publish->storing &&
            mr_resume_poll(publish->options.resume, now.ns, &retry_ns) == MR_RESUME_PENDING)
            return retry_ns;
        publish->storing = false;
        while (publish->mail) {
            struct mr_mail *mail = publish->mail, *next = mail->next;
            if (!handle(publish, mail, now)) return UINT64_MAX;
            publish->mail = next;
        }
    }
}

/* ---- the step ---- */

static void show_stats(struct mr_publish *publish)
{
    publish->writer.stats.unreported = mr_writer_unreported(&publish->writer);
    pthread_mutex_lock(&publish->mutex);
    publish->stats = publish->writer.stats;
    pthread_mutex_unlock(&publish->mutex);
}

static void check_producer(struct mr_publish *publish, uint64_t now_ns)
{
    struct mr_error err = {0};
    const struct mr_producer_port *producer = &publish->writer.producer;
    if (now_ns < publish->checked_ns + SECOND_NS) return;
    publish->checked_ns = now_ns;
    if (producer->fatal(producer->self, &err) != MR_OK) mr_writer_fail(&publish->writer, &err);
}

static void end_draining(struct mr_publish *publish)
{
    publish->flushed =
        !publish->mail && mr_writer_is_flushed(&publish->writer) && !publish->finisher.oldest;
    atomic_store(&publish->is_drained, true);
    mr_wake_ring(&publish->drained);
}

static uint64_t earliest(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns < other_ns ? one_ns : other_ns;
}

uint64_t mr_publish_step(struct mr_publish *publish, struct mr_time now)
{
    if (atomic_load(&publish->is_drained)) return UINT64_MAX;
    bool draining = atomic_load(&publish->is_draining);
    mr_writer_serve(&publish->writer, now.ns);
    mr_writer_retry(&publish->writer, now.ns, !draining);
    uint64_t next_ns = earliest(now.ns + SECOND_NS, handle_mail(publish, now));
    mr_finisher_advance(&publish->finisher);
    check_producer(publish, now.ns);
    show_stats(publish);
    if (publish->finisher.held) next_ns = earliest(next_ns, now.ns + MR_FINISHER_HELD_NS);
    next_ns = earliest(next_ns, mr_writer_retry_ns(&publish->writer, now.ns, !draining));
    if (mr_writer_attend(&publish->writer, draining || publish->finisher.oldest)) next_ns = now.ns;
    if (!draining) return next_ns;
    bool done = !publish->mail && mr_writer_is_flushed(&publish->writer);
    if (done || now.ns >= publish->deadline_ns) end_draining(publish);
    return earliest(next_ns, publish->deadline_ns);
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_publish_step(state, now);
}

/* ---- other threads ---- */

enum mr_status mr_publish_create(struct mr_publish **out, const struct mr_publish_options *options,
                                 struct mr_error *err)
{
    *out = NULL;
    struct mr_publish *publish = calloc(1, sizeof *publish);
    if (!publish) return mr_fail(err, MR_NOMEM, "no memory for publish");
    publish->options = *options;
    publish->finisher = (struct mr_finisher){.writer = &publish->writer,
                                             .intake = options->intake,
                                             .exactly_once = options->exactly_once,
                                             .oldest_ms = options->oldest_ms};
    struct mr_writer_options writer = {.output = options->output,
                                       .log = options->log,
                                       .metrics = options->metrics,
                                       .failed = options->failed,
                                       .context = options->context};
    struct mr_mailbox_options mailbox = {MAIL_COUNT_MAX, MAIL_BYTES_MAX, &publish->wake};
    pthread_mutex_init(&publish->mutex, NULL);
    enum mr_status status = mr_wake_open(&publish->wake, err);
    if (status != MR_OK) goto fail_memory;
    status = mr_wake_open(&publish->drained, err);
    if (status != MR_OK) goto fail_wake;
    status = mr_mailbox_create(&publish->mailbox, &mailbox, err);
    if (status != MR_OK) goto fail_drained;
    status = mr_writer_open(&publish->writer, &writer, &options->producer, &publish->wake, err);
    if (status != MR_OK) goto fail_mailbox;
    if (options->resume) mr_resume_attach(options->resume, &publish->wake);
    *out = publish;
    return MR_OK;

fail_mailbox:
    mr_mailbox_destroy(publish->mailbox);
fail_drained:
    mr_wake_close(&publish->drained);
fail_wake:
    mr_wake_close(&publish->wake);
fail_memory:
    pthread_mutex_destroy(&publish->mutex);
    free(publish);
    return status;
}

enum mr_status mr_publish_start(struct mr_publish *publish, struct mr_error *err)
{
    struct mr_thread_options options = {.name = "publish",
                                        .step = step,
                                        .state = publish,
                                        .wake = &publish->wake,
                                        .heartbeats = publish->options.heartbeats,
                                        .step_max_ns = STEP_MAX_NS};
    return mr_thread_start(&publish->thread, &options, err);
}

struct mr_mailbox *mr_publish_mailbox(struct mr_publish *publish)
{
    return publish->mailbox;
}

const struct mr_wake *mr_publish_wake(const struct mr_publish *publish)
{
    return &publish->wake;
}

void mr_publish_drain(struct mr_publish *publish, uint64_t deadline_ns)
{
    publish->deadline_ns = deadline_ns;
    atomic_store(&publish->is_draining, true);
    mr_wake_ring(&publish->wake);
}

bool mr_publish_is_drained(const struct mr_publish *publish)
{
    return atomic_load(&publish->is_drained);
}

/* Frees the messages that were not handled before the deadline of draining, and returns the tickets
 * of refusals, which only publish has. */
static void free_mail(struct mr_publish *publish)
{
    for (struct mr_mail *mail = publish->mail, *next; mail; mail = next) {
        struct mr_ticket *ticket = NULL;
        next = mail->next;
        if (mail->kind == MR_MAIL_REFUSAL) ticket = ((struct mr_refusal_mail *)mail)->ticket;
        mr_mail_free(mail);
        if (!ticket) continue;
        ticket->done.kind = MR_MAIL_RETURNED;
        mr_mailbox_post_control(publish->options.intake, &ticket->done);
    }
    publish->mail = NULL;
}

bool mr_publish_destroy(struct mr_publish *publish, uint32_t timeout_ms)
{
    if (!publish) return true;
    if (publish->thread) {
        mr_publish_drain(publish, mr_clock_ns() + timeout_ms * (SECOND_NS / 1000));
        while (!mr_publish_is_drained(publish))
            mr_wake_wait(&publish->drained, UINT64_MAX);
        mr_thread_stop(publish->thread);
    } else {
        end_draining(publish);
    }
    bool flushed = publish->flushed;
    if (publish->options.resume) mr_resume_attach(publish->options.resume, NULL);
    free_mail(publish);
    publish->mail = mr_mailbox_take(publish->mailbox);
    free_mail(publish);
    mr_writer_close(&publish->writer);
    mr_finisher_return_refused(&publish->finisher);
    mr_mailbox_destroy(publish->mailbox);
    mr_wake_close(&publish->drained);
    mr_wake_close(&publish->wake);
    pthread_mutex_destroy(&publish->mutex);
    free(publish);
    return flushed;
}

struct mr_publish_stats mr_publish_stats(struct mr_publish *publish)
{
    pthread_mutex_lock(&publish->mutex);
    struct mr_publish_stats stats = publish->stats;
    pthread_mutex_unlock(&publish->mutex);
    return stats;
}
