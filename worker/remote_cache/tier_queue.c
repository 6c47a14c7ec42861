#include "worker/remote_cache/tier_queue.h"

#include "codec/check.h"
#include "worker/remote_cache/tier_jobs.h"

#include <pthread.h>
#include <stdlib.h>

#define KEYS_MAX ((uint32_t)65536)
/* how long an item (KV block) offered for storing is remembered; offered again within this time, it
 * is stored */
#define TOUCH_NS         ((uint64_t)600 * 1000000000)
#define REFUSED_PAUSE_NS ((uint64_t)2000000000)
/* shortest time between two log lines about refused stores */
#define REFUSED_LOG_NS ((uint64_t)60 * 1000000000)

struct mr_tier_queue {
    struct mr_tier_queue_options options;
    pthread_mutex_t mutex;
    /* the fields below are protected by the mutex */
    struct mr_tier_jobs jobs;
    bool ready[MR_TIER_THREADS_MAX], silent;
    struct mr_key_memory *touched; /* keys of the items that were offered for storing once */
    uint64_t paused_until_ns;      /* stores are refused until then */
    uint64_t refusal_logged_ns, lookup_posted_ns;
    uint64_t read_only_ns; /* when Redis last refused a command as a read-only replica */
};

static struct mr_tier_jobs *lock(struct mr_tier_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    return &queue->jobs;
}

