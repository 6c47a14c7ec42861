#include "worker/remote_cache/tier_thread.h"

#include "codec/check.h"
#include "worker/base/thread.h"
#include "worker/remote_cache/tier_measure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Longest time of one step: it waits for a name server at most. */
#define STEP_MAX_NS ((uint64_t)120000000000)

/* most values in flight: one is received while the next one is requested */
#define VALUES_MAX         2u
#define LOOKUPS_MAX        2048u /* most lookups in flight */
#define CLEANUP_TIMEOUT_NS ((uint64_t)1000000000)
#define IDLE_NS            ((uint64_t)1000000000) /* longest time between two calls of _step */
/* shortest time between two connections that are closed because Redis is a read-only replica */
#define RENEW_NS ((uint64_t)5000000000)
/* for this long a connection that was closed for that reason counts as connected in the log */
#define RENEW_QUIET_NS ((uint64_t)2000000000)

/* The buffers for one value in flight that may be encrypted or digested. */
struct buffer {
    const struct mr_tier_part *part; /* the value in flight; NULL: this buffer is free */
    void *sealed; /* [MR_SLICE_BYTES_MAX] encrypted payload; NULL: not allocated yet */
    struct mr_frame_digest *digest; /* NULL: not allocated yet */
};

struct mr_tier_thread {
    struct mr_tier_thread_options options;
    const struct mr_redis_port *port; /* points to options.port */
    struct mr_thread *thread;         /* NULL: _start was not called, the owner calls _step */
    struct mr_wake wake;
    struct mr_redis_calls *calls;
    struct mr_frame_keys keys;
    struct mr_tier_part *parts; /* the parts (Redis values) that this thread has taken */
    uint32_t part_count;
    struct buffer buffers[VALUES_MAX];
    struct mr_tier_measure measure;
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

/* ---- the commands of parts ---- */

static void add_part(struct mr_tier_thread *thread, struct mr_tier_part *part)
{
    part->next = thread->parts;
    thread->parts = part;
    thread->part_count++;
}

static void remove_part(struct mr_tier_thread *thread, struct mr_tier_part *part)
{
    struct mr_tier_part **link = &thread->parts;
    while (*link != part)
        link = &(*link)->next;
    *link = part->next;
    thread->part_count--;
    for (uint32_t i = 0; i < VALUES_MAX; i++)
        if (thread->buffers[i].part == part) thread->buffers[i].part = NULL;
}

/* Returns a free buffer for the part (a Redis value in flight); remove_part frees the buffer; NULL:
 * all buffers are in use. */
static struct buffer *take_buffer(struct mr_tier_thread *thread, const struct mr_tier_part *part)
{
    for (uint32_t i = 0; i < VALUES_MAX; i++) {
        if (thread->buffers[i].part) continue;
        thread->buffers[i].part = part;
        return &thread->buffers[i];
    }
    return NULL;
}

/* Memory for the encrypted payload of a part (one Redis value); NULL: memory is out or all buffers
 * are in use. */
static void *take_sealed(struct mr_tier_thread *thread, const struct mr_tier_part *part)
{
    struct buffer *buffer = take_buffer(thread, part);
    if (buffer && !buffer->sealed) buffer->sealed = malloc(MR_SLICE_BYTES_MAX);
    return buffer ? buffer->sealed : NULL;
}

static void add_to_digest(struct mr_redis_op *op, const void *bytes, size_t length)
{
    mr_frame_digest_add(((struct mr_tier_part *)op->owner)->digest, bytes, length);
}

/* Prepares a GET. Without encryption the value is digested while it is received, because its bytes
 * are in the CPU cache then. */
static void make_get(struct mr_tier_thread *thread, struct mr_tier_part *part,
                     const struct mr_redis_value *value)
{
    struct buffer *buffer = thread->keys.count == 0 ? take_buffer(thread, part) : NULL;
    mr_redis_op_get(&part->op, value);
    if (buffer && !buffer->digest) buffer->digest = mr_frame_digest_create();
    part->digest = buffer ? buffer->digest : NULL;
    if (!part->digest) return;
    mr_frame_digest_begin(part->digest);
    part->op.on_bytes = add_to_digest;
}

static struct mr_redis_value value_of(struct mr_tier_part *part, void *payload)
{
    return (struct mr_redis_value){.key = part->key,
                                   .key_length = part->key_length,
                                   .header = part->header,
                                   .header_length = MR_FRAME_BYTES,
                                   .payload = payload,
                                   .length = part->frame.length};
}

/* Prepares a SET. False: the payload cannot be encrypted, because memory or random bytes are
 * missing. */
static bool make_set(struct mr_tier_thread *thread, struct mr_tier_part *part)
{
    unsigned char nonce[MR_AES_NONCE_BYTES];
    struct mr_frame_order order = {
        .frame = part->frame, .payload = part->payload, .sealed = NULL, .nonce = nonce};
    void *payload = part->payload;
    if (thread->keys.count) {
        payload = order.sealed = take_sealed(thread, part);
        if (!payload || getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) return false;
    }
    mr_frame_write(&order, &thread->keys, part->header);
    struct mr_redis_value value = value_of(part, payload);
    mr_redis_op_set(&part->op, &value, thread->options.ttl_s);
    return true;
}

static bool make_op(struct mr_tier_thread *thread, struct mr_tier_part *part, uint64_t now_ns)
{
    struct mr_redis_value value = value_of(part, part->payload);
    uint64_t ttl_s = thread->options.ttl_s;
    bool good = true;
    switch (part->step) {
    case MR_TIER_STEP_LOOKUP:
        mr_redis_op_word(&part->op, "STRLEN", part->key, part->key_length);
        break;
    case MR_TIER_STEP_GET:
        make_get(thread, part, &value);
        break;
    case MR_TIER_STEP_SET:
        good = make_set(thread, part);
        break;
    case MR_TIER_STEP_CLEANUP:
        if (part->damaged)
            mr_redis_op_word(&part->op, "DEL", part->key, part->key_length);
        else
            mr_redis_op_expire(&part->op, part->key, part->key_length, ttl_s);
        good = part->damaged || ttl_s;
        break;
    }
    part->op.owner = part;
    part->op.deadline_ns =
        part->step == MR_TIER_STEP_CLEANUP ? now_ns + CLEANUP_TIMEOUT_NS : part->deadline_ns;
    return good;
}

/* Sends the Redis command of a part (one Redis value); ends the part as failed if the command
 * cannot be sent. */
static void run_part(struct mr_tier_thread *thread, struct mr_tier_part *part, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    for (;;) {
        add_part(thread, part);
        if (make_op(thread, part, now_ns) && port->send(port->context, &part->op)) return;
        part->unanswered = true;
        remove_part(thread, part);
        if (!mr_tier_queue_finish(thread->options.queue, part, false, now_ns)) return;
    }
}

/* ---- the replies to parts ---- */

/* Whether Redis is likely to answer the next stores with the same error. */
static bool is_lasting(enum mr_redis_outcome outcome)
{
    return outcome == MR_REDIS_FULL || outcome == MR_REDIS_DENIED || outcome == MR_REDIS_READ_ONLY;
}

static bool verify(struct mr_tier_thread *thread, struct mr_tier_part *part)
{
    bool done = part->op.outcome == MR_REDIS_DONE;
    enum mr_verdict verdict = MR_VERDICT_GOOD;
    if (done)
        verdict =
            mr_frame_read(part->header, &part->frame, part->payload, &thread->keys, part->digest);
    else if (part->op.outcome == MR_REDIS_WRONG_SIZE)
        verdict = MR_VERDICT_MISPLACED;
    if (verdict != MR_VERDICT_GOOD) mr_tier_queue_damaged(thread->options.queue, part, verdict);
    return done && verdict == MR_VERDICT_GOOD;
}

/* Whether the Redis command of a part (one Redis value) succeeded. */
static bool is_good(struct mr_tier_thread *thread, struct mr_tier_part *part, uint64_t now_ns)
{
    const struct mr_redis_op *op = &part->op;
    struct mr_log *log = thread->options.log;
    bool done = op->outcome == MR_REDIS_DONE;
    bool read_only = op->outcome == MR_REDIS_READ_ONLY;
    if (is_lasting(op->outcome) &&
        mr_tier_queue_refused(thread->options.queue, read_only, now_ns) && log)
        mr_log_warn(log, "Redis refuses KV blocks: %s", op->error);
    /* After a release the engine uses the memory, which verifying would decrypt in place. */
    if (part->step == MR_TIER_STEP_GET) return !part->released && verify(thread, part);
    if (part->step != MR_TIER_STEP_LOOKUP) return done;
    part->unanswered = !done;
    return done &&
           mr_redis_reply_integer(op->reply) == (int64_t)(MR_FRAME_BYTES + part->frame.length);
}

static void finish_part(struct mr_tier_thread *thread, struct mr_tier_part *part, uint64_t now_ns)
{
    bool good = is_good(thread, part, now_ns);
    mr_redis_op_end(&part->op);
    remove_part(thread, part);
    if (mr_tier_queue_finish(thread->options.queue, part, good, now_ns))
        run_part(thread, part, now_ns);
}

static void release_cancelled(struct mr_tier_thread *thread, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    for (struct mr_tier_part *part = thread->parts; part; part = part->next) {
        if (!mr_tier_queue_is_cancelled(thread->options.queue, part)) continue;
        if (part->step != MR_TIER_STEP_LOOKUP) port->cancel(port->context, &part->op, now_ns);
        mr_tier_queue_release(thread->options.queue, part, now_ns);
    }
}

static void take_parts(struct mr_tier_thread *thread, uint64_t now_ns)
{
    uint32_t most = thread->options.index == 0 ? LOOKUPS_MAX : VALUES_MAX;
    while (thread->was_ready && thread->part_count < most && !thread->measure.active) {
        struct mr_tier_part *part =
            mr_tier_queue_take(thread->options.queue, thread->options.index, now_ns);
        if (!part) return;
        run_part(thread, part, now_ns);
    }
}

/* ---- step ---- */

static void finish_measure(struct mr_tier_thread *thread, uint64_t now_ns)
{
    struct mr_tier_measure *measure = &thread->measure;
    if (mr_tier_measure_finish(measure, thread->port, now_ns) && measure->bytes_per_second > 0)
        mr_tier_queue_measured(thread->options.queue, measure->bytes_per_second, now_ns);
}

static void collect(struct mr_tier_thread *thread, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    for (struct mr_redis_op *op; (op = port->take(port->context)) != NULL;) {
        if (op->outcome == MR_REDIS_READ_ONLY) thread->read_only_ns = now_ns;
        if (mr_redis_calls_finish(thread->calls, op)) continue;
        if (op == &thread->measure.op)
            finish_measure(thread, now_ns);
        else
            finish_part(thread, op->owner, now_ns);
    }
}

/* Closes the connection to a server that has become a read-only replica. The port connects again,
 * and resolves the server's name again: after a failover that ended no connection it may lead to
 * the new master. A refusal of another thread counts unless this one has just connected again:
 * threads learn of one failover at different times. */
static void leave_replica(struct mr_tier_thread *thread, uint64_t now_ns)
{
    const uint64_t own_ns = thread->read_only_ns, renewed_ns = thread->renewed_ns;
    const uint64_t other_ns =
        thread->options.queue ? mr_tier_queue_read_only_ns(thread->options.queue) : 0;
    const uint64_t least_ns = renewed_ns ? renewed_ns + RENEW_NS : 0;
    if (!thread->was_ready || (own_ns <= renewed_ns && other_ns <= least_ns)) return;
    if (now_ns < least_ns) return;
    thread->renewed_ns = now_ns;
    thread->port->close(thread->port->context);
}

static void set_ready(struct mr_tier_thread *thread, bool ready, uint64_t now_ns)
{
    if (thread->options.queue && ready != thread->was_ready)
        mr_tier_queue_set_ready(thread->options.queue, thread->options.index, ready, now_ns);
}

/* Logs that Redis is connected or lost. Only thread 0 logs, for all threads of the queue. */
static void log_connection(struct mr_tier_thread *thread, bool ready, bool failed, uint64_t now_ns)
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

static void publish_stats(struct mr_tier_thread *thread, const struct mr_redis_client_stats *stats)
{
    pthread_mutex_lock(&thread->mutex);
    thread->stats = *stats;
    snprintf(thread->reason, sizeof thread->reason, "%s",
             thread->port->reason(thread->port->context));
    pthread_mutex_unlock(&thread->mutex);
}

static void take_password(struct mr_tier_thread *thread)
{
    pthread_mutex_lock(&thread->mutex);
    if (thread->password_changed)
        thread->port->set_password(thread->port->context, thread->password);
    thread->password_changed = false;
    explicit_bzero(thread->password, sizeof thread->password);
    pthread_mutex_unlock(&thread->mutex);
}

/* Tells the queue how many bytes were received, and whether the connection became ready or was
 * lost. */
static void observe_connection(struct mr_tier_thread *thread, uint64_t now_ns)
{
    const struct mr_redis_port *port = thread->port;
    struct mr_redis_client_stats stats = port->stats(port->context);
    bool ready = port->is_ready(port->context), became = ready && !thread->was_ready;
    bool failed = stats.failures && !thread->failure_logged;
    uint64_t bytes = stats.bytes.read.received_bytes - thread->stats.bytes.read.received_bytes;
    if (thread->options.queue && thread->options.index > 0 && bytes > 0)
        mr_tier_queue_receive(thread->options.queue, bytes, now_ns);
    set_ready(thread, ready, now_ns);
    log_connection(thread, ready, failed, now_ns);
    thread->failure_logged |= failed;
    thread->was_ready = ready;
    publish_stats(thread, &stats);
    if (became && thread->options.on_ready)
        thread->options.on_ready(thread->options.context, thread);
}

/* Starts a bandwidth measurement if one is due. Only thread 1 measures, and only while it has no
 * value in flight. */
static void measure(struct mr_tier_thread *thread, uint64_t now_ns)
{
    if (thread->options.index == 1 && thread->was_ready && thread->part_count == 0 &&
        mr_tier_queue_needs_measure(thread->options.queue, now_ns))
        mr_tier_measure_begin(&thread->measure, thread->port, now_ns);
}

/* Runs the queue's work of one step. Returns when the next part (Redis value) that no thread has
 * taken reaches its deadline. */
static uint64_t step_queue(struct mr_tier_thread *thread, uint64_t now_ns)
{
    struct mr_tier_queue *queue = thread->options.queue;
    uint64_t next_ns = UINT64_MAX;
    release_cancelled(thread, now_ns);
    measure(thread, now_ns);
    take_parts(thread, now_ns);
    if (thread->options.index == 0) next_ns = mr_tier_queue_expire(queue, now_ns);
    if (mr_tier_queue_take_answered(queue)) thread->options.notify(thread->options.context);
    return next_ns;
}

/* The port sends and receives at the end of a step, and the next step, which has a later now_ns,
 * takes the replies. So the measured time of a transfer includes receiving its last bytes. */
uint64_t mr_tier_thread_step(struct mr_tier_thread *thread, uint64_t now_ns)
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

static void free_thread(struct mr_tier_thread *thread)
{
    for (uint32_t i = 0; i < VALUES_MAX; i++) {
        free(thread->buffers[i].sealed);
        mr_frame_digest_destroy(thread->buffers[i].digest);
    }
    mr_tier_measure_end(&thread->measure);
    mr_frame_keys_clear(&thread->keys);
    thread->port->destroy(thread->port->context);
    mr_redis_calls_destroy(thread->calls);
    mr_wake_close(&thread->wake);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
}

enum mr_status mr_tier_thread_create(struct mr_tier_thread **out,
                                     const struct mr_tier_thread_options *options,
                                     struct mr_error *err)
{
    *out = NULL;
    struct mr_tier_thread *thread = calloc(1, sizeof *thread);
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
    if (options->queue) mr_tier_queue_attach(options->queue, options->index, &thread->wake);
    *out = thread;
    return MR_OK;
}

static uint64_t step(void *state, struct mr_time now)
{
    return mr_tier_thread_step(state, now.ns);
}

static size_t sockets(void *state, struct pollfd *fds, size_t max)
{
    const struct mr_tier_thread *thread = state;
    return thread->port->sockets(thread->port->context, fds, max);
}

enum mr_status mr_tier_thread_start(struct mr_tier_thread *thread, const char *name,
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

bool mr_tier_thread_stop(struct mr_tier_thread *thread, uint32_t timeout_ms)
{
    if (!mr_thread_stop_within(thread->thread, timeout_ms)) return false;
    thread->thread = NULL;
    mr_redis_calls_close(thread->calls);
    thread->port->close(thread->port->context);
    collect(thread, thread->now_ns);
    set_ready(thread, false, thread->now_ns);
    thread->was_ready = false;
    mr_redis_calls_send(thread->calls, thread->port, thread->now_ns);
    MR_ASSERT(thread->part_count == 0 && mr_redis_calls_in_flight(thread->calls) == 0);
    return true;
}

void mr_tier_thread_destroy(struct mr_tier_thread *thread)
{
    if (thread) free_thread(thread);
}

bool mr_tier_thread_call(struct mr_tier_thread *thread, const struct mr_redis_call *calls,
                         size_t count)
{
    return mr_redis_calls_post(thread->calls, calls, count);
}

void mr_tier_thread_set_password(struct mr_tier_thread *thread, const char *password)
{
    size_t length = strlen(password);
    MR_ASSERT(length < sizeof thread->password);
    pthread_mutex_lock(&thread->mutex);
    memcpy(thread->password, password, length + 1);
    thread->password_changed = true;
    pthread_mutex_unlock(&thread->mutex);
    mr_wake_ring(&thread->wake);
}

struct mr_redis_client_stats mr_tier_thread_stats(struct mr_tier_thread *thread, char *reason,
                                                  size_t reason_bytes)
{
    pthread_mutex_lock(&thread->mutex);
    struct mr_redis_client_stats stats = thread->stats;
    snprintf(reason, reason_bytes, "%s", thread->reason);
    pthread_mutex_unlock(&thread->mutex);
    return stats;
}
