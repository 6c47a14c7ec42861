#include "worker/engine/engine_thread.h"

#include "codec/check.h"
#include "worker/base/thread.h"
#include "worker/resume/resume.h"
#include "worker/ticket/messages.h"
#include "worker/ticket/ticket_trace.h"

#include <pthread.h>
#include <stdlib.h>

#define SECOND_NS ((uint64_t)1000000000)

enum phase { PHASE_OPENING, PHASE_UNLINKED, PHASE_RUNNING, PHASE_FAILED };

struct mr_engine_thread {
    struct mr_engine_thread_options options;
    struct mr_engine_thread_links links;
    struct mr_wake wake;
    struct mr_thread *thread; /* NULL: mr_engine_thread_step is called by a simulation */
    enum phase phase;         /* used only by the step */
    struct mr_engine_parts parts;
    /* messages made by the last step that publish's mailbox has no space for yet */
    struct mr_mail_list outgoing;
    struct mr_error error; /* a message of the current step could not be made */
    atomic_bool linked, draining, idle;
    atomic_uint_least64_t steps, step_ns;
    /* tenants for which intake waits to submit: see set_wanted of struct mr_engine_port */
    atomic_uint_least64_t wanted;

    pthread_mutex_t mutex;
    pthread_cond_t opened_changed;
    /* under mutex: opening has ended, in success or failure; the two fields below are set before */
    bool opened;
    enum mr_status open_status;
    struct mr_error open_error;
};

static uint64_t read_clock(const struct mr_engine_thread *thread)
{
    return thread->options.source.clock_ns(thread->options.source.self);
}

/* ---- output of a step: the engine calls these from within mr_engine_step ---- */

static struct mr_ticket *ticket_of(uint64_t ticket)
{
    return (struct mr_ticket *)(uintptr_t)ticket;
}

/* Sends intake one message to record the start, and answers false until intake has recorded it. */
static bool may_start(void *context, uint64_t id)
{
    struct mr_engine_thread *thread = context;
    struct mr_ticket *ticket = ticket_of(id);
    if (atomic_load(&ticket->may_start)) return true;
    if (ticket->start_asked) return false;
    ticket->start_asked = true;
    ticket->starting.kind = MR_MAIL_STARTING;
    mr_mailbox_post_control(thread->links.intake, &ticket->starting);
    return false;
}

/* Without memory for a message the thread fails after this step, and the step's later messages are
 * dropped: a token record after a missing one would be a gap. Kafka delivers the requests again. */
static void add_outgoing(struct mr_engine_thread *thread, struct mr_mail *mail)
{
    if (!mail) mr_fail(&thread->error, MR_NOMEM, "no memory for a message to publish");
    if (thread->error.status == MR_OK)
        mr_mail_list_add(&thread->outgoing, mail);
    else
        mr_mail_free(mail);
}

static void on_drawn(void *context, uint64_t id, uint32_t index, const struct mr_sample *sample)
{
    struct mr_ticket *ticket = ticket_of(id);
    if (!ticket->trail || !mr_trail_keeps(ticket->trail)) return;
    if (atomic_load_explicit(&ticket->dropped, memory_order_relaxed)) return;
    struct mr_drawn_mail *mail = mr_drawn_mail_create(ticket, index, sample);
    add_outgoing(context, mail ? &mail->mail : NULL);
}

static void on_delta(void *context, uint64_t id, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    struct mr_ticket *ticket = ticket_of(id);
    if (!request->stream || atomic_load_explicit(&ticket->dropped, memory_order_relaxed)) return;
    struct mr_tokens_mail *mail = mr_tokens_mail_create(ticket, record, read_clock(context));
    if (mail) mail->rules = mr_message_rules_of(request);
    add_outgoing(context, mail ? &mail->mail : NULL);
}

static void on_result(void *context, uint64_t id, struct mr_request *request,
                      const struct mr_result *result)
{
    struct mr_result_mail *mail =
        mr_result_mail_create(ticket_of(id), request, result, read_clock(context));
    add_outgoing(context, mail ? &mail->mail : NULL);
    if (!mail) mr_request_destroy(request);
}

static void on_chunk(void *context, uint64_t id, const struct mr_chunk *chunk)
{
    (void)context;
    mr_ticket_trace_chunk(ticket_of(id), chunk);
}

static void on_returned(void *context, uint64_t id, struct mr_request *request)
{
    struct mr_engine_thread *thread = context;
    struct mr_ticket *ticket = ticket_of(id);
    ticket->intake.request = request;
    ticket->done.kind = MR_MAIL_RETURNED;
    mr_mailbox_post_control(thread->links.intake, &ticket->done);
}

