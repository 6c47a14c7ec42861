#include "worker/redis/tier_queue_state.h"

#include "codec/check.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX ((uint32_t)65536) /* of one job */
/* Of all jobs: a part takes 760 bytes, so this is 64 look-ups of 700 slices each. Pages that are
 * never needed are never touched. */
#define JOB_BYTES_MAX ((size_t)32 << 20)
#define KEYS_MAX      ((uint32_t)65536) /* remembered as there, and as seen once */
#define TOUCH_NS      ((uint64_t)600 * 1000000000)

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const double look_bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                     0.005,  0.01,    0.025,  0.05,  0.1};
static const double load_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                     0.1,   0.25,   0.5,   1,    2.5,   5};

/* ---- life ---- */

enum mr_status mr_tier_queue_create(struct mr_tier_queue **out,
                                    const struct mr_tier_queue_options *options,
                                    struct mr_error *err)
{
    MR_ASSERT(options->lane_count >= 2 && options->lane_count <= MR_TIER_THREADS_MAX);
    *out = NULL;
    struct mr_tier_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return mr_fail(err, MR_NOMEM, "no memory for the tier's queue");
    queue->options = *options;
    queue->most_bytes = MR_TIER_AHEAD_FIRST;
    pthread_mutex_init(&queue->mutex, NULL);
    mr_byte_budget_init(&queue->budget, options->write_budget);
    mr_histogram_init(&queue->stats.look_seconds, look_bounds, COUNT_OF(look_bounds));
    mr_histogram_init(&queue->stats.load_seconds, load_bounds, COUNT_OF(load_bounds));
    enum mr_status status =
        mr_key_memory_create(&queue->present, KEYS_MAX, options->present_ns, err);
    if (status == MR_OK) status = mr_tier_memory_create(&queue->memory, JOB_BYTES_MAX, err);
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
    while (queue->all)
        mr_tier_job_free(queue, queue->all);
    mr_key_memory_destroy(queue->present);
    mr_key_memory_destroy(queue->touched);
    mr_tier_memory_destroy(queue->memory);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

void mr_tier_queue_attach(struct mr_tier_queue *queue, uint32_t lane, const struct mr_wake *wake)
{
    pthread_mutex_lock(&queue->mutex);
    queue->wakes[lane] = wake;
    pthread_mutex_unlock(&queue->mutex);
}

static void ring_for(struct mr_tier_queue *queue, const struct mr_tier_job *job)
{
    uint32_t lanes = queue->options.lane_count;
    if (job->work != MR_TIER_LOAD)
        mr_tier_queue_ring(queue, 0, 1);
    else
        mr_tier_queue_ring(queue, 1, job->part_count < lanes - 1 ? job->part_count + 1 : lanes);
}

/* ---- making a job ---- */

static void set_key(struct mr_tier_part *part, const unsigned char *key)
{
    char *out = part->key;
    memcpy(out, "mr1:", 4);
    mr_sha256_hex(key, MR_HASH_BYTES, out + 4);
    out += 4 + 2 * MR_HASH_BYTES;
    int wrote =
        snprintf(out, sizeof part->key - (size_t)(out - part->key), ":%u", part->frame.slice);
    part->key_length = (uint32_t)(out - part->key) + (uint32_t)wrote;
}

static void set_parts(struct mr_tier_job *job, const struct mr_tier_request *request,
                      enum mr_tier_step step, enum mr_frame_codec codec)
{
    struct mr_tier_part *part = job->parts;
    for (uint32_t i = 0; i < job->item_count; i++) {
        const struct mr_tier_item *from = &request->items[i];
        struct mr_tier_slot *item = &job->items[i];
        struct mr_slices slices = mr_slices_of(from->length, from->layer_bytes);
        item->left = slices.count;
        for (uint32_t slice = 0; slice < slices.count; slice++, part++) {
            part->job = job;
            part->step = step;
            part->item = i;
            part->payload = from->bytes ? (char *)from->bytes + slices.bytes * slice : NULL;
            part->deadline_ns = job->deadline_ns;
            part->frame =
                (struct mr_frame){.key = item->key,
                                  .token_count = from->token_count,
                                  .slice = slice,
                                  .slice_count = slices.count,
                                  .length = mr_slices_length(&slices, from->length, slice),
                                  .codec = codec};
            set_key(part, item->key);
        }
    }
}

static size_t aligned(size_t bytes)
{
    return (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

/* A job and what belongs to it, in one piece of the queue's memory; NULL: there is no room. */
static struct mr_tier_job *take_job(struct mr_tier_queue *queue, uint32_t items, uint32_t parts)
{
    size_t items_at = aligned(sizeof(struct mr_tier_job));
    size_t parts_at = items_at + aligned(items * sizeof(struct mr_tier_slot));
    size_t answers_at = parts_at + aligned(parts * sizeof(struct mr_tier_part));
    size_t bytes = answers_at + ((size_t)items + 1) * sizeof(struct mr_tier_note);
    pthread_mutex_lock(&queue->mutex);
    unsigned char *piece = mr_tier_memory_take(queue->memory, bytes);
    pthread_mutex_unlock(&queue->mutex);
    if (!piece) return NULL;
    struct mr_tier_job *job = (struct mr_tier_job *)(void *)piece;
    job->items = (struct mr_tier_slot *)(void *)(piece + items_at);
    job->parts = (struct mr_tier_part *)(void *)(piece + parts_at);
    job->answers = (struct mr_tier_note *)(void *)(piece + answers_at);
    return job;
}

static struct mr_tier_job *job_make(struct mr_tier_queue *queue, enum mr_tier_work work,
                                    const struct mr_tier_request *request)
{
    uint64_t parts = 0;
    for (uint32_t i = 0; i < request->count; i++)
        parts += mr_slices_of(request->items[i].length, request->items[i].layer_bytes).count;
    if (parts > ITEMS_MAX) return NULL;
    struct mr_tier_job *job = take_job(queue, request->count, (uint32_t)parts);
    if (!job) return NULL;
    job->work = work;
    job->ticket = request->ticket;
    job->item_count = request->count;
    job->part_count = job->untaken = job->open = (uint32_t)parts;
    job->refs = 1;
    for (uint32_t i = 0; i < request->count; i++) {
        memcpy(job->items[i].key, request->items[i].key, MR_HASH_BYTES);
        job->items[i].length = request->items[i].length;
        job->bytes += request->items[i].length;
    }
    return job;
}

/* ---- stores: what need not be written ---- */

/* Which items are known to be there, or are seen for the first time; returns bytes left to write.
 */
static uint64_t sift_store(struct mr_tier_queue *queue, struct mr_tier_job *job, uint64_t now_ns)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < job->item_count; i++) {
        struct mr_tier_slot *item = &job->items[i];
        bool present = mr_key_memory_has(queue->present, item->key, now_ns);
        bool first = !present && queue->options.second_touch &&
                     !mr_key_memory_has(queue->touched, item->key, now_ns);
        item->known = present || first;
        item->bad = first;
        mr_tier_queue_count(queue, MR_TIER_ITEMS_KNOWN, present);
        mr_tier_queue_count(queue, MR_TIER_ITEMS_FIRST_TOUCH, first);
        if (first) mr_key_memory_add(queue->touched, item->key, now_ns);
        if (!item->known) bytes += item->length;
    }
    return bytes;
}

/* The parts of items that are known are over before they begin. */
static void drop_known(struct mr_tier_job *job)
{
    for (uint32_t i = 0; i < job->part_count; i++) {
        struct mr_tier_part *part = &job->parts[i];
        struct mr_tier_slot *item = &job->items[part->item];
        if (!item->known) continue;
        part->taken = true;
        job->untaken--;
        job->open--;
        item->left--;
        item->there = !item->bad;
    }
}

static bool admit_store(struct mr_tier_queue *queue, struct mr_tier_job *job, const char *tenant,
                        uint64_t now_ns)
{
    if (now_ns < queue->paused_until_ns) return false;
    uint64_t bytes = sift_store(queue, job, now_ns);
    if (queue->stats.waiting_store_bytes + bytes > queue->options.store_bytes_max ||
        !mr_byte_budget_take(&queue->budget, tenant, bytes, now_ns))
        return false;
    job->bytes = bytes;
    drop_known(job);
    return true;
}

/* ---- the engine's side ---- */

static bool is_up(const struct mr_tier_queue *queue)
{
    return queue->ready[0] && mr_tier_queue_has_lane(queue);
}

void mr_tier_queue_set_silent(struct mr_tier_queue *queue, bool silent)
{
    pthread_mutex_lock(&queue->mutex);
    queue->silent = silent;
    pthread_mutex_unlock(&queue->mutex);
}

static bool admit(struct mr_tier_queue *queue, struct mr_tier_job *job, const char *tenant,
                  uint64_t now_ns)
{
    bool store = job->work == MR_TIER_STORE;
    bool good = is_up(queue) && queue->job_count < MR_TIER_JOBS_MAX && (store || !queue->silent) &&
                (!store || admit_store(queue, job, tenant, now_ns));
    if (!good && store) {
        mr_tier_queue_count(queue, MR_TIER_ITEMS_DROPPED, job->item_count);
        mr_tier_queue_count(queue, MR_TIER_BYTES_DROPPED, job->bytes);
    }
    return good;
}

static void enter(struct mr_tier_queue *queue, struct mr_tier_job *job, uint64_t now_ns)
{
    static const enum mr_tier_counter counters[] = {MR_TIER_ASKS, MR_TIER_LOADS, MR_TIER_STORES};
    job->next_all = queue->all;
    queue->all = job;
    queue->job_count++;
    mr_tier_queue_count(queue, counters[job->work], 1);
    if (job->work == MR_TIER_LOOKUP)
        mr_tier_queue_count(queue, MR_TIER_ITEMS_ASKED, job->item_count);
    if (job->work == MR_TIER_LOOKUP) queue->asked_ns = now_ns;
    if (job->work == MR_TIER_LOAD) queue->stats.waiting_load_bytes += job->bytes;
    if (job->work == MR_TIER_STORE) queue->stats.waiting_store_bytes += job->bytes;
    if (job->open == 0)
        mr_tier_queue_finish_job(queue, job, now_ns);
    else
        mr_tier_queue_enlist(queue, job);
}

bool mr_tier_queue_post(struct mr_tier_queue *queue, enum mr_tier_work work,
                        const struct mr_tier_request *request, uint64_t now_ns)
{
    MR_ASSERT(request->count > 0);
    struct mr_tier_job *job = job_make(queue, work, request);
    if (!job) return false;
    bool ask = work == MR_TIER_LOOKUP;
    job->posted_ns = now_ns;
    job->deadline_ns =
        now_ns + (ask ? queue->options.look_timeout_ns : queue->options.transfer_timeout_ns);
    set_parts(job, request, work == MR_TIER_LOAD ? MR_TIER_STEP_GET : MR_TIER_STEP_LOOK,
              queue->options.codec);
    pthread_mutex_lock(&queue->mutex);
    bool good = admit(queue, job, request->tenant ? request->tenant : "", now_ns);
    if (good) enter(queue, job, now_ns);
    if (good)
        ring_for(queue, job);
    else
        mr_tier_memory_give(queue->memory, job);
    pthread_mutex_unlock(&queue->mutex);
    return good;
}

void mr_tier_queue_skip(struct mr_tier_queue *queue, uint64_t ticket, uint32_t index)
{
    pthread_mutex_lock(&queue->mutex);
    for (struct mr_tier_job *job = queue->all; job; job = job->next_all) {
        if (job->ticket != ticket || job->work != MR_TIER_LOAD || job->skip_below >= index)
            continue;
        job->skip_below = index;
        mr_tier_queue_drop(queue, job, index, job->begun_ns);
        mr_tier_queue_ring(queue, 1, queue->options.lane_count);
    }
    pthread_mutex_unlock(&queue->mutex);
}

void mr_tier_queue_abandon(struct mr_tier_queue *queue, uint64_t ticket)
{
    pthread_mutex_lock(&queue->mutex);
    for (struct mr_tier_job *job = queue->all; job; job = job->next_all) {
        if (job->ticket != ticket || job->abandoned) continue;
        job->abandoned = true;
        mr_tier_queue_drop(queue, job, UINT32_MAX, job->begun_ns);
        mr_tier_queue_ring(queue, 0, queue->options.lane_count);
    }
    pthread_mutex_unlock(&queue->mutex);
}

bool mr_tier_queue_poll(struct mr_tier_queue *queue, struct mr_tier_answer *out)
{
    bool found = false;
    pthread_mutex_lock(&queue->mutex);
    while (!found && queue->answer_first) {
        struct mr_tier_note *node = queue->answer_first;
        queue->answer_first = node->next;
        if (!queue->answer_first) queue->answer_last = NULL;
        found = node->answer.final || !node->job->abandoned;
        *out = node->answer;
        if (node->answer.final) mr_tier_queue_unref(queue, node->job);
    }
    pthread_mutex_unlock(&queue->mutex);
    return found;
}

struct mr_tier_rates mr_tier_queue_rates(struct mr_tier_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    struct mr_tier_rates rates = {.up = is_up(queue) && !queue->silent,
                                  .bytes_per_second = queue->bytes_per_second,
                                  .round_trip_ns = queue->round_trip_ns,
                                  .received_ns = queue->heard_ns,
                                  .waiting_bytes = queue->stats.waiting_load_bytes};
    pthread_mutex_unlock(&queue->mutex);
    return rates;
}

struct mr_tier_queue_stats mr_tier_queue_stats(struct mr_tier_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->stats.jobs = queue->job_count;
    struct mr_tier_queue_stats stats = queue->stats;
    pthread_mutex_unlock(&queue->mutex);
    return stats;
}

bool mr_tier_queue_has_news(struct mr_tier_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    bool news = queue->news;
    queue->news = false;
    pthread_mutex_unlock(&queue->mutex);
    return news;
}

void mr_tier_queue_check(struct mr_tier_queue *queue)
{
    uint32_t jobs = 0;
    uint64_t store_bytes = 0;
    pthread_mutex_lock(&queue->mutex);
    for (struct mr_tier_job *job = queue->all; job; job = job->next_all) {
        uint32_t untaken = 0;
        jobs++;
        for (uint32_t i = 0; i < job->part_count; i++)
            untaken += !job->parts[i].taken;
        MR_ASSERT(untaken == job->untaken && job->untaken <= job->open);
        MR_ASSERT(!job->final || job->open == 0);
        if (job->work == MR_TIER_STORE && !job->final) store_bytes += job->bytes;
    }
    MR_ASSERT((mr_tier_memory_check(queue->memory) > 0) == (jobs > 0));
    uint64_t coming = 0;
    for (uint32_t i = 0; i < queue->options.lane_count; i++)
        coming += queue->coming[i];
    MR_ASSERT(coming == queue->coming_bytes);
    MR_ASSERT(jobs == queue->job_count && store_bytes == queue->stats.waiting_store_bytes);
    pthread_mutex_unlock(&queue->mutex);
}
