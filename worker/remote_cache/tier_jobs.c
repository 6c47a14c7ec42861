#include "worker/remote_cache/tier_jobs.h"

#include "codec/check.h"

/* Memory for all jobs (lookups, loads, stores) together: a slice takes 760 bytes, so this is enough
 * for 64 lookups of 700 slices each. Pages that are never needed are never touched. */
#define JOB_BYTES_MAX ((size_t)32 << 20)
#define KEYS_MAX      ((uint32_t)65536)
/* a load of fewer bytes is too short to measure the bandwidth */
#define MEASURE_BYTES ((uint64_t)65536)
/* but a load that took this long is used as a measurement all the same */
#define SLOW_NS ((uint64_t)100000000)

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const double lookup_bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                       0.005,  0.01,    0.025,  0.05,  0.1};
static const double load_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                     0.1,   0.25,   0.5,   1,    2.5,   5};

/* ---- life ---- */

enum mr_status mr_tier_jobs_create(struct mr_tier_jobs *jobs, uint32_t thread_count,
                                   uint64_t present_ns, struct mr_error *err)
{
    *jobs = (struct mr_tier_jobs){.thread_count = thread_count};
    mr_tier_pace_init(&jobs->pace);
    mr_histogram_init(&jobs->stats.lookup_seconds, lookup_bounds, COUNT_OF(lookup_bounds));
    mr_histogram_init(&jobs->stats.load_seconds, load_bounds, COUNT_OF(load_bounds));
    enum mr_status status = mr_key_memory_create(&jobs->present, KEYS_MAX, present_ns, err);
    return status == MR_OK ? mr_tier_memory_create(&jobs->memory, JOB_BYTES_MAX, err) : status;
}

static void free_job(struct mr_tier_jobs *jobs, struct mr_tier_job *job)
{
    struct mr_tier_job **link = &jobs->all;
    while (*link != job)
        link = &(*link)->next_all;
    *link = job->next_all;
    jobs->job_count--;
    mr_tier_memory_give(jobs->memory, job);
}

void mr_tier_jobs_destroy(struct mr_tier_jobs *jobs)
{
    while (jobs->all)
        free_job(jobs, jobs->all);
    mr_key_memory_destroy(jobs->present);
    mr_tier_memory_destroy(jobs->memory);
}

static void release_ref(struct mr_tier_jobs *jobs, struct mr_tier_job *job)
{
    MR_ASSERT(job->refs > 0);
    if (--job->refs == 0) free_job(jobs, job);
}

void mr_tier_jobs_ring(struct mr_tier_jobs *jobs, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (jobs->wakes[i]) mr_wake_ring(jobs->wakes[i]);
}

void mr_tier_jobs_count(struct mr_tier_jobs *jobs, enum mr_tier_counter counter, uint64_t amount)
{
    jobs->stats.counters[counter] += amount;
}

/* ---- answers ---- */

static void post_answer(struct mr_tier_jobs *jobs, struct mr_tier_note *note,
                        struct mr_tier_job *job)
{
    note->next = NULL;
    note->job = job;
    if (jobs->last_answer)
        jobs->last_answer->next = note;
    else
        jobs->first_answer = note;
    jobs->last_answer = note;
    jobs->answered = true;
}

bool mr_tier_jobs_poll(struct mr_tier_jobs *jobs, struct mr_tier_answer *answer)
{
    bool found = false;
    while (!found && jobs->first_answer) {
        struct mr_tier_note *note = jobs->first_answer;
        jobs->first_answer = note->next;
        if (!jobs->first_answer) jobs->last_answer = NULL;
        found = note->answer.final || !note->job->abandoned;
        *answer = note->answer;
        if (note->answer.final) release_ref(jobs, note->job);
    }
    return found;
}

static void measure_lookup(struct mr_tier_jobs *jobs, const struct mr_tier_job *job,
                           uint64_t now_ns)
{
    uint64_t took_ns = now_ns - job->posted_ns;
    mr_tier_jobs_count(jobs, MR_TIER_ITEMS_FOUND, mr_tier_job_present(job));
    if (job->late) {
        mr_tier_jobs_count(jobs, MR_TIER_LOOKUPS_LATE, 1);
        return;
    }
    mr_tier_pace_lookup_took(&jobs->pace, took_ns);
    mr_histogram_observe(&jobs->stats.lookup_seconds, (double)took_ns / 1e9);
}