static void on_wake(void *context)
{
    mr_engine_thread_wake(context);
}

/* ---- the phases: each returns when the step is due again, 0 for at once ---- */

static uint64_t open_engine(struct mr_engine_thread *thread)
{
    const struct mr_engine_source *source = &thread->options.source;
    struct mr_engine_user user = {.sink = {.context = thread,
                                           .drawn = on_drawn,
                                           .delta = on_delta,
                                           .result = on_result,
                                           .chunk = on_chunk,
                                           .may_start = may_start},
                                  .wake = on_wake,
                                  .context = thread};
    thread->open_status = source->open(source->self, &user, &thread->parts, &thread->open_error);
    thread->phase = thread->open_status == MR_OK ? PHASE_UNLINKED : PHASE_FAILED;
    pthread_mutex_lock(&thread->mutex);
    thread->opened = true;
    pthread_cond_broadcast(&thread->opened_changed);
    pthread_mutex_unlock(&thread->mutex);
    return 0;
}

static bool populate(struct mr_engine_thread *thread)
{
    return thread->options.source.populate(thread->options.source.self);
}

static uint64_t wait_for_links(struct mr_engine_thread *thread)
{
    if (atomic_load(&thread->linked)) {
        thread->phase = PHASE_RUNNING;
        return 0;
    }
    return populate(thread) ? 0 : UINT64_MAX;
}

static void free_outgoing(struct mr_engine_thread *thread)
{
    for (struct mr_mail *mail = thread->outgoing.first, *next; mail; mail = next) {
        next = mail->next;
        mr_mail_free(mail);
    }
    thread->outgoing = (struct mr_mail_list){0};
}

/* Posts the messages of the last step to publish. False: publish's mailbox has no space and will
 * wake this thread when there is space. */
static bool post_outgoing(struct mr_engine_thread *thread)
{
    if (thread->outgoing.count == 0) return true;
    enum mr_status status =
        mr_mailbox_post_list(thread->links.publish, &thread->outgoing, &thread->wake);
    if (status == MR_FULL) return false;
    free_outgoing(thread); /* frees nothing unless the mailbox is closed */
    return true;
}

static void ring_wanted(struct mr_engine_thread *thread)
{
    uint64_t wanted = atomic_load(&thread->wanted);
    if (wanted == 0 || (wanted & mr_engine_room(thread->parts.engine)) == 0) return;
    if (atomic_exchange(&thread->wanted, 0) != 0) mr_wake_ring(thread->links.intake_wake);
}

static void note_step(struct mr_engine_thread *thread)
{
    atomic_fetch_add(&thread->steps, 1);
    atomic_store(&thread->step_ns, read_clock(thread));
}

static uint64_t fail(struct mr_engine_thread *thread, const struct mr_error *err)
{
    thread->phase = PHASE_FAILED;
    thread->options.failed(thread->options.context, err);
    return UINT64_MAX;
}

static uint64_t run(struct mr_engine_thread *thread, struct mr_time now)
{
    struct mr_error err = {0};
    uint64_t wake_ns = 0;
    if (!post_outgoing(thread)) {
        note_step(thread);
        return now.ns + SECOND_NS;
    }
    if (atomic_exchange(&thread->draining, false))
        mr_engine_return_waiting(thread->parts.engine, on_returned, thread);
    enum mr_status status = mr_engine_step(thread->parts.engine, now.ns, &wake_ns, &err);
    bool posted = post_outgoing(thread);
    if (status != MR_OK && thread->links.step_failed) atomic_store(thread->links.step_failed, true);
    if (status != MR_OK) return fail(thread, &err);
    if (thread->error.status != MR_OK) return fail(thread, &thread->error);
    note_step(thread);
    ring_wanted(thread);
    if (!posted) return now.ns + SECOND_NS;
    if (wake_ns <= now.ns || populate(thread)) return 0;
    atomic_store(&thread->idle, true);
    return wake_ns;
}

uint64_t mr_engine_thread_step(struct mr_engine_thread *thread, struct mr_time now)
{
    atomic_store(&thread->idle, false);
    switch (thread->phase) {
    case PHASE_OPENING:
        return open_engine(thread);
    case PHASE_UNLINKED:
        return wait_for_links(thread);
    case PHASE_RUNNING:
        return run(thread, now);
    default:
        return UINT64_MAX;
    }
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_engine_thread_step(state, now);
}

/* ---- other threads ---- */

