#include "kvcache/remote/remote_queue_state.h"

#include "codec/check.h"

#include <pthread.h>
#include <stdlib.h>

#define KEYS_MAX ((uint32_t)65536)
/* how long a value offered for storing is remembered, if second_touch is on; a second offer within
 * this time stores it */
#define TOUCH_NS         ((uint64_t)600 * 1000000000)
#define REFUSED_PAUSE_NS ((uint64_t)2000000000)
/* shortest time between two log lines about refused stores */
#define REFUSED_LOG_NS ((uint64_t)60 * 1000000000)

struct mr_remote_queue {
    struct mr_remote_queue_options options;
    pthread_mutex_t mutex;
    /* the fields below are protected by the mutex */
    struct mr_operations operations;
    bool ready[MR_REMOTE_THREADS_MAX], silent;
    struct mr_key_memory *touched; /* keys of the values that were offered for storing once */
    uint64_t paused_until_ns;      /* stores are refused until then */
    uint64_t refusal_logged_ns, lookup_posted_ns;
    uint64_t read_only_ns; /* when Redis last refused a command as a read-only replica */
};

static struct mr_operations *lock(struct mr_remote_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    return &queue->operations;
}

/* The wakes come after the unlock: each is a system call, and the engine polls under this lock. */
static void unlock(struct mr_remote_queue *queue)
{
    const uint32_t wakes = queue->operations.wakes;
    queue->operations.wakes = 0;
    pthread_mutex_unlock(&queue->mutex);
    for (uint32_t i = 0; wakes >> i; i++)
        if (wakes & 1u << i && queue->operations.threads[i].wake)
            queue->operations.threads[i].wake(queue->operations.threads[i].context);
}

/* ---- life ---- */

enum mr_status mr_remote_queue_create(struct mr_remote_queue **out,
                                      const struct mr_remote_queue_options *options,
                                      struct mr_error *err)
{
    MR_ASSERT(options->thread_count >= 2 && options->thread_count <= MR_REMOTE_THREADS_MAX);
    *out = NULL;
    struct mr_remote_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return mr_fail(err, MR_NOMEM, "no memory for the queue of the remote cache");
    queue->options = *options;
    pthread_mutex_init(&queue->mutex, NULL);
    enum mr_status status =
        mr_operations_create(&queue->operations, options->thread_count, options->present_ns, err);
    mr_byte_budget_init(&queue->operations.budget, options->write_budget);
    if (status == MR_OK) status = mr_key_memory_create(&queue->touched, KEYS_MAX, TOUCH_NS, err);
    if (status != MR_OK) {
        mr_remote_queue_destroy(queue);
        return status;
    }
    *out = queue;
    return MR_OK;
}