/* Updates the bandwidth estimate from a load that has ended, also from one that received nothing
 * for a long time. */
static void measure_load(struct mr_tier_jobs *jobs, const struct mr_tier_job *job, uint64_t now_ns)
{
    uint64_t took_ns = now_ns - job->begun_ns;
    bool cut_short = job->abandoned || job->skip_below > 0;
    if (job->done_bytes) mr_histogram_observe(&jobs->stats.load_seconds, (double)took_ns / 1e9);
    if (job->done_bytes < MEASURE_BYTES && (cut_short || took_ns < SLOW_NS)) return;
    mr_tier_pace_measure(&jobs->pace, 1e9 * (double)(job->done_bytes + 1) / (double)took_ns,
                         now_ns);
}

/* ---- finishing ---- */

/* Posts the job's final answer to the engine; call it when no command of the job is outstanding. */
static void finish_job(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns)
{
    MR_ASSERT(!job->final && job->open == 0 && job->untaken == 0);
    struct mr_tier_note *note = &job->answers[job->item_count];
    job->final = true;
    if (job->work == MR_TIER_LOOKUP && !job->abandoned) measure_lookup(jobs, job, now_ns);
    if (job->work == MR_TIER_STORE) jobs->stats.waiting_store_bytes -= job->bytes;
    if (job->work == MR_TIER_LOAD && job->begun_ns && now_ns > job->begun_ns)
        measure_load(jobs, job, now_ns);
    note->answer = (struct mr_tier_answer){
        .ticket = job->ticket, .work = job->work, .final = true, .count = mr_tier_job_present(job)};
    post_answer(jobs, note, job);
}

static void finish_if_done(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns)
{
    if (job->open == 0 && job->untaken == 0) finish_job(jobs, job, now_ns);
}

static void finish_load_item(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint32_t index)
{
    const struct mr_tier_entry *item = &job->items[index];
    bool skipped = job->abandoned || index < job->skip_below;
    jobs->stats.waiting_load_bytes -= item->length;
    if (item->present) {
        mr_tier_jobs_count(jobs, MR_TIER_ITEMS_LOADED, 1);
        mr_tier_jobs_count(jobs, MR_TIER_BYTES_LOADED, item->length);
    } else {
        mr_key_memory_remove(jobs->present, item->key);
        mr_tier_jobs_count(jobs, skipped ? MR_TIER_ITEMS_SKIPPED : MR_TIER_ITEMS_GONE, 1);
    }
    struct mr_tier_note *note = &job->answers[index];
    note->answer = (struct mr_tier_answer){
        .ticket = job->ticket, .work = job->work, .index = index, .loaded = item->present};
    if (!job->abandoned) post_answer(jobs, note, job);
}

/* The command for one slice of an item has ended; with the last slice the item is present or
 * absent. */
static void finish_slice(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint32_t index,
                         bool good, uint64_t now_ns)
{
    struct mr_tier_entry *item = &job->items[index];
    if (!good) item->failed = true;
    if (--item->open > 0) return;
    item->present = !item->failed;
    if (item->present) mr_key_memory_add(jobs->present, item->key, now_ns);
    if (job->work == MR_TIER_LOAD) {
        finish_load_item(jobs, job, index);
    } else if (job->work == MR_TIER_STORE && !item->not_written && item->present &&
               item->write_bytes == 0) {
        mr_tier_jobs_count(jobs, MR_TIER_ITEMS_KNOWN, 1);
    } else if (job->work == MR_TIER_STORE && !item->not_written) {
        mr_tier_jobs_count(jobs, item->present ? MR_TIER_ITEMS_STORED : MR_TIER_ITEMS_DROPPED, 1);
        mr_tier_jobs_count(jobs, item->present ? MR_TIER_BYTES_STORED : MR_TIER_BYTES_DROPPED,
                           item->write_bytes);
    }
}

/* A GET or SET of one Redis value has ended. */
static void finish_transfer(struct mr_tier_jobs *jobs, struct mr_tier_part *part, bool good,
                            uint64_t now_ns)
{
    struct mr_tier_job *job = part->job;
    if (good) job->done_bytes += part->frame.length;
    job->open--;
    finish_slice(jobs, job, part->item, good, now_ns);
    finish_if_done(jobs, job, now_ns);
}

