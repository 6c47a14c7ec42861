#include "worker/remote_cache/redis_thread.h"

#include "codec/check.h"
#include "kvcache/remote/redis_measure.h"
#include "worker/base/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A step never blocks; a thread whose step takes longer than this is treated as stuck. */
#define STEP_MAX_NS ((uint64_t)60000000000)

/* most slices in flight: one is received while the next one is requested */
#define SLICES_MAX         2u
#define LOOKUPS_MAX        2048u /* most lookups in flight */
#define CLEANUP_TIMEOUT_NS ((uint64_t)1000000000)
#define IDLE_NS            ((uint64_t)1000000000) /* longest time between two calls of _step */
/* shortest time between two connections that are closed because Redis is a read-only replica */
#define RENEW_NS ((uint64_t)5000000000)
/* for this long the log does not report that a connection was closed for that reason */
#define RENEW_QUIET_NS ((uint64_t)2000000000)

/* The buffers for one slice in flight that is encrypted or digested. */
struct buffer {
    const struct mr_remote_slice *slice; /* the slice in flight; NULL: this buffer is free */
    void *sealed; /* [MR_SLICE_BYTES_MAX] encrypted payload; NULL: not allocated yet */
    struct mr_frame_digest *digest; /* NULL: not allocated yet */
};

struct mr_redis_thread {
    struct mr_redis_thread_options options;
    const struct mr_redis_port *port; /* points to options.port */
    struct mr_thread *thread;         /* NULL: _start was not called, the owner calls _step */
    struct mr_wake wake;
    struct mr_redis_calls *calls;
    struct mr_frame_keys keys;
    struct mr_remote_slice *slices; /* the slices that this thread has taken */
    uint32_t slice_count;
    struct buffer buffers[SLICES_MAX];
    struct mr_redis_measure measure;
    uint64_t now_ns; /* the time passed to the latest _step */
    bool was_ready, failure_logged, logged_ready;
    uint64_t read_only_ns; /* when Redis last refused a command as a read-only replica */
    uint64_t renewed_ns;   /* when the connection was last closed for that reason; 0: never */

    pthread_mutex_t mutex;
    struct mr_redis_client_stats stats; /* protected by the mutex */
    /* why a connection was closed most recently; protected by the mutex */
    char reason[MR_ERROR_DETAIL_BYTES];
    /* a password that the port does not have yet; both protected by the mutex */
    char password[MR_REDIS_SECRET_BYTES];
    bool password_changed;
};

/* ---- the commands of slices ---- */

static void add_slice(struct mr_redis_thread *thread, struct mr_remote_slice *slice)
{
    slice->next = thread->slices;
    thread->slices = slice;
    thread->slice_count++;
}

static void remove_slice(struct mr_redis_thread *thread, struct mr_remote_slice *slice)
{
    struct mr_remote_slice **link = &thread->slices;
    while (*link != slice)
        link = &(*link)->next;
    *link = slice->next;
    thread->slice_count--;
    for (uint32_t i = 0; i < SLICES_MAX; i++)
        if (thread->buffers[i].slice == slice) thread->buffers[i].slice = NULL;
}

/* Returns a free buffer for the slice; remove_slice frees it. NULL: all buffers are in use. */
static struct buffer *take_buffer(struct mr_redis_thread *thread,
                                  const struct mr_remote_slice *slice)
{
    for (uint32_t i = 0; i < SLICES_MAX; i++) {
        if (thread->buffers[i].slice) continue;
        thread->buffers[i].slice = slice;
        return &thread->buffers[i];
    }
    return NULL;
}

/* Memory for the encrypted payload of a slice; NULL: memory is out or all buffers
 * are in use. */
static void *take_sealed(struct mr_redis_thread *thread, const struct mr_remote_slice *slice)
{
    struct buffer *buffer = take_buffer(thread, slice);
    if (buffer && !buffer->sealed) buffer->sealed = malloc(MR_SLICE_BYTES_MAX);
    return buffer ? buffer->sealed : NULL;
}

static void add_to_digest(struct mr_redis_command *command, const void *bytes, size_t length)
{
    mr_frame_digest_add(((struct mr_remote_slice *)command->owner)->digest, bytes, length);
}

/* Prepares a GET. Without encryption the slice is digested while it is received, because its bytes
 * are in the CPU cache then. */
