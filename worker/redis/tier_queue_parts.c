/* The tier's queue from the lanes' side: parts taken and finished, and what follows from it for
 * jobs. */
#include "worker/redis/tier_queue_state.h"

#include "codec/check.h"

#include <string.h>

#define REFUSED_PAUSE_NS ((uint64_t)2000000000)
#define REFUSED_TOLD_NS  ((uint64_t)60 * 1000000000)
#define MEASURE_EVERY_NS ((uint64_t)30 * 1000000000)
#define MEASURE_BYTES    ((uint64_t)65536) /* a load below this says nothing about bandwidth */
#define SLOW_NS          ((uint64_t)100000000)
#define NEW_SHARE        0.3 /* of a measurement in the running mean */
#define TRICKLE          8.0 /* slower than before by that: as if nothing came */

void mr_tier_job_free(struct mr_tier_queue *queue, struct mr_tier_job *job)
{
    struct mr_tier_job **link = &queue->all;
    while (*link != job)
        link = &(*link)->next_all;
    *link = job->next_all;
    queue->job_count--;
    mr_tier_memory_give(queue->memory, job);
}

void mr_tier_queue_unref(struct mr_tier_queue *queue, struct mr_tier_job *job)
{
    MR_ASSERT(job->refs > 0);
    if (--job->refs == 0) mr_tier_job_free(queue, job);
}

void mr_tier_queue_ring(struct mr_tier_queue *queue, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (queue->wakes[i]) mr_wake_ring(queue->wakes[i]);
}

/* ---- lists ---- */

static void list_add(struct mr_tier_job_list *list, struct mr_tier_job *job)
{
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
}

static void list_remove(struct mr_tier_job_list *list, struct mr_tier_job *job)
{
    struct mr_tier_job *before = NULL;
    for (struct mr_tier_job *at = list->first; at; before = at, at = at->next) {
        if (at != job) continue;
        if (before)
            before->next = job->next;
        else
            list->first = job->next;
        if (list->last == job) list->last = before;
        return;
    }
}

static struct mr_tier_job_list *list_of(struct mr_tier_queue *queue, const struct mr_tier_job *job)
{
    if (job->parts[0].step == MR_TIER_STEP_LOOK && job->work != MR_TIER_LOAD) return &queue->looks;
    return job->work == MR_TIER_LOAD ? &queue->loads : &queue->stores;
}

void mr_tier_queue_enlist(struct mr_tier_queue *queue, struct mr_tier_job *job)
{
    list_add(list_of(queue, job), job);
}

void mr_tier_queue_count(struct mr_tier_queue *queue, enum mr_tier_counter counter, uint64_t amount)
{
    queue->stats.counters[counter] += amount;
}

/* ---- answers ---- */

static void answer(struct mr_tier_queue *queue, struct mr_tier_job *job, struct mr_tier_note *node)
{
    node->next = NULL;
    node->job = job;
    if (queue->answer_last)
        queue->answer_last->next = node;
    else
        queue->answer_first = node;
    queue->answer_last = node;
    queue->news = true;
}

static void measure(struct mr_tier_queue *queue, double bytes_per_second, uint64_t now_ns)
{
    double before = queue->bytes_per_second;
    queue->bytes_per_second =
        before > 0 ? before + NEW_SHARE * (bytes_per_second - before) : bytes_per_second;
    queue->measured_ns = now_ns;
}

/* Items there from the first on (ask), or in all. */
static uint32_t there_count(const struct mr_tier_job *job)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < job->item_count; i++) {
        if (!job->items[i].there && job->work == MR_TIER_LOOKUP) break;
        sum += job->items[i].there;
    }
    return sum;
}

static void measure_ask(struct mr_tier_queue *queue, const struct mr_tier_job *job, uint64_t now_ns)
{
    uint64_t took_ns = now_ns - job->posted_ns, before = queue->round_trip_ns;
    mr_tier_queue_count(queue, MR_TIER_ITEMS_FOUND, there_count(job));
    if (job->late) {
        mr_tier_queue_count(queue, MR_TIER_ASKS_LATE, 1);
        return;
    }
    queue->round_trip_ns = before ? (7 * before + took_ns) / 8 : took_ns;
    mr_histogram_observe(&queue->stats.look_seconds, (double)took_ns / 1e9);
}