enum mr_status mr_engine_thread_create(struct mr_engine_thread **out,
                                       const struct mr_engine_thread_options *options,
                                       struct mr_error *err)
{
    *out = NULL;
    struct mr_engine_thread *thread = calloc(1, sizeof *thread);
    if (!thread) return mr_fail(err, MR_NOMEM, "no memory for the engine thread");
    enum mr_status status = mr_wake_open(&thread->wake, err);
    if (status != MR_OK) {
        free(thread);
        return status;
    }
    thread->options = *options;
    pthread_mutex_init(&thread->mutex, NULL);
    pthread_cond_init(&thread->opened_changed, NULL);
    *out = thread;
    return MR_OK;
}

enum mr_status mr_engine_thread_start(struct mr_engine_thread *thread, struct mr_error *err)
{
    struct mr_thread_options options = {
        .name = "engine", .step = step, .state = thread, .wake = &thread->wake, .computes = true};
    return mr_thread_start(&thread->thread, &options, err);
}

const struct mr_wake *mr_engine_thread_step_wake(const struct mr_engine_thread *thread)
{
    return &thread->wake;
}

enum mr_status mr_engine_thread_wait_ready(struct mr_engine_thread *thread, struct mr_error *err)
{
    pthread_mutex_lock(&thread->mutex);
    while (!thread->opened)
        pthread_cond_wait(&thread->opened_changed, &thread->mutex);
    pthread_mutex_unlock(&thread->mutex);
    if (thread->open_status != MR_OK && err) *err = thread->open_error;
    return thread->open_status;
}

bool mr_engine_thread_has_failed(struct mr_engine_thread *thread)
{
    pthread_mutex_lock(&thread->mutex);
    bool failed = thread->opened && thread->open_status != MR_OK;
    pthread_mutex_unlock(&thread->mutex);
    return failed;
}

void mr_engine_thread_link(struct mr_engine_thread *thread,
                           const struct mr_engine_thread_links *links)
{
    MR_ASSERT(!atomic_load(&thread->linked));
    thread->links = *links;
    atomic_store(&thread->linked, true);
    mr_engine_thread_wake(thread);
}

static enum mr_status port_submit(void *self, const struct mr_submission *submission,
                                  struct mr_error *err)
{
    return mr_engine_submit(((struct mr_engine_thread *)self)->parts.engine, submission, err);
}

static bool port_cancel(void *self, uint32_t tenant_index, struct mr_text id)
{
    return mr_engine_cancel(((struct mr_engine_thread *)self)->parts.engine, tenant_index, id);
}

static uint64_t port_room(void *self)
{
    return mr_engine_room(((struct mr_engine_thread *)self)->parts.engine);
}

static void port_set_wanted(void *self, uint64_t tenants)
{
    atomic_fetch_or(&((struct mr_engine_thread *)self)->wanted, tenants);
}

static void port_wake(void *self)
{
    mr_engine_thread_wake(self);
}

struct mr_engine_port mr_engine_thread_port(struct mr_engine_thread *thread)
{
    return (struct mr_engine_port){.self = thread,
                                   .submit = port_submit,
                                   .cancel = port_cancel,
                                   .room = port_room,
                                   .set_wanted = port_set_wanted,
                                   .wake = port_wake};
}

const struct mr_model_info *mr_engine_thread_model(const struct mr_engine_thread *thread)
{
    return thread->parts.model;
}

const struct mr_tokenizer *mr_engine_thread_tokenizer(const struct mr_engine_thread *thread)
{
    return thread->parts.tokenizer;
}

uint32_t mr_engine_thread_context_tokens(const struct mr_engine_thread *thread)
{
    return thread->parts.context_tokens;
}

struct mr_engine_thread_stats mr_engine_thread_stats(struct mr_engine_thread *thread)
{
    return (struct mr_engine_thread_stats){.engine = mr_engine_stats(thread->parts.engine),
                                           .steps = atomic_load(&thread->steps),
                                           .step_ns = atomic_load(&thread->step_ns),
                                           .idle = atomic_load(&thread->idle)};
}

void mr_engine_thread_wake(struct mr_engine_thread *thread)
{
    mr_wake_ring(&thread->wake);
}

void mr_engine_thread_drain(struct mr_engine_thread *thread)
{
    atomic_store(&thread->draining, true);
    mr_engine_thread_wake(thread);
}

void mr_engine_thread_stop(struct mr_engine_thread *thread)
{
    if (!thread) return;
    mr_thread_stop(thread->thread);
    thread->thread = NULL;
    if (thread->links.publish) mr_mailbox_forget_room(thread->links.publish, &thread->wake);
    thread->links.publish = NULL;
    free_outgoing(thread);
}

void mr_engine_thread_destroy(struct mr_engine_thread *thread)
{
    if (!thread) return;
    mr_engine_thread_stop(thread);
    thread->options.source.close(thread->options.source.self);
    mr_wake_close(&thread->wake);
    pthread_cond_destroy(&thread->opened_changed);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
}