static void make_get(struct mr_redis_thread *thread, struct mr_remote_slice *slice,
                     const struct mr_redis_value *value)
{
    struct buffer *buffer = thread->keys.count == 0 ? take_buffer(thread, slice) : NULL;
    mr_redis_command_get(&slice->command, value);
    if (buffer && !buffer->digest) buffer->digest = mr_frame_digest_create();
    slice->digest = buffer ? buffer->digest : NULL;
    if (!slice->digest) return;
    mr_frame_digest_begin(slice->digest);
    slice->command.on_bytes = add_to_digest;
}

static struct mr_redis_value value_of(struct mr_remote_slice *slice, void *payload)
{
    return (struct mr_redis_value){.key = slice->key,
                                   .key_length = slice->key_length,
                                   .header = slice->header,
                                   .header_length = MR_FRAME_BYTES,
                                   .payload = payload,
                                   .length = slice->frame.length};
}

/* Prepares a SET. False: the payload cannot be encrypted, because memory or random bytes are
 * missing. */
static bool make_set(struct mr_redis_thread *thread, struct mr_remote_slice *slice)
{
    unsigned char nonce[MR_AES_NONCE_BYTES];
    struct mr_frame_order order = {
        .frame = slice->frame, .payload = slice->payload, .sealed = NULL, .nonce = nonce};
    void *payload = slice->payload;
    if (thread->keys.count) {
        payload = order.sealed = take_sealed(thread, slice);
        if (!payload || getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) return false;
    }
    mr_frame_write(&order, &thread->keys, slice->header);
    struct mr_redis_value value = value_of(slice, payload);
    mr_redis_command_set(&slice->command, &value, thread->options.ttl_s);
    return true;
}

static bool make_command(struct mr_redis_thread *thread, struct mr_remote_slice *slice,
                         uint64_t now_ns)
{
    struct mr_redis_value value = value_of(slice, slice->payload);
    uint64_t ttl_s = thread->options.ttl_s;
    bool good = true;
    switch (slice->step) {
    case MR_REMOTE_STEP_LOOKUP:
        mr_redis_command_word(&slice->command, "STRLEN", slice->key, slice->key_length);
        break;
    case MR_REMOTE_STEP_GET:
        make_get(thread, slice, &value);
        break;
    case MR_REMOTE_STEP_SET:
        good = make_set(thread, slice);
        break;
    case MR_REMOTE_STEP_CLEANUP:
        if (slice->damaged)
            mr_redis_command_word(&slice->command, "DEL", slice->key, slice->key_length);
        else
            mr_redis_command_expire(&slice->command, slice->key, slice->key_length, ttl_s);
        good = slice->damaged || ttl_s;
        break;
    }
    slice->command.owner = slice;
    slice->command.deadline_ns =
        slice->step == MR_REMOTE_STEP_CLEANUP ? now_ns + CLEANUP_TIMEOUT_NS : slice->deadline_ns;
    return good;
}

/* Sends the Redis command of a slice; ends the slice as failed if the command
 * cannot be sent. */
static void run_slice(struct mr_redis_thread *thread, struct mr_remote_slice *slice,
                      uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    for (;;) {
        add_slice(thread, slice);
        if (make_command(thread, slice, now_ns) && port->send(port->context, &slice->command))
            return;
        slice->unanswered = true;
        remove_slice(thread, slice);
        if (!mr_remote_queue_finish(thread->options.queue, slice, false, now_ns)) return;
    }
}

/* ---- the replies to slices ---- */

/* Whether Redis is likely to answer the next stores with the same error. */
static bool is_lasting(enum mr_redis_outcome outcome)
{
    return outcome == MR_REDIS_FULL || outcome == MR_REDIS_DENIED || outcome == MR_REDIS_READ_ONLY;
}

static bool verify(struct mr_redis_thread *thread, struct mr_remote_slice *slice)
{
    bool done = slice->command.outcome == MR_REDIS_DONE;
    enum mr_verdict verdict = MR_VERDICT_GOOD;
    if (done)
        verdict = mr_frame_read(slice->header, &slice->frame, slice->payload, &thread->keys,
                                slice->digest);
    else if (slice->command.outcome == MR_REDIS_WRONG_SIZE ||
             slice->command.outcome == MR_REDIS_WRONG_TYPE)
        verdict = MR_VERDICT_MISPLACED;
    if (verdict != MR_VERDICT_GOOD) mr_remote_queue_damaged(thread->options.queue, slice, verdict);
    return done && verdict == MR_VERDICT_GOOD;
}