/* ---- waiting ---- */

static bool is_looking_up(const struct mr_tier_job *job)
{
    return job->work != MR_TIER_LOAD && job->parts[0].step == MR_TIER_STEP_LOOKUP;
}

static struct mr_tier_job_list *list_of(struct mr_tier_jobs *jobs, const struct mr_tier_job *job)
{
    if (is_looking_up(job)) return &jobs->lookups;
    return job->work == MR_TIER_LOAD ? &jobs->loads : &jobs->stores;
}

void mr_tier_jobs_add(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns)
{
    job->next_all = jobs->all;
    jobs->all = job;
    jobs->job_count++;
    if (job->work == MR_TIER_LOAD) jobs->stats.waiting_load_bytes += job->bytes;
    if (job->work == MR_TIER_STORE) jobs->stats.waiting_store_bytes += job->bytes;
    if (job->open == 0)
        finish_job(jobs, job, now_ns);
    else
        mr_tier_job_list_push(list_of(jobs, job), job);
}

/* The lookup that precedes a store has ended: the values that Redis lacks wait for a thread again,
 * now to be written with SET. The bytes of the others no longer count against the limits. */
static void begin_writing(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns)
{
    uint64_t spared_bytes = 0;
    for (uint32_t i = 0; i < job->part_count; i++) {
        struct mr_tier_part *part = &job->parts[i];
        if (!part->released) part->step = MR_TIER_STEP_SET;
        if (job->items[part->item].not_written) continue;
        if (!part->present) job->items[part->item].write_bytes += part->frame.length;
        if (part->present || job->late || job->abandoned) {
            spared_bytes += part->frame.length;
            finish_slice(jobs, job, part->item, part->present, now_ns);
            continue;
        }
        part->taken = false;
        job->untaken++;
        job->open++;
    }
    mr_byte_budget_give(&jobs->budget, job->tenant, spared_bytes);
    job->bytes -= spared_bytes;
    jobs->stats.waiting_store_bytes -= spared_bytes;
    if (job->open == 0) {
        finish_job(jobs, job, now_ns);
        return;
    }
    mr_tier_job_list_push(list_of(jobs, job), job);
    mr_tier_jobs_ring(jobs, 1, jobs->thread_count);
}

static void end_lookup_if_done(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns)
{
    if (job->work == MR_TIER_LOOKUP)
        finish_if_done(jobs, job, now_ns);
    else if (job->open == 0 && job->untaken == 0)
        begin_writing(jobs, job, now_ns);
}

/* Ends a lookup early: items whose STRLEN command was not yet sent count as absent. */
static void drop_lookup(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint64_t now_ns)
{
    mr_tier_job_list_remove(&jobs->lookups, job);
    job->open -= job->untaken;
    job->untaken = 0;
    for (uint32_t i = 0; i < job->part_count; i++) {
        if (!job->parts[i].taken) job->items[job->parts[i].item].failed = true;
        job->parts[i].taken = true;
    }
    job->late = true;
    end_lookup_if_done(jobs, job, now_ns);
}

void mr_tier_jobs_drop(struct mr_tier_jobs *jobs, struct mr_tier_job *job, uint32_t below,
                       uint64_t now_ns)
{
    if (job->final || job->untaken == 0) return;
    if (is_looking_up(job)) {
        drop_lookup(jobs, job, now_ns);
        return;
    }
    struct mr_tier_job_list *list = list_of(jobs, job);
    for (uint32_t i = 0; i < job->part_count && job->untaken; i++) {
        struct mr_tier_part *part = &job->parts[i];
        if (part->taken || part->item >= below) continue;
        if (--job->untaken == 0) mr_tier_job_list_remove(list, job);
        part->taken = true;
        if (job->work == MR_TIER_STORE)
            mr_byte_budget_give(&jobs->budget, job->tenant, part->frame.length);
        finish_transfer(jobs, part, false, now_ns);
    }
}

void mr_tier_jobs_drop_list(struct mr_tier_jobs *jobs, struct mr_tier_job_list *list,
                            uint64_t now_ns)
{
    while (list->first)
        mr_tier_jobs_drop(jobs, list->first, UINT32_MAX, now_ns);
}