static void unlock(struct mr_tier_queue *queue)
{
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- life ---- */

enum mr_status mr_tier_queue_create(struct mr_tier_queue **out,
                                    const struct mr_tier_queue_options *options,
                                    struct mr_error *err)
{
    MR_ASSERT(options->thread_count >= 2 && options->thread_count <= MR_TIER_THREADS_MAX);
    *out = NULL;
    struct mr_tier_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return mr_fail(err, MR_NOMEM, "no memory for the queue of the Redis tier");
    queue->options = *options;
    pthread_mutex_init(&queue->mutex, NULL);
    enum mr_status status =
        mr_tier_jobs_create(&queue->jobs, options->thread_count, options->present_ns, err);
    mr_byte_budget_init(&queue->jobs.budget, options->write_budget);
    if (status == MR_OK) status = mr_key_memory_create(&queue->touched, KEYS_MAX, TOUCH_NS, err);
    if (status != MR_OK) {
        mr_tier_queue_destroy(queue);
        return status;
    }
    *out = queue;
    return MR_OK;
}

void mr_tier_queue_destroy(struct mr_tier_queue *queue)
{
    if (!queue) return;
    mr_tier_jobs_destroy(&queue->jobs);
    mr_key_memory_destroy(queue->touched);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

void mr_tier_queue_attach(struct mr_tier_queue *queue, uint32_t thread, const struct mr_wake *wake)
{
    lock(queue)->wakes[thread] = wake;
    unlock(queue);
}

/* ---- admission ---- */

static bool has_value_connection(const struct mr_tier_queue *queue)
{
    bool any = false;
    for (uint32_t i = 1; i < queue->options.thread_count; i++)
        any |= queue->ready[i];
    return any;
}

static bool is_up(const struct mr_tier_queue *queue)
{
    return queue->ready[0] && has_value_connection(queue);
}

/* Marks the items of a store that need not be written: Redis has the item, or the option
 * second_touch is on and the item is offered for the first time. */
static void mark_not_written(struct mr_tier_queue *queue, struct mr_tier_job *job, uint64_t now_ns)
{
    for (uint32_t i = 0; i < job->item_count; i++) {
        struct mr_tier_entry *item = &job->items[i];
        bool present = mr_key_memory_has(queue->jobs.present, item->key, now_ns);
        bool first = !present && queue->options.second_touch &&
                     !mr_key_memory_has(queue->touched, item->key, now_ns);
        item->not_written = present || first;
        item->failed = first;
        mr_tier_jobs_count(&queue->jobs, MR_TIER_ITEMS_KNOWN, present);
        mr_tier_jobs_count(&queue->jobs, MR_TIER_ITEMS_FIRST_TOUCH, first);
        if (first) mr_key_memory_add(queue->touched, item->key, now_ns);
    }
}

/* Whether an item of a store may wait and be written, after `bytes` of the items before it. One
 * item may be larger than a limit of which nothing is used. */
static bool has_room(struct mr_tier_queue *queue, const struct mr_tier_job *job, uint64_t bytes,
                     uint64_t length, uint64_t now_ns)
{
    uint64_t waiting = queue->jobs.stats.waiting_store_bytes + bytes;
    bool fits = waiting == 0 || waiting + length <= queue->options.store_bytes_max;
    return fits && mr_byte_budget_take(&queue->jobs.budget, job->tenant, length, now_ns);
}

/* Admits the items of a store from the first one on, while there is room, and returns how many. The
 * others are dropped: a lookup would not find an item behind one that is missing. */
static uint32_t admit_items(struct mr_tier_queue *queue, struct mr_tier_job *job, uint64_t now_ns)
{
    uint32_t admitted = job->item_count;
    job->bytes = 0;
    for (uint32_t i = 0; i < job->item_count; i++) {
        struct mr_tier_entry *item = &job->items[i];
        if (item->not_written) continue;
        if (admitted == job->item_count && has_room(queue, job, job->bytes, item->length, now_ns)) {
            job->bytes += item->length;
            continue;
        }
        if (admitted == job->item_count) admitted = i;
        item->not_written = item->failed = true;
        mr_tier_jobs_count(&queue->jobs, MR_TIER_ITEMS_DROPPED, 1);
        mr_tier_jobs_count(&queue->jobs, MR_TIER_BYTES_DROPPED, item->length);
    }
    return admitted;
}

/* Ends the parts (Redis values) of a store that belong to items marked not_written. */
static void end_not_written(struct mr_tier_job *job)
{
    for (uint32_t i = 0; i < job->part_count; i++) {
        struct mr_tier_part *part = &job->parts[i];
        struct mr_tier_entry *item = &job->items[part->item];
        if (!item->not_written) continue;
        part->taken = true;
        job->untaken--;
        job->open--;
        item->open--;
        item->present = !item->failed;
    }
}

/* Counts a store that is refused: the items that Redis has are not lost. */
static void count_refused(struct mr_tier_queue *queue, const struct mr_tier_job *job,
                          uint64_t now_ns)
{
    for (uint32_t i = 0; i < job->item_count; i++) {
        const struct mr_tier_entry *item = &job->items[i];
        bool present = mr_key_memory_has(queue->jobs.present, item->key, now_ns);
        mr_tier_jobs_count(&queue->jobs, MR_TIER_ITEMS_KNOWN, present);
        mr_tier_jobs_count(&queue->jobs, MR_TIER_ITEMS_DROPPED, !present);
        mr_tier_jobs_count(&queue->jobs, MR_TIER_BYTES_DROPPED, present ? 0 : item->length);
    }
}

/* Returns how many items of the store are taken, from the first one on; 0: none, because there is
 * nothing to write before the first one that is dropped. */
static uint32_t admit_store(struct mr_tier_queue *queue, struct mr_tier_job *job,
                            const char *tenant, uint64_t now_ns)
{
    bool good = is_up(queue) && queue->jobs.job_count < MR_TIER_JOBS_MAX &&
                now_ns >= queue->paused_until_ns;
    if (!good) {
        count_refused(queue, job, now_ns);
        return 0;
    }
    job->tenant = mr_byte_budget_tenant(tenant);
    mark_not_written(queue, job, now_ns);
    const uint32_t admitted = admit_items(queue, job, now_ns);
    if (job->bytes == 0 && admitted < job->item_count) return 0;
    end_not_written(job);
    return admitted;
}

static uint32_t admit(struct mr_tier_queue *queue, struct mr_tier_job *job, const char *tenant,
                      uint64_t now_ns)
{
    if (job->work == MR_TIER_STORE) return admit_store(queue, job, tenant, now_ns);
    bool good = is_up(queue) && queue->jobs.job_count < MR_TIER_JOBS_MAX && !queue->silent;
    return good ? job->item_count : 0;
}

/* Adds an accepted lookup, load or store and wakes the connection threads that can run it. */
static void add_job(struct mr_tier_queue *queue, struct mr_tier_job *job, uint64_t now_ns)
{
    static const enum mr_tier_counter counters[] = {MR_TIER_LOOKUPS, MR_TIER_LOADS, MR_TIER_STORES};
    struct mr_tier_jobs *jobs = &queue->jobs;
    uint32_t threads = queue->options.thread_count, parts = job->part_count;
    bool load = job->work == MR_TIER_LOAD;
    mr_tier_jobs_count(jobs, counters[job->work], 1);
    if (job->work == MR_TIER_LOOKUP) {
        mr_tier_jobs_count(jobs, MR_TIER_ITEMS_QUERIED, job->item_count);
        queue->lookup_posted_ns = now_ns;
    }
    mr_tier_jobs_add(jobs, job, now_ns);
    mr_tier_jobs_ring(jobs, load ? 1 : 0, !load ? 1 : parts < threads - 1 ? parts + 1 : threads);
}

static void *take_memory(struct mr_tier_queue *queue, size_t bytes)
{
    void *memory = mr_tier_memory_take(lock(queue)->memory, bytes);
    unlock(queue);
    return memory;
}

uint32_t mr_tier_queue_post(struct mr_tier_queue *queue, enum mr_tier_work work,
                            const struct mr_tier_request *request, uint64_t now_ns)
{
    MR_ASSERT(request->count > 0);
    const struct mr_tier_queue_options *options = &queue->options;
    bool lookup = work == MR_TIER_LOOKUP;
    struct mr_tier_job_options make = {
        .work = work,
        .request = request,
        .now_ns = now_ns,
        .deadline_ns =
            now_ns + (lookup ? options->lookup_timeout_ns : options->transfer_timeout_ns),
        .codec = options->codec};
    size_t bytes = mr_tier_job_bytes(request);
    void *memory = bytes ? take_memory(queue, bytes) : NULL;
    if (!memory) return 0;
    /* done without the lock, because it may take long */
    struct mr_tier_job *job = mr_tier_job_init(memory, &make);
    struct mr_tier_jobs *jobs = lock(queue);
    uint32_t taken = admit(queue, job, request->tenant ? request->tenant : "", now_ns);
    if (taken)
        add_job(queue, job, now_ns);
    else
        mr_tier_memory_give(jobs->memory, job);
    unlock(queue);
    return taken;
}

/* ---- the engine's side ---- */

void mr_tier_queue_skip(struct mr_tier_queue *queue, uint64_t ticket, uint32_t index)
{
    struct mr_tier_jobs *jobs = lock(queue);
    for (struct mr_tier_job *job = jobs->all; job; job = job->next_all) {
        if (job->ticket != ticket || job->work != MR_TIER_LOAD || job->skip_below >= index)
            continue;
        job->skip_below = index;
        mr_tier_jobs_drop(jobs, job, index, job->begun_ns);
        mr_tier_jobs_ring(jobs, 1, jobs->thread_count);
    }
    unlock(queue);
}

void mr_tier_queue_abandon(struct mr_tier_queue *queue, uint64_t ticket)
{
    struct mr_tier_jobs *jobs = lock(queue);
    for (struct mr_tier_job *job = jobs->all; job; job = job->next_all) {
        if (job->ticket != ticket || job->abandoned) continue;
        job->abandoned = true;
        mr_tier_jobs_drop(jobs, job, UINT32_MAX, job->begun_ns);
        mr_tier_jobs_ring(jobs, 0, jobs->thread_count);
    }
    unlock(queue);
}

bool mr_tier_queue_poll(struct mr_tier_queue *queue, struct mr_tier_answer *answer)
{
    bool found = mr_tier_jobs_poll(lock(queue), answer);
    unlock(queue);
    return found;
}

struct mr_tier_rates mr_tier_queue_rates(struct mr_tier_queue *queue)
{
    const struct mr_tier_jobs *jobs = lock(queue);
    struct mr_tier_rates rates = {.up = is_up(queue) && !queue->silent,
                                  .bytes_per_second = jobs->pace.bytes_per_second,
                                  .round_trip_ns = jobs->pace.round_trip_ns,
                                  .received_ns = jobs->pace.received_ns,
                                  .waiting_bytes = jobs->stats.waiting_load_bytes};
    unlock(queue);
    return rates;
}

void mr_tier_queue_set_silent(struct mr_tier_queue *queue, bool silent)
{
    lock(queue);
    queue->silent = silent;
    unlock(queue);
}

struct mr_tier_queue_stats mr_tier_queue_stats(struct mr_tier_queue *queue)
{
    struct mr_tier_jobs *jobs = lock(queue);
    jobs->stats.jobs = jobs->job_count;
    struct mr_tier_queue_stats stats = jobs->stats;
    unlock(queue);
    return stats;
}

/* ---- the connection threads' side ---- */

void mr_tier_queue_set_ready(struct mr_tier_queue *queue, uint32_t thread, bool ready,
                             uint64_t now_ns)
{
    struct mr_tier_jobs *jobs = lock(queue);
    /* When Redis comes back it may be empty, so forget which keys it had. */
    if (thread == 0 && !ready && queue->ready[0]) mr_key_memory_clear(jobs->present);
    queue->ready[thread] = ready;
    if (thread == 0 && !ready) mr_tier_jobs_drop_list(jobs, &jobs->lookups, now_ns);
    if (thread > 0 && !has_value_connection(queue))
        mr_tier_jobs_drop_list(jobs, &jobs->loads, now_ns);
    unlock(queue);
}

void mr_tier_queue_receive(struct mr_tier_queue *queue, uint64_t bytes, uint64_t now_ns)
{
    mr_tier_pace_receive(&lock(queue)->pace, bytes, now_ns);
    unlock(queue);
}

struct mr_tier_part *mr_tier_queue_take(struct mr_tier_queue *queue, uint32_t thread,
                                        uint64_t now_ns)
{
    struct mr_tier_part *part = mr_tier_jobs_take(lock(queue), thread, now_ns);
    unlock(queue);
    return part;
}

bool mr_tier_queue_finish(struct mr_tier_queue *queue, struct mr_tier_part *part, bool good,
                          uint64_t now_ns)
{
    struct mr_tier_jobs *jobs = lock(queue);
    if (good && part->step == MR_TIER_STEP_SET) jobs->stats.refusing = false;
    bool again = mr_tier_jobs_finish(jobs, part, good, now_ns);
    unlock(queue);
    return again;
}

void mr_tier_queue_damaged(struct mr_tier_queue *queue, struct mr_tier_part *part,
                           enum mr_verdict cause)
{
    part->damaged = true;
    lock(queue)->stats.damaged[cause]++;
    unlock(queue);
}

bool mr_tier_queue_refused(struct mr_tier_queue *queue, bool read_only, uint64_t now_ns)
{
    struct mr_tier_jobs *jobs = lock(queue);
    mr_tier_jobs_count(jobs, MR_TIER_REFUSALS, 1);
    jobs->stats.refusing = true;
    if (read_only) queue->read_only_ns = now_ns;
    queue->paused_until_ns = now_ns + REFUSED_PAUSE_NS;
    bool log = !queue->refusal_logged_ns || now_ns - queue->refusal_logged_ns > REFUSED_LOG_NS;
    if (log) queue->refusal_logged_ns = now_ns;
    unlock(queue);
    return log;
}

uint64_t mr_tier_queue_read_only_ns(struct mr_tier_queue *queue)
{
    lock(queue);
    uint64_t read_only_ns = queue->read_only_ns;
    unlock(queue);
    return read_only_ns;
}

bool mr_tier_queue_is_cancelled(struct mr_tier_queue *queue, const struct mr_tier_part *part)
{
    const struct mr_tier_job *job = part->job;
    lock(queue);
    bool abandoned = job->abandoned && job->work != MR_TIER_LOOKUP;
    bool skipped = part->step == MR_TIER_STEP_GET && part->item < job->skip_below;
    bool cancelled =
        !part->released && part->step != MR_TIER_STEP_CLEANUP && (abandoned || skipped);
    unlock(queue);
    return cancelled;
}

void mr_tier_queue_release(struct mr_tier_queue *queue, struct mr_tier_part *part, uint64_t now_ns)
{
    mr_tier_jobs_release(lock(queue), part, now_ns);
    unlock(queue);
}

uint64_t mr_tier_queue_expire(struct mr_tier_queue *queue, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    struct mr_tier_jobs *jobs = lock(queue);
    for (struct mr_tier_job *job = jobs->all; job; job = job->next_all) {
        if (job->final || job->untaken == 0) continue;
        if (job->deadline_ns <= now_ns)
            mr_tier_jobs_drop(jobs, job, UINT32_MAX, now_ns);
        else if (job->deadline_ns < next_ns)
            next_ns = job->deadline_ns;
    }
    unlock(queue);
    return next_ns;
}

void mr_tier_queue_measured(struct mr_tier_queue *queue, double bytes_per_second, uint64_t now_ns)
{
    mr_tier_pace_measure(&lock(queue)->pace, bytes_per_second, now_ns);
    unlock(queue);
}

bool mr_tier_queue_needs_measure(struct mr_tier_queue *queue, uint64_t now_ns)
{
    const struct mr_tier_jobs *jobs = lock(queue);
    bool due = mr_tier_pace_is_stale(&jobs->pace, queue->lookup_posted_ns, now_ns);
    unlock(queue);
    return due;
}

bool mr_tier_queue_take_answered(struct mr_tier_queue *queue)
{
    struct mr_tier_jobs *jobs = lock(queue);
    bool answered = jobs->answered;
    jobs->answered = false;
    unlock(queue);
    return answered;
}

void mr_tier_queue_check(struct mr_tier_queue *queue)
{
    mr_tier_jobs_check(lock(queue));
    unlock(queue);
}