/* Whether the Redis command of a slice succeeded. */
static bool is_good(struct mr_redis_thread *thread, struct mr_remote_slice *slice, uint64_t now_ns)
{
    const struct mr_redis_command *command = &slice->command;
    struct mr_log *log = thread->options.log;
    bool done = command->outcome == MR_REDIS_DONE;
    bool read_only = command->outcome == MR_REDIS_READ_ONLY;
    if (is_lasting(command->outcome) &&
        mr_remote_queue_refused(thread->options.queue, read_only, now_ns) && log)
        mr_log_warn(log, "Redis refuses KV blocks: %s", command->error);
    /* After a release the engine uses the memory, which verifying would decrypt in place. */
    if (slice->step == MR_REMOTE_STEP_GET) return !slice->released && verify(thread, slice);
    if (slice->step != MR_REMOTE_STEP_LOOKUP) return done;
    /* A key of another type is an answer: Redis lacks the slice, and SET replaces any type. */
    slice->unanswered = !done && command->outcome != MR_REDIS_WRONG_TYPE;
    return done && mr_redis_reply_integer(command->reply) ==
                       (int64_t)(MR_FRAME_BYTES + slice->frame.length);
}

static void finish_slice(struct mr_redis_thread *thread, struct mr_remote_slice *slice,
                         uint64_t now_ns)
{
    bool good = is_good(thread, slice, now_ns);
    mr_redis_command_end(&slice->command);
    remove_slice(thread, slice);
    if (mr_remote_queue_finish(thread->options.queue, slice, good, now_ns))
        run_slice(thread, slice, now_ns);
}

static void release_cancelled(struct mr_redis_thread *thread, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    for (struct mr_remote_slice *slice = thread->slices; slice; slice = slice->next) {
        if (!mr_remote_queue_is_cancelled(thread->options.queue, slice)) continue;
        if (slice->step != MR_REMOTE_STEP_LOOKUP)
            port->cancel(port->context, &slice->command, now_ns);
        mr_remote_queue_release(thread->options.queue, slice, now_ns);
    }
}

static void take_slices(struct mr_redis_thread *thread, uint64_t now_ns)
{
    uint32_t most = thread->options.index == 0 ? LOOKUPS_MAX : SLICES_MAX;
    while (thread->was_ready && thread->slice_count < most && !thread->measure.active) {
        struct mr_remote_slice *slice =
            mr_remote_queue_take(thread->options.queue, thread->options.index, now_ns);
        if (!slice) return;
        run_slice(thread, slice, now_ns);
    }
}

/* ---- step ---- */

static void finish_measure(struct mr_redis_thread *thread, uint64_t now_ns)
{
    struct mr_redis_measure *measure = &thread->measure;
    if (mr_redis_measure_finish(measure, thread->port, now_ns) && measure->bytes_per_second > 0)
        mr_remote_queue_measured(thread->options.queue, measure->bytes_per_second, now_ns);
}

static void collect(struct mr_redis_thread *thread, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    for (struct mr_redis_command *command; (command = port->take(port->context)) != NULL;) {
        if (command->outcome == MR_REDIS_READ_ONLY) thread->read_only_ns = now_ns;
        if (mr_redis_calls_finish(thread->calls, port, command)) continue;
        if (command == &thread->measure.command)
            finish_measure(thread, now_ns);
        else
            finish_slice(thread, command->owner, now_ns);
    }
}

/* Closes the connection to a server that has become a read-only replica. The port connects again,
 * and resolves the server's name again: after a failover that ended no connection it may lead to
 * the new master. A refusal that another thread received closes this connection too, unless this
 * thread has just connected again, because threads learn of one failover at different times. */
static void leave_replica(struct mr_redis_thread *thread, uint64_t now_ns)
{
    const uint64_t own_ns = thread->read_only_ns, renewed_ns = thread->renewed_ns;
    const uint64_t other_ns =
        thread->options.queue ? mr_remote_queue_read_only_ns(thread->options.queue) : 0;
    const uint64_t least_ns = renewed_ns ? renewed_ns + RENEW_NS : 0;
    if (!thread->was_ready || (own_ns <= renewed_ns && other_ns <= least_ns)) return;
    if (now_ns < least_ns) return;
    thread->renewed_ns = now_ns;
    thread->port->close(thread->port->context);
}