/* A load that brought nothing for long says as much as one that brought something. */
static void measure_load(struct mr_tier_queue *queue, const struct mr_tier_job *job,
                         uint64_t now_ns)
{
    uint64_t took_ns = now_ns - job->begun_ns;
    bool cut_short = job->abandoned || job->skip_below > 0;
    if (job->bytes_done) mr_histogram_observe(&queue->stats.load_seconds, (double)took_ns / 1e9);
    if (job->bytes_done < MEASURE_BYTES && (cut_short || took_ns < SLOW_NS)) return;
    measure(queue, 1e9 * (double)(job->bytes_done + 1) / (double)took_ns, now_ns);
}

void mr_tier_queue_finish_job(struct mr_tier_queue *queue, struct mr_tier_job *job, uint64_t now_ns)
{
    MR_ASSERT(!job->final && job->open == 0 && job->untaken == 0);
    struct mr_tier_note *node = &job->answers[job->item_count];
    job->final = true;
    if (job->work == MR_TIER_LOOKUP && !job->abandoned) measure_ask(queue, job, now_ns);
    if (job->work == MR_TIER_STORE) queue->stats.waiting_store_bytes -= job->bytes;
    if (job->work == MR_TIER_LOAD && job->begun_ns && now_ns > job->begun_ns)
        measure_load(queue, job, now_ns);
    node->answer = (struct mr_tier_answer){
        .ticket = job->ticket, .work = job->work, .final = true, .count = there_count(job)};
    answer(queue, job, node);
}

static void count_loaded(struct mr_tier_queue *queue, const struct mr_tier_job *job, uint32_t index)
{
    const struct mr_tier_slot *item = &job->items[index];
    if (item->there) {
        mr_tier_queue_count(queue, MR_TIER_ITEMS_LOADED, 1);
        mr_tier_queue_count(queue, MR_TIER_BYTES_LOADED, item->length);
        return;
    }
    bool skipped = job->abandoned || index < job->skip_below;
    mr_key_memory_remove(queue->present, item->key);
    mr_tier_queue_count(queue, skipped ? MR_TIER_ITEMS_SKIPPED : MR_TIER_ITEMS_GONE, 1);
}

/* An item whose slices are all over. */
static void finish_item(struct mr_tier_queue *queue, struct mr_tier_job *job, uint32_t index,
                        uint64_t now_ns)
{
    struct mr_tier_slot *item = &job->items[index];
    item->there = !item->bad;
    if (item->there) mr_key_memory_add(queue->present, item->key, now_ns);
    if (job->work == MR_TIER_LOAD) {
        queue->stats.waiting_load_bytes -= item->length;
        count_loaded(queue, job, index);
        struct mr_tier_note *node = &job->answers[index];
        node->answer = (struct mr_tier_answer){
            .ticket = job->ticket, .work = job->work, .index = index, .loaded = item->there};
        if (!job->abandoned) answer(queue, job, node);
    } else if (job->work == MR_TIER_STORE && !item->known) {
        mr_tier_queue_count(queue, item->there ? MR_TIER_ITEMS_STORED : MR_TIER_ITEMS_DROPPED, 1);
        mr_tier_queue_count(queue, item->there ? MR_TIER_BYTES_STORED : MR_TIER_BYTES_DROPPED,
                            item->length);
    }
}

/* One part of GET or SET is over. */
static void close_part(struct mr_tier_queue *queue, struct mr_tier_part *part, bool good,
                       uint64_t now_ns)
{
    struct mr_tier_job *job = part->job;
    struct mr_tier_slot *item = &job->items[part->item];
    if (!good) item->bad = true;
    if (good) job->bytes_done += part->frame.length;
    item->left--;
    job->open--;
    if (item->left == 0) finish_item(queue, job, part->item, now_ns);
    if (job->open == 0) mr_tier_queue_finish_job(queue, job, now_ns);
}