/* ---- taking ---- */

/* The next Redis value to transfer of the list's first job: in a load the last one not taken,
 * otherwise the first one. */
static struct mr_tier_part *next_part(const struct mr_tier_job_list *list)
{
    struct mr_tier_job *job = list->first;
    if (!job) return NULL;
    bool load = job->work == MR_TIER_LOAD;
    for (uint32_t i = 0; i < job->part_count; i++) {
        struct mr_tier_part *part = &job->parts[load ? job->part_count - 1 - i : i];
        if (!part->taken) return part;
    }
    return NULL;
}

struct mr_tier_part *mr_tier_jobs_take(struct mr_tier_jobs *jobs, uint32_t thread, uint64_t now_ns)
{
    struct mr_tier_job_list *list = thread == 0         ? &jobs->lookups
                                    : jobs->loads.first ? &jobs->loads
                                                        : &jobs->stores;
    struct mr_tier_part *part = next_part(list);
    if (!part) return NULL;
    struct mr_tier_job *job = part->job;
    MR_ASSERT(job->untaken > 0);
    if (list == &jobs->loads) {
        if (!mr_tier_pace_allows(&jobs->pace, thread, part->frame.length)) return NULL;
        mr_tier_pace_request(&jobs->pace, thread, part->frame.length, now_ns);
    }
    if (--job->untaken == 0) mr_tier_job_list_remove(list, job);
    part->thread = thread;
    part->taken = true;
    job->refs++;
    if (!job->begun_ns) job->begun_ns = now_ns;
    return part;
}

static void finish_lookup(struct mr_tier_jobs *jobs, struct mr_tier_part *part, bool good,
                          uint64_t now_ns)
{
    struct mr_tier_job *job = part->job;
    part->present = good;
    job->late |= part->unanswered;
    job->open--;
    if (job->work == MR_TIER_LOOKUP) {
        finish_slice(jobs, job, part->item, good, now_ns);
        if (!good) mr_key_memory_remove(jobs->present, job->items[part->item].key);
    }
    end_lookup_if_done(jobs, job, now_ns);
}

bool mr_tier_jobs_finish(struct mr_tier_jobs *jobs, struct mr_tier_part *part, bool good,
                         uint64_t now_ns)
{
    struct mr_tier_job *job = part->job;
    bool again = false;
    if (part->step == MR_TIER_STEP_GET) {
        mr_tier_pace_finish(&jobs->pace, part->thread, part->frame.length);
        if (jobs->loads.first) mr_tier_jobs_ring(jobs, 1, jobs->thread_count);
        again = good || part->damaged;
    }
    if (!part->released && part->step == MR_TIER_STEP_LOOKUP)
        finish_lookup(jobs, part, good, now_ns);
    else if (!part->released && part->step != MR_TIER_STEP_CLEANUP)
        finish_transfer(jobs, part, good, now_ns);
    if (again) part->step = MR_TIER_STEP_CLEANUP;
    if (!again) release_ref(jobs, job);
    return again;
}

void mr_tier_jobs_release(struct mr_tier_jobs *jobs, struct mr_tier_part *part, uint64_t now_ns)
{
    MR_ASSERT(!part->released);
    part->released = true;
    if (part->step == MR_TIER_STEP_LOOKUP)
        finish_lookup(jobs, part, false, now_ns);
    else
        finish_transfer(jobs, part, false, now_ns);
}

void mr_tier_jobs_check(const struct mr_tier_jobs *jobs)
{
    uint32_t count = 0;
    uint64_t store_bytes = 0;
    for (const struct mr_tier_job *job = jobs->all; job; job = job->next_all) {
        uint32_t untaken = 0;
        count++;
        for (uint32_t i = 0; i < job->part_count; i++)
            untaken += !job->parts[i].taken;
        MR_ASSERT(untaken == job->untaken && job->untaken <= job->open);
        MR_ASSERT(!job->final || job->open == 0);
        if (job->work == MR_TIER_STORE && !job->final) store_bytes += job->bytes;
    }
    MR_ASSERT((mr_tier_memory_check(jobs->memory) > 0) == (count > 0));
    mr_tier_pace_check(&jobs->pace);
    MR_ASSERT(count == jobs->job_count && store_bytes == jobs->stats.waiting_store_bytes);
}