static void set_ready(struct mr_redis_thread *thread, bool ready, uint64_t now_ns)
{
    if (thread->options.queue && ready != thread->was_ready)
        mr_remote_queue_set_ready(thread->options.queue, thread->options.index, ready, now_ns);
}

/* Logs that Redis is connected or lost. Only thread 0 logs, for all threads of the queue. */
static void log_connection(struct mr_redis_thread *thread, bool ready, bool failed, uint64_t now_ns)
{
    struct mr_log *log = thread->options.log;
    if (!log || !thread->options.queue || thread->options.index > 0) return;
    if (thread->renewed_ns && now_ns - thread->renewed_ns < RENEW_QUIET_NS) return;
    if (ready && !thread->logged_ready) mr_log_info(log, "Redis is connected");
    if (!ready && (thread->logged_ready || failed))
        mr_log_warn(log, "Redis is not reachable: %s; KV blocks are computed instead of loaded",
                    thread->port->reason(thread->port->context));
    thread->logged_ready = ready;
}

static void publish_stats(struct mr_redis_thread *thread, const struct mr_redis_client_stats *stats)
{
    pthread_mutex_lock(&thread->mutex);
    thread->stats = *stats;
    snprintf(thread->reason, sizeof thread->reason, "%s",
             thread->port->reason(thread->port->context));
    pthread_mutex_unlock(&thread->mutex);
}

static void take_password(struct mr_redis_thread *thread)
{
    pthread_mutex_lock(&thread->mutex);
    if (thread->password_changed)
        thread->port->set_password(thread->port->context, thread->password);
    thread->password_changed = false;
    explicit_bzero(thread->password, sizeof thread->password);
    pthread_mutex_unlock(&thread->mutex);
}

/* Reports to the queue the number of bytes received, and whether the connection became ready or was
 * lost. */
static void observe_connection(struct mr_redis_thread *thread, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    struct mr_redis_client_stats stats = port->stats(port->context);
    bool ready = port->is_ready(port->context), became = ready && !thread->was_ready;
    bool failed = stats.failures && !thread->failure_logged;
    uint64_t bytes = stats.bytes.received_bytes - thread->stats.bytes.received_bytes;
    if (thread->options.queue && thread->options.index > 0 && bytes > 0)
        mr_remote_queue_receive(thread->options.queue, bytes, now_ns);
    set_ready(thread, ready, now_ns);
    log_connection(thread, ready, failed, now_ns);
    thread->failure_logged |= failed;
    thread->was_ready = ready;
    publish_stats(thread, &stats);
    if (became && thread->options.on_ready)
        thread->options.on_ready(thread->options.context, thread);
}

/* Starts a bandwidth measurement if one is due. Only thread 1 measures, and only while it has no
 * slice in flight. */
static void measure(struct mr_redis_thread *thread, uint64_t now_ns)
{
    if (thread->options.index == 1 && thread->was_ready && thread->slice_count == 0 &&
        mr_remote_queue_needs_measure(thread->options.queue, now_ns))
        mr_redis_measure_begin(&thread->measure, thread->port, now_ns);
}

/* Does one step's work for the queue. Returns when the next slice that no thread has taken reaches
 * its deadline. */
static uint64_t step_queue(struct mr_redis_thread *thread, uint64_t now_ns)
{
    struct mr_remote_queue *queue = thread->options.queue;
    uint64_t next_ns = UINT64_MAX;
    release_cancelled(thread, now_ns);
    measure(thread, now_ns);
    take_slices(thread, now_ns);
    if (thread->options.index == 0) next_ns = mr_remote_queue_expire(queue, now_ns);
    if (mr_remote_queue_take_answered(queue)) thread->options.notify(thread->options.context);
    return next_ns;
}

/* The port sends and receives at the end of a step, and the next step, which has a later now_ns,
 * takes the replies. So the measured time of a transfer includes receiving its last bytes. */
uint64_t mr_redis_thread_step(struct mr_redis_thread *thread, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    uint64_t next_ns = now_ns + IDLE_NS;
    thread->now_ns = now_ns;
    take_password(thread);
    collect(thread, now_ns);
    observe_connection(thread, now_ns);
    mr_redis_calls_send(thread->calls, port, now_ns);
    uint64_t expire_ns = thread->options.queue ? step_queue(thread, now_ns) : UINT64_MAX;
    leave_replica(thread, now_ns);
    port->step(port->context, now_ns);
    if (port->is_ready(port->context) != thread->was_ready) return now_ns;
    uint64_t port_ns = port->deadline_ns(port->context);
    if (expire_ns < next_ns) next_ns = expire_ns;
    return port_ns < next_ns ? port_ns : next_ns;
}