/* Marks a part as over that no lane will see. */
static void drop_part(struct mr_tier_queue *queue, struct mr_tier_part *part, uint64_t now_ns)
{
    part->taken = true;
    part->job->untaken--;
    close_part(queue, part, false, now_ns);
}

void mr_tier_queue_drop(struct mr_tier_queue *queue, struct mr_tier_job *job, uint32_t below,
                        uint64_t now_ns)
{
    if (job->final || job->untaken == 0) return;
    struct mr_tier_job_list *list = list_of(queue, job);
    if (job->parts[0].step == MR_TIER_STEP_LOOK && job->work != MR_TIER_LOAD) {
        /* A look-up given up: nothing is there, as far as it knows. */
        list_remove(list, job);
        job->open -= job->untaken;
        job->untaken = 0;
        for (uint32_t i = 0; i < job->part_count; i++) {
            if (!job->parts[i].taken) job->items[job->parts[i].item].bad = true;
            job->parts[i].taken = true;
        }
        job->late = true;
        if (job->open == 0) mr_tier_queue_finish_job(queue, job, now_ns);
        return;
    }
    for (uint32_t i = 0; i < job->part_count && job->untaken; i++)
        if (!job->parts[i].taken && job->parts[i].item < below) {
            if (job->untaken == 1) list_remove(list, job);
            drop_part(queue, &job->parts[i], now_ns);
        }
}

/* ---- the lanes' side ---- */

bool mr_tier_queue_has_lane(const struct mr_tier_queue *queue)
{
    bool any = false;
    for (uint32_t i = 1; i < queue->options.lane_count; i++)
        any |= queue->ready[i];
    return any;
}

/* Ends what nobody has taken of every job in the list: it takes them out of it. */
static void drop_all(struct mr_tier_queue *queue, struct mr_tier_job_list *list, uint64_t now_ns)
{
    while (list->first)
        mr_tier_queue_drop(queue, list->first, UINT32_MAX, now_ns);
}

void mr_tier_queue_set_ready(struct mr_tier_queue *queue, uint32_t lane, bool ready,
                             uint64_t now_ns)
{
    pthread_mutex_lock(&queue->mutex);
    /* A server that was away may have come back empty. */
    if (lane == 0 && !ready && queue->ready[0]) mr_key_memory_clear(queue->present);
    queue->ready[lane] = ready;
    if (lane == 0 && !ready) drop_all(queue, &queue->looks, now_ns);
    if (lane > 0 && !mr_tier_queue_has_lane(queue)) drop_all(queue, &queue->loads, now_ns);
    pthread_mutex_unlock(&queue->mutex);
}

/* What comes in drops counts for as long as it should have taken, and TRICKLE times that. */
void mr_tier_queue_heard(struct mr_tier_queue *queue, uint64_t bytes, uint64_t now_ns)
{
    pthread_mutex_lock(&queue->mutex);
    uint64_t since = now_ns > queue->heard_ns ? now_ns - queue->heard_ns : 0;
    double rate = queue->bytes_per_second, since_ns = (double)since;
    double worth_ns = rate > 0 ? TRICKLE * 1e9 * (double)bytes / rate : since_ns;
    queue->heard_ns =
        worth_ns < since_ns ? queue->heard_ns + (uint64_t)worth_ns : queue->heard_ns + since;
    pthread_mutex_unlock(&queue->mutex);
}

/* Whether so much more may be on its way. What is on its way is in vain when it is cut off, and
 * Redis copies all it is asked for, into memory that may be new to it, before it sends any: a load
 * begins with little, and never asks for more than is copied before it counts as silent. One lane
 * always has something coming, and the next. */
static bool may_come(const struct mr_tier_queue *queue, uint32_t lane, uint64_t bytes)
{
    double rate = queue->bytes_per_second, ahead = rate * (double)MR_TIER_AHEAD_NS / 1e9;
    if (rate == 0 || ahead > (double)queue->most_bytes) ahead = (double)queue->most_bytes;
    return queue->coming_bytes == queue->coming[lane] ||
           (double)(queue->coming_bytes + bytes) <= ahead;
}