void mr_remote_queue_destroy(struct mr_remote_queue *queue)
{
    if (!queue) return;
    mr_operations_destroy(&queue->operations);
    mr_key_memory_destroy(queue->touched);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

void mr_remote_queue_attach(struct mr_remote_queue *queue, uint32_t thread,
                            void (*wake)(void *context), void *context)
{
    struct mr_operations *operations = lock(queue);
    operations->threads[thread].wake = wake;
    operations->threads[thread].context = context;
    unlock(queue);
}

/* ---- admission ---- */

static bool has_value_connection(const struct mr_remote_queue *queue)
{
    bool any = false;
    for (uint32_t i = 1; i < queue->options.thread_count; i++)
        any |= queue->ready[i];
    return any;
}

static bool is_up(const struct mr_remote_queue *queue)
{
    return queue->ready[0] && has_value_connection(queue);
}

/* Marks the values of a store that need not be written: Redis has the value, or the option
 * second_touch is on and the value is offered for the first time. */
static void mark_not_written(struct mr_remote_queue *queue, struct mr_queued_operation *operation,
                             uint64_t now_ns)
{
    for (uint32_t i = 0; i < operation->value_count; i++) {
        struct mr_queued_value *value = &operation->values[i];
        bool present = mr_key_memory_has(queue->operations.present, value->key, now_ns);
        bool first = !present && queue->options.second_touch &&
                     !mr_key_memory_has(queue->touched, value->key, now_ns);
        value->not_written = present || first;
        value->failed = first;
        mr_operations_count(&queue->operations, MR_REMOTE_VALUES_KNOWN, present);
        mr_operations_count(&queue->operations, MR_REMOTE_VALUES_FIRST_TOUCH, first);
        if (first) mr_key_memory_add(queue->touched, value->key, now_ns);
    }
}

/* Whether a value of a store may wait and be written, after `bytes` of the values before it. While
 * nothing waits, one value may be larger than the limit. */
static bool has_room(struct mr_remote_queue *queue, const struct mr_queued_operation *operation,
                     uint64_t bytes, uint64_t length, uint64_t now_ns)
{
    uint64_t waiting = queue->operations.stats.waiting_store_bytes + bytes;
    bool fits = waiting == 0 || waiting + length <= queue->options.store_bytes_max;
    return fits &&
           mr_byte_budget_take(&queue->operations.budget, operation->tenant, length, now_ns);
}

/* Admits the values of a store from the first one on, while there is room, and returns how many.
 * The others are dropped, because a lookup ends at the first missing value. */
static uint32_t admit_values(struct mr_remote_queue *queue, struct mr_queued_operation *operation,
                             uint64_t now_ns)
{
    uint32_t admitted = operation->value_count;
    operation->bytes = 0;
    for (uint32_t i = 0; i < operation->value_count; i++) {
        struct mr_queued_value *value = &operation->values[i];
        if (value->not_written) continue;
        if (admitted == operation->value_count &&
            has_room(queue, operation, operation->bytes, value->length, now_ns)) {
            operation->bytes += value->length;
            continue;
        }
        if (admitted == operation->value_count) admitted = i;
        value->not_written = value->failed = true;
        mr_operations_count(&queue->operations, MR_REMOTE_VALUES_DROPPED, 1);
        mr_operations_count(&queue->operations, MR_REMOTE_BYTES_DROPPED, value->length);
    }
    return admitted;
}

/* Ends the slices of a store that belong to values marked not_written. */
static void end_not_written(struct mr_queued_operation *operation)
{
    for (uint32_t i = 0; i < operation->slice_count; i++) {
        struct mr_remote_slice *slice = &operation->slices[i];
        struct mr_queued_value *value = &operation->values[slice->value];
        if (!value->not_written) continue;
        slice->taken = true;
        operation->untaken--;
        operation->open--;
        value->open--;
        value->present = !value->failed;
    }
}

/* Counts a store that is refused. Values that Redis has are not counted as dropped. */
static void count_refused(struct mr_remote_queue *queue,
                          const struct mr_queued_operation *operation, uint64_t now_ns)
{
    for (uint32_t i = 0; i < operation->value_count; i++) {
        const struct mr_queued_value *value = &operation->values[i];
        bool present = mr_key_memory_has(queue->operations.present, value->key, now_ns);
        mr_operations_count(&queue->operations, MR_REMOTE_VALUES_KNOWN, present);
        mr_operations_count(&queue->operations, MR_REMOTE_VALUES_DROPPED, !present);
        mr_operations_count(&queue->operations, MR_REMOTE_BYTES_DROPPED,
                            present ? 0 : value->length);
    }
}

/* Returns how many values of the store are taken, from the first one on. 0: none, because no value
 * before the first dropped one needs to be written. */
static uint32_t admit_store(struct mr_remote_queue *queue, struct mr_queued_operation *operation,
                            const char *tenant, uint64_t now_ns)
{
    bool good = is_up(queue) && queue->operations.operation_count < MR_REMOTE_OPERATIONS_MAX &&
                now_ns >= queue->paused_until_ns;
    if (!good) {
        count_refused(queue, operation, now_ns);
        return 0;
    }
    operation->tenant = mr_byte_budget_tenant(tenant);
    mark_not_written(queue, operation, now_ns);
    const uint32_t admitted = admit_values(queue, operation, now_ns);
    if (operation->bytes == 0 && admitted < operation->value_count) return 0;
    end_not_written(operation);
    return admitted;
}

static uint32_t admit(struct mr_remote_queue *queue, struct mr_queued_operation *operation,
                      const char *tenant, uint64_t now_ns)
{
    if (operation->kind == MR_REMOTE_STORE) return admit_store(queue, operation, tenant, now_ns);
    bool good = is_up(queue) && queue->operations.operation_count < MR_REMOTE_OPERATIONS_MAX &&
                !queue->silent;
    return good ? operation->value_count : 0;
}

/* Adds an accepted lookup, load or store and wakes the connection threads that can run it. */
static void add_operation(struct mr_remote_queue *queue, struct mr_queued_operation *operation,
                          uint64_t now_ns)
{
    static const enum mr_remote_counter counters[] = {MR_REMOTE_LOOKUPS, MR_REMOTE_LOADS,
                                                      MR_REMOTE_STORES};
    struct mr_operations *operations = &queue->operations;
    uint32_t threads = queue->options.thread_count, slices = operation->slice_count;
    bool load = operation->kind == MR_REMOTE_LOAD;
    mr_operations_count(operations, counters[operation->kind], 1);
    if (operation->kind == MR_REMOTE_LOOKUP) {
        mr_operations_count(operations, MR_REMOTE_VALUES_QUERIED, operation->value_count);
        queue->lookup_posted_ns = now_ns;
    }
    mr_operations_add(operations, operation, now_ns);
    mr_operations_wake(operations, load ? 1 : 0,
                       !load                  ? 1
                       : slices < threads - 1 ? slices + 1
                                              : threads);
}

static void *take_memory(struct mr_remote_queue *queue, size_t bytes)
{
    void *memory = mr_queue_memory_take(lock(queue)->memory, bytes);
    unlock(queue);
    return memory;
}

uint32_t mr_remote_queue_post(struct mr_remote_queue *queue, enum mr_remote_kind kind,
                              const struct mr_remote_operation *posted, uint64_t now_ns)
{
    MR_ASSERT(posted->count > 0);
    const struct mr_remote_queue_options *options = &queue->options;
    bool lookup = kind == MR_REMOTE_LOOKUP;
    struct mr_queued_operation_options make = {
        .kind = kind,
        .posted = posted,
        .now_ns = now_ns,
        .deadline_ns =
            now_ns + (lookup ? options->lookup_timeout_ns : options->transfer_timeout_ns),
        .codec = options->codec};
    size_t bytes = mr_queued_operation_bytes(posted);
    void *memory = bytes ? take_memory(queue, bytes) : NULL;
    if (!memory) return 0;
    /* without the lock: cutting many values into slices may take long */
    struct mr_queued_operation *operation = mr_queued_operation_init(memory, &make);
    struct mr_operations *operations = lock(queue);
    uint32_t taken = admit(queue, operation, posted->tenant ? posted->tenant : "", now_ns);
    if (taken)
        add_operation(queue, operation, now_ns);
    else
        mr_queue_memory_give(operations->memory, operation);
    unlock(queue);
    return taken;
}

/* ---- the engine's side ---- */

void mr_remote_queue_skip(struct mr_remote_queue *queue, uint64_t id, uint32_t index)
{
    struct mr_operations *operations = lock(queue);
    for (struct mr_queued_operation *operation = operations->all; operation;
         operation = operation->next_all) {
        if (operation->id != id || operation->kind != MR_REMOTE_LOAD ||
            operation->skip_below >= index)
            continue;
        operation->skip_below = index;
        mr_operations_drop(operations, operation, index, operation->begun_ns);
        mr_operations_wake(operations, 1, operations->thread_count);
    }
    unlock(queue);
}

void mr_remote_queue_cancel(struct mr_remote_queue *queue, uint64_t id)
{
    struct mr_operations *operations = lock(queue);
    for (struct mr_queued_operation *operation = operations->all; operation;
         operation = operation->next_all) {
        if (operation->id != id || operation->cancelled) continue;
        operation->cancelled = true;
        mr_operations_drop(operations, operation, UINT32_MAX, operation->begun_ns);
        mr_operations_wake(operations, 0, operations->thread_count);
    }
    unlock(queue);
}

bool mr_remote_queue_poll(struct mr_remote_queue *queue, struct mr_remote_answer *answer)
{
    bool found = mr_operations_poll(lock(queue), answer);
    unlock(queue);
    return found;
}

struct mr_remote_rates mr_remote_queue_rates(struct mr_remote_queue *queue)
{
    const struct mr_operations *operations = lock(queue);
    struct mr_remote_rates rates = {.up = is_up(queue) && !queue->silent,
                                    .bytes_per_second = operations->pace.bytes_per_second,
                                    .round_trip_ns = operations->pace.round_trip_ns,
                                    .received_ns = operations->pace.received_ns,
                                    .waiting_bytes = operations->stats.waiting_load_bytes};
    unlock(queue);
    return rates;
}

void mr_remote_queue_set_silent(struct mr_remote_queue *queue, bool silent)
{
    lock(queue);
    queue->silent = silent;
    unlock(queue);
}

struct mr_remote_queue_stats mr_remote_queue_stats(struct mr_remote_queue *queue)
{
    struct mr_operations *operations = lock(queue);
    operations->stats.operations = operations->operation_count;
    struct mr_remote_queue_stats stats = operations->stats;
    unlock(queue);
    return stats;
}

/* ---- the connection threads' side ---- */

void mr_remote_queue_set_ready(struct mr_remote_queue *queue, uint32_t thread, bool ready,
                               uint64_t now_ns)
{
    struct mr_operations *operations = lock(queue);
    /* When Redis comes back it may be empty, so forget which keys it had. */
    if (thread == 0 && !ready && queue->ready[0]) mr_key_memory_clear(operations->present);
    queue->ready[thread] = ready;
    if (thread == 0 && !ready) mr_operations_drop_list(operations, &operations->lookups, now_ns);
    if (thread > 0 && !has_value_connection(queue))
        mr_operations_drop_list(operations, &operations->loads, now_ns);
    unlock(queue);
}

void mr_remote_queue_receive(struct mr_remote_queue *queue, uint64_t bytes, uint64_t now_ns)
{
    mr_load_pace_receive(&lock(queue)->pace, bytes, now_ns);
    unlock(queue);
}

struct mr_remote_slice *mr_remote_queue_take(struct mr_remote_queue *queue, uint32_t thread,
                                             uint64_t now_ns)
{
    struct mr_remote_slice *slice = mr_operations_take(lock(queue), thread, now_ns);
    unlock(queue);
    return slice;
}

bool mr_remote_queue_finish(struct mr_remote_queue *queue, struct mr_remote_slice *slice, bool good,
                            uint64_t now_ns)
{
    struct mr_operations *operations = lock(queue);
    if (good && slice->step == MR_REMOTE_STEP_SET) operations->stats.refusing = false;
    bool again = mr_operations_finish(operations, slice, good, now_ns);
    unlock(queue);
    return again;
}

void mr_remote_queue_damaged(struct mr_remote_queue *queue, struct mr_remote_slice *slice,
                             enum mr_verdict cause)
{
    slice->damaged = true;
    lock(queue)->stats.damaged[cause]++;
    unlock(queue);
}

bool mr_remote_queue_refused(struct mr_remote_queue *queue, bool read_only, uint64_t now_ns)
{
    struct mr_operations *operations = lock(queue);
    mr_operations_count(operations, MR_REMOTE_REFUSALS, 1);
    operations->stats.refusing = true;
    if (read_only) queue->read_only_ns = now_ns;
    queue->paused_until_ns = now_ns + REFUSED_PAUSE_NS;
    bool log = !queue->refusal_logged_ns || now_ns - queue->refusal_logged_ns > REFUSED_LOG_NS;
    if (log) queue->refusal_logged_ns = now_ns;
    unlock(queue);
    return log;
}

uint64_t mr_remote_queue_read_only_ns(struct mr_remote_queue *queue)
{
    lock(queue);
    uint64_t read_only_ns = queue->read_only_ns;
    unlock(queue);
    return read_only_ns;
}

bool mr_remote_queue_is_cancelled(struct mr_remote_queue *queue,
                                  const struct mr_remote_slice *slice)
{
    const struct mr_queued_operation *operation = slice->operation;
    lock(queue);
    bool whole = operation->cancelled && operation->kind != MR_REMOTE_LOOKUP;
    bool skipped = slice->step == MR_REMOTE_STEP_GET && slice->value < operation->skip_below;
    bool cancelled =
        !slice->released && slice->step != MR_REMOTE_STEP_CLEANUP && (whole || skipped);
    unlock(queue);
    return cancelled;
}

void mr_remote_queue_release(struct mr_remote_queue *queue, struct mr_remote_slice *slice,
                             uint64_t now_ns)
{
    mr_operations_release(lock(queue), slice, now_ns);
    unlock(queue);
}

uint64_t mr_remote_queue_expire(struct mr_remote_queue *queue, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    struct mr_operations *operations = lock(queue);
    for (struct mr_queued_operation *operation = operations->all; operation;
         operation = operation->next_all) {
        if (operation->final || operation->untaken == 0) continue;
        if (operation->deadline_ns <= now_ns)
            mr_operations_drop(operations, operation, UINT32_MAX, now_ns);
        else if (operation->deadline_ns < next_ns)
            next_ns = operation->deadline_ns;
    }
    unlock(queue);
    return next_ns;
}

void mr_remote_queue_measured(struct mr_remote_queue *queue, double bytes_per_second,
                              uint64_t now_ns)
{
    mr_load_pace_measure(&lock(queue)->pace, bytes_per_second, now_ns);
    unlock(queue);
}

bool mr_remote_queue_needs_measure(struct mr_remote_queue *queue, uint64_t now_ns)
{
    const struct mr_operations *operations = lock(queue);
    bool due = mr_load_pace_is_stale(&operations->pace, queue->lookup_posted_ns, now_ns);
    unlock(queue);
    return due;
}

bool mr_remote_queue_take_answered(struct mr_remote_queue *queue)
{
    struct mr_operations *operations = lock(queue);
    bool answered = operations->answered;
    operations->answered = false;
    unlock(queue);
    return answered;
}

void mr_remote_queue_check(struct mr_remote_queue *queue)
{
    mr_operations_check(lock(queue));
    unlock(queue);
}