/* ---- life ---- */

static void free_thread(struct mr_redis_thread *thread)
{
    for (uint32_t i = 0; i < SLICES_MAX; i++) {
        free(thread->buffers[i].sealed);
        mr_frame_digest_destroy(thread->buffers[i].digest);
    }
    mr_redis_measure_end(&thread->measure);
    mr_frame_keys_clear(&thread->keys);
    thread->port->destroy(thread->port->context);
    mr_redis_calls_destroy(thread->calls);
    mr_wake_close(&thread->wake);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
}

static void wake(void *context)
{
    mr_wake_ring(&((struct mr_redis_thread *)context)->wake);
}

enum mr_status mr_redis_thread_create(struct mr_redis_thread **out,
                                      const struct mr_redis_thread_options *options,
                                      struct mr_error *err)
{
    *out = NULL;
    struct mr_redis_thread *thread = calloc(1, sizeof *thread);
    if (!thread) {
        options->port.destroy(options->port.context);
        return mr_fail(err, MR_NOMEM, "no memory for a Redis thread");
    }
    thread->options = *options;
    thread->options.secrets = NULL;
    thread->port = &thread->options.port;
    thread->wake.fd = -1;
    pthread_mutex_init(&thread->mutex, NULL);
    enum mr_status status = mr_wake_open(&thread->wake, err);
    if (status == MR_OK) status = mr_redis_calls_create(&thread->calls, &thread->wake, err);
    if (status == MR_OK)
        status = mr_frame_keys_add_all(&thread->keys, options->secrets, options->secret_count, err);
    if (status != MR_OK) {
        free_thread(thread);
        return status;
    }
    if (options->queue) mr_remote_queue_attach(options->queue, options->index, wake, thread);
    *out = thread;
    return MR_OK;
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_redis_thread_step(state, now.ns);
}

static size_t sockets(void *state, struct pollfd *fds, size_t max)
{
    const struct mr_redis_thread *thread = state;
    return thread->port->sockets(thread->port->context, fds, max);
}

enum mr_status mr_redis_thread_start(struct mr_redis_thread *thread, const char *name,
                                     struct mr_error *err)
{
    struct mr_thread_options loop = {.name = name,
                                     .step = step,
                                     .state = thread,
                                     .wake = &thread->wake,
                                     .sockets = sockets,
                                     .heartbeats = thread->options.heartbeats,
                                     .step_max_ns = STEP_MAX_NS};
    return mr_thread_start(&thread->thread, &loop, err);
}

bool mr_redis_thread_stop(struct mr_redis_thread *thread, uint32_t timeout_ms)
{
    if (!mr_thread_stop_within(thread->thread, timeout_ms)) return false;
    thread->thread = NULL;
    mr_redis_calls_close(thread->calls);
    thread->port->close(thread->port->context);
    collect(thread, thread->now_ns);
    set_ready(thread, false, thread->now_ns);
    thread->was_ready = false;
    mr_redis_calls_send(thread->calls, thread->port, thread->now_ns);
    MR_ASSERT(thread->slice_count == 0 && mr_redis_calls_in_flight(thread->calls) == 0);
    return true;
}

void mr_redis_thread_destroy(struct mr_redis_thread *thread)
{
    if (thread) free_thread(thread);
}

bool mr_redis_thread_call(struct mr_redis_thread *thread, const struct mr_redis_call *calls,
                          size_t count)
{
    return mr_redis_calls_post(thread->calls, calls, count);
}

void mr_redis_thread_set_password(struct mr_redis_thread *thread, const char *password)
{
    size_t length = strlen(password);
    MR_ASSERT(length < sizeof thread->password);
    pthread_mutex_lock(&thread->mutex);
    memcpy(thread->password, password, length + 1);
    thread->password_changed = true;
    pthread_mutex_unlock(&thread->mutex);
    mr_wake_ring(&thread->wake);
}

struct mr_redis_client_stats mr_redis_thread_stats(struct mr_redis_thread *thread, char *reason,
                                                   size_t reason_bytes)
{
    pthread_mutex_lock(&thread->mutex);
    struct mr_redis_client_stats stats = thread->stats;
    snprintf(reason, reason_bytes, "%s", thread->reason);
    pthread_mutex_unlock(&thread->mutex);
    return stats;
}