static void count_coming(struct mr_tier_queue *queue, const struct mr_tier_part *part, bool comes)
{
    uint64_t bytes = part->frame.length;
    queue->coming_bytes += comes ? bytes : 0 - bytes;
    queue->coming[part->lane] += comes ? bytes : 0 - bytes;
    if (!comes) queue->most_bytes += bytes;
    if (queue->coming_bytes == 0) queue->most_bytes = MR_TIER_AHEAD_FIRST;
    if (queue->most_bytes > MR_TIER_AHEAD_BYTES) queue->most_bytes = MR_TIER_AHEAD_BYTES;
}

/* The first job's next part: a load's from the back. */
static struct mr_tier_part *next_part(struct mr_tier_queue *queue, struct mr_tier_job_list *list,
                                      uint32_t lane, uint64_t now_ns)
{
    struct mr_tier_job *job = list->first;
    struct mr_tier_part *part = NULL;
    if (!job) return NULL;
    for (uint32_t i = 0; i < job->part_count && !part; i++) {
        uint32_t at = job->work == MR_TIER_LOAD ? job->part_count - 1 - i : i;
        if (!job->parts[at].taken) part = &job->parts[at];
    }
    MR_ASSERT(part && job->untaken > 0);
    bool load = job->work == MR_TIER_LOAD;
    if (load && !may_come(queue, lane, part->frame.length)) return NULL;
    part->lane = lane;
    if (load && queue->coming_bytes == 0) queue->heard_ns = now_ns;
    if (load) count_coming(queue, part, true);
    if (job->untaken == 1) list_remove(list, job);
    part->taken = true;
    job->untaken--;
    job->refs++;
    if (!job->begun_ns) job->begun_ns = now_ns;
    return part;
}

struct mr_tier_part *mr_tier_queue_take(struct mr_tier_queue *queue, uint32_t lane, uint64_t now_ns)
{
    struct mr_tier_part *part = NULL;
    pthread_mutex_lock(&queue->mutex);
    if (lane == 0) {
        part = next_part(queue, &queue->looks, lane, now_ns);
    } else {
        struct mr_tier_job_list *list = queue->loads.first ? &queue->loads : &queue->stores;
        part = next_part(queue, list, lane, now_ns);
    }
    pthread_mutex_unlock(&queue->mutex);
    return part;
}

/* A store knows what is there: the rest is to be written. */
static void begin_writing(struct mr_tier_queue *queue, struct mr_tier_job *job, uint64_t now_ns)
{
    for (uint32_t i = 0; i < job->part_count; i++) {
        struct mr_tier_part *part = &job->parts[i];
        if (!part->released) part->step = MR_TIER_STEP_SET;
        if (job->items[part->item].known) continue;
        if (part->there || job->late || job->abandoned) {
            job->items[part->item].left--;
            if (!part->there) job->items[part->item].bad = true;
            if (job->items[part->item].left == 0) finish_item(queue, job, part->item, now_ns);
            continue;
        }
        part->taken = false;
        job->untaken++;
        job->open++;
    }
    if (job->open == 0) {
        mr_tier_queue_finish_job(queue, job, now_ns);
        return;
    }
    mr_tier_queue_enlist(queue, job);
    mr_tier_queue_ring(queue, 1, queue->options.lane_count);
}

static void finish_look(struct mr_tier_queue *queue, struct mr_tier_part *part, bool good,
                        uint64_t now_ns)
{
    struct mr_tier_job *job = part->job;
    struct mr_tier_slot *item = &job->items[part->item];
    part->there = good;
    job->late |= part->unanswered;
    job->open--;
    if (job->work == MR_TIER_LOOKUP) {
        if (!good) item->bad = true;
        if (--item->left == 0) finish_item(queue, job, part->item, now_ns);
        if (!good) mr_key_memory_remove(queue->present, item->key);
        if (job->open == 0 && job->untaken == 0) mr_tier_queue_finish_job(queue, job, now_ns);
    } else if (job->open == 0 && job->untaken == 0) {
        begin_writing(queue, job, now_ns);
    }
}

