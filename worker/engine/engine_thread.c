#include "worker/engine/engine_thread.h"

#include "codec/check.h"
#include "worker/base/clock.h"
#include "worker/base/slice.h"
#include "worker/engine/engine_setup.h"
#include "worker/redis/resume.h"
#include "worker/ticket/messages.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_NS ((uint64_t)2000000000)
#define SECOND_NS   ((uint64_t)1000000000)

struct mr_engine_thread {
    struct mr_engine_thread_options options;
    struct mr_engine_thread_links links;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t opened_changed;
    bool opened; /* under mutex: the attempt to open is over */
    enum mr_status open_status;
    struct mr_error open_error;

    struct mr_model *model;
    struct mr_engine *engine;
    uint32_t context_tokens;
    struct mr_mail_list outgoing; /* of the present step */
    uint64_t progress_ns;
    atomic_bool linked, draining, stopping, idle;
    atomic_uint_least64_t turns, turned_ns;
};

/* ---- what a step makes: the engine calls these from within mr_engine_step ---- */

static struct mr_ticket *ticket_of(uint64_t ticket)
{
    return (struct mr_ticket *)(uintptr_t)ticket;
}

static void on_started(void *context, uint64_t id)
{
    struct mr_engine_thread *thread = context;
    struct mr_ticket *ticket = ticket_of(id);
    if (ticket->trail)
        mr_trail_start(ticket->trail, ticket->attempt, ticket->kept_count, ticket->kept_shown,
                       mr_clock_ns());
    ticket->started.kind = MR_MAIL_STARTED;
    mr_mailbox_post_control(thread->links.intake, &ticket->started);
}

/* Out of memory for a message: the process ends and the request is delivered again. */
static void out_of_memory(struct mr_engine_thread *thread)
{
    struct mr_error err = {0};
    mr_fail(&err, MR_NOMEM, "no memory for an answer");
    thread->options.failed(thread->options.context, &err);
}

static void on_drawn(void *context, uint64_t id, uint32_t index, const struct mr_sample *sample)
{
    struct mr_engine_thread *thread = context;
    struct mr_ticket *ticket = ticket_of(id);
    if (!ticket->trail || !mr_trail_keeps(ticket->trail)) return;
    if (atomic_load_explicit(&ticket->dropped, memory_order_relaxed)) return;
    struct mr_drawn_mail *mail = mr_drawn_mail_create(ticket, index, sample);
    if (mail)
        mr_mail_list_add(&thread->outgoing, &mail->mail);
    else
        out_of_memory(thread);
}

static void on_delta(void *context, uint64_t id, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    struct mr_engine_thread *thread = context;
    struct mr_ticket *ticket = ticket_of(id);
    if (!request->stream || atomic_load_explicit(&ticket->dropped, memory_order_relaxed)) return;
    struct mr_tokens_mail *mail = mr_tokens_mail_create(ticket, record, mr_clock_ns());
    if (mail)
        mr_mail_list_add(&thread->outgoing, &mail->mail);
    else
        out_of_memory(thread);
}

static void on_result(void *context, uint64_t id, struct mr_request *request,
                      const struct mr_result *result)
{
    struct mr_engine_thread *thread = context;
    struct mr_result_mail *mail =
        mr_result_mail_create(ticket_of(id), request, result, mr_clock_ns());
    if (mail) {
        mr_mail_list_add(&thread->outgoing, &mail->mail);
        return;
    }
    mr_request_destroy(request);
    out_of_memory(thread);
}

static void on_returned(void *context, uint64_t id, struct mr_request *request)
{
    struct mr_engine_thread *thread = context;
    struct mr_ticket *ticket = ticket_of(id);
    ticket->intake.request = request;
    ticket->done.kind = MR_MAIL_RETURNED;
    mr_mailbox_post_control(thread->links.intake, &ticket->done);
}

/* ---- opening ---- */

static void on_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct mr_engine_thread *thread = context;
    uint64_t now_ns = mr_clock_ns();
    if (now_ns - thread->progress_ns < PROGRESS_NS || total_bytes == 0) return;
    thread->progress_ns = now_ns;
    mr_log_info(thread->options.log, "loading model: %u %%",
                (unsigned)(done_bytes * 100 / total_bytes));
}

static enum mr_status open_all(struct mr_engine_thread *thread, struct mr_error *err)
{
    const struct mr_config *config = thread->options.config;
    struct mr_sink sink = {.context = thread,
                           .drawn = on_drawn,
                           .delta = on_delta,
                           .result = on_result,
                           .started = on_started};
    thread->progress_ns = mr_clock_ns();
    enum mr_status status = mr_engine_setup_model(config, on_progress, thread, &thread->model, err);
    if (status != MR_OK) return status;
    thread->context_tokens = mr_engine_setup_context(config, mr_model_info(thread->model));
    return mr_engine_setup_engine(config, thread->model, &sink, thread->options.tier,
                                  &thread->engine, err);
}

static void tell_opened(struct mr_engine_thread *thread, enum mr_status status)
{
    pthread_mutex_lock(&thread->mutex);
    thread->opened = true;
    thread->open_status = status;
    pthread_cond_broadcast(&thread->opened_changed);
    pthread_mutex_unlock(&thread->mutex);
}

/* ---- the wheel ---- */

static void turned(struct mr_engine_thread *thread)
{
    atomic_fetch_add(&thread->turns, 1);
    atomic_store(&thread->turned_ns, mr_clock_ns());
}