bool mr_tier_queue_finish(struct mr_tier_queue *queue, struct mr_tier_part *part, bool good,
                          uint64_t now_ns)
{
    struct mr_tier_job *job = part->job;
    bool again = false;
    pthread_mutex_lock(&queue->mutex);
    switch (part->step) {
    case MR_TIER_STEP_LOOK:
        if (!part->released) finish_look(queue, part, good, now_ns);
        break;
    case MR_TIER_STEP_GET:
        count_coming(queue, part, false);
        if (queue->loads.first) mr_tier_queue_ring(queue, 1, queue->options.lane_count);
        if (!part->released) close_part(queue, part, good, now_ns);
        again = good || part->damaged;
        part->step = MR_TIER_STEP_TIDY;
        break;
    case MR_TIER_STEP_SET:
        if (!part->released) close_part(queue, part, good, now_ns);
        break;
    case MR_TIER_STEP_TIDY:
        break;
    }
    if (!again) mr_tier_queue_unref(queue, job);
    pthread_mutex_unlock(&queue->mutex);
    return again;
}

void mr_tier_queue_damaged(struct mr_tier_queue *queue, struct mr_tier_part *part,
                           enum mr_verdict cause)
{
    part->damaged = true;
    pthread_mutex_lock(&queue->mutex);
    queue->stats.damaged[cause]++;
    pthread_mutex_unlock(&queue->mutex);
}

bool mr_tier_queue_refused(struct mr_tier_queue *queue, uint64_t now_ns)
{
    pthread_mutex_lock(&queue->mutex);
    queue->paused_until_ns = now_ns + REFUSED_PAUSE_NS;
    mr_tier_queue_count(queue, MR_TIER_REFUSALS, 1);
    bool news = !queue->told_refusal_ns || now_ns - queue->told_refusal_ns > REFUSED_TOLD_NS;
    if (news) queue->told_refusal_ns = now_ns;
    pthread_mutex_unlock(&queue->mutex);
    return news;
}

bool mr_tier_queue_is_unwanted(struct mr_tier_queue *queue, const struct mr_tier_part *part)
{
    pthread_mutex_lock(&queue->mutex);
    const struct mr_tier_job *job = part->job;
    bool get = part->step == MR_TIER_STEP_GET, tidy = part->step == MR_TIER_STEP_TIDY;
    bool unwanted = (job->abandoned && job->work != MR_TIER_LOOKUP && !tidy) ||
                    (get && part->item < job->skip_below);
    unwanted = unwanted && !part->released;
    pthread_mutex_unlock(&queue->mutex);
    return unwanted;
}

void mr_tier_queue_release(struct mr_tier_queue *queue, struct mr_tier_part *part, uint64_t now_ns)
{
    pthread_mutex_lock(&queue->mutex);
    MR_ASSERT(!part->released);
    part->released = true;
    if (part->step == MR_TIER_STEP_LOOK)
        finish_look(queue, part, false, now_ns);
    else
        close_part(queue, part, false, now_ns);
    pthread_mutex_unlock(&queue->mutex);
}

uint64_t mr_tier_queue_expire(struct mr_tier_queue *queue, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    pthread_mutex_lock(&queue->mutex);
    for (struct mr_tier_job *job = queue->all; job; job = job->next_all) {
        if (job->final || job->untaken == 0) continue;
        if (job->deadline_ns <= now_ns)
            mr_tier_queue_drop(queue, job, UINT32_MAX, now_ns);
        else if (job->deadline_ns < next_ns)
            next_ns = job->deadline_ns;
    }
    pthread_mutex_unlock(&queue->mutex);
    return next_ns;
}

void mr_tier_queue_measured(struct mr_tier_queue *queue, double bytes_per_second, uint64_t now_ns)
{
    pthread_mutex_lock(&queue->mutex);
    measure(queue, bytes_per_second, now_ns);
    pthread_mutex_unlock(&queue->mutex);
}

/* At the start, and when a look-up has come since the last one, which is long ago. */
bool mr_tier_queue_wants_measure(struct mr_tier_queue *queue, uint64_t now_ns)
{
    pthread_mutex_lock(&queue->mutex);
    bool wants = queue->measured_ns == 0 || (queue->asked_ns > queue->measured_ns &&
                                             now_ns - queue->measured_ns > MEASURE_EVERY_NS);
    pthread_mutex_unlock(&queue->mutex);
    return wants;
}