/* Posts what the step made. A full mailbox makes the engine wait, still alive. */
static void post_outgoing(struct mr_engine_thread *thread)
{
    if (thread->outgoing.count == 0) return;
    while (mr_mailbox_post_list(thread->links.publish, &thread->outgoing, SECOND_NS) ==
           MR_TIMEOUT) {
        turned(thread);
        if (atomic_load(&thread->stopping)) break;
    }
    for (struct mr_mail *mail = thread->outgoing.first, *next; mail; mail = next) {
        next = mail->next;
        mr_mail_free(mail);
    }
    thread->outgoing = (struct mr_mail_list){0};
}

static void feed_intake(struct mr_engine_thread *thread)
{
    uint64_t hungry = atomic_load(thread->links.hungry);
    if (hungry == 0 || (hungry & mr_engine_room(thread->engine)) == 0) return;
    if (atomic_exchange(thread->links.hungry, 0) != 0) mr_wake_ring(thread->links.intake_wake);
}

static void sleep_until(struct mr_engine_thread *thread, uint64_t wake_ns)
{
    atomic_store(&thread->idle, true);
    mr_engine_wait(thread->engine, wake_ns);
    atomic_store(&thread->idle, false);
}

/* A server without work makes the memory ready that it will work with. */
static bool populates(struct mr_engine_thread *thread)
{
    return thread->options.config->command == MR_COMMAND_SERVE &&
           mr_model_kv_populate(thread->model);
}

static enum mr_status turn(struct mr_engine_thread *thread, struct mr_error *err)
{
    uint64_t wake_ns = 0, now_ns = mr_clock_ns();
    if (atomic_exchange(&thread->draining, false))
        mr_engine_return_waiting(thread->engine, on_returned, thread);
    enum mr_status status = mr_engine_step(thread->engine, now_ns, &wake_ns, err);
    post_outgoing(thread);
    if (status != MR_OK) return status;
    turned(thread);
    feed_intake(thread);
    bool idle = wake_ns > mr_clock_ns() && !atomic_load(&thread->stopping);
    if (idle && !populates(thread)) sleep_until(thread, wake_ns);
    return MR_OK;
}

static void *run(void *argument)
{
    struct mr_engine_thread *thread = argument;
    struct mr_error err = {0};
    mr_slice_usual();
    enum mr_status status = open_all(thread, &thread->open_error);
    tell_opened(thread, status);
    while (status == MR_OK && !atomic_load(&thread->stopping)) {
        if (!atomic_load(&thread->linked)) {
            if (populates(thread)) continue;
            mr_engine_wait(thread->engine, mr_clock_ns() + SECOND_NS);
            continue;
        }
        status = turn(thread, &err);
        if (status != MR_OK) thread->options.failed(thread->options.context, &err);
    }
    return NULL;
}

/* ---- other threads ---- */

enum mr_status mr_engine_thread_create(struct mr_engine_thread **out,
                                       const struct mr_engine_thread_options *options,
                                       struct mr_error *err)
{
    *out = NULL;
    struct mr_engine_thread *thread = calloc(1, sizeof *thread);
    if (!thread) return mr_fail(err, MR_NOMEM, "no memory for the engine thread");
    thread->options = *options;
    pthread_mutex_init(&thread->mutex, NULL);
    pthread_cond_init(&thread->opened_changed, NULL);
    if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
        pthread_cond_destroy(&thread->opened_changed);
        pthread_mutex_destroy(&thread->mutex);
        free(thread);
        return mr_fail(err, MR_NOMEM, "no thread for the engine");
    }
    pthread_setname_np(thread->thread, "engine");
    *out = thread;
    return MR_OK;
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

void mr_engine_thread_link(struct mr_engine_thread *thread,
                           const struct mr_engine_thread_links *links)
{
    MR_ASSERT(!atomic_load(&thread->linked));
    thread->links = *links;
    atomic_store(&thread->linked, true);
    mr_engine_wake(thread->engine);
}

struct mr_engine *mr_engine_thread_engine(struct mr_engine_thread *thread)
{
    return thread->engine;
}

const struct mr_model_info *mr_engine_thread_model(const struct mr_engine_thread *thread)
{
    return mr_model_info(thread->model);
}

const struct mr_tokenizer *mr_engine_thread_tokenizer(const struct mr_engine_thread *thread)
{
    return mr_model_tokenizer(thread->model);
}

uint32_t mr_engine_thread_context_tokens(const struct mr_engine_thread *thread)
{
    return thread->context_tokens;
}

struct mr_engine_thread_stats mr_engine_thread_stats(struct mr_engine_thread *thread)
{
    return (struct mr_engine_thread_stats){.engine = mr_engine_stats(thread->engine),
                                           .turns = atomic_load(&thread->turns),
                                           .turned_ns = atomic_load(&thread->turned_ns),
                                           .idle = atomic_load(&thread->idle)};
}

void mr_engine_thread_drain(struct mr_engine_thread *thread)
{
    atomic_store(&thread->draining, true);
    mr_engine_wake(thread->engine);
}

void mr_engine_thread_destroy(struct mr_engine_thread *thread)
{
    if (!thread) return;
    atomic_store(&thread->stopping, true);
    mr_engine_thread_wait_ready(thread, NULL);
    if (thread->open_status == MR_OK) mr_engine_wake(thread->engine);
    pthread_join(thread->thread, NULL);
    mr_engine_destroy(thread->engine); /* not by the thread: it may end before it is woken */
    mr_model_close(thread->model);
    pthread_cond_destroy(&thread->opened_changed);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
}
