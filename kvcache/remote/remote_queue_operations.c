#include "kvcache/remote/remote_queue_state.h"

#include "codec/check.h"

/* Memory for all operations together: a slice takes 760 bytes, so this is enough for 64 lookups of
 * 700 slices each. Pages that are never needed are never touched. */
#define OPERATION_BYTES_MAX ((size_t)32 << 20)
#define KEYS_MAX            ((uint32_t)65536)
/* a load of fewer bytes is too short to measure the bandwidth */
#define MEASURE_BYTES ((uint64_t)65536)
/* a load that took this long is used as a measurement, regardless of its size */
#define SLOW_NS ((uint64_t)100000000)

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const double lookup_bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                       0.005,  0.01,    0.025,  0.05,  0.1};
static const double load_bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                     0.1,   0.25,   0.5,   1,    2.5,   5};

/* ---- life ---- */

enum mr_status mr_operations_create(struct mr_operations *operations, uint32_t thread_count,
                                    uint64_t present_ns, struct mr_error *err)
{
    *operations = (struct mr_operations){.thread_count = thread_count};
    mr_load_pace_init(&operations->pace);
    mr_histogram_init(&operations->stats.lookup_seconds, lookup_bounds, COUNT_OF(lookup_bounds));
    mr_histogram_init(&operations->stats.load_seconds, load_bounds, COUNT_OF(load_bounds));
    enum mr_status status = mr_key_memory_create(&operations->present, KEYS_MAX, present_ns, err);
    return status == MR_OK ? mr_queue_memory_create(&operations->memory, OPERATION_BYTES_MAX, err)
                           : status;
}

static void free_operation(struct mr_operations *operations, struct mr_queued_operation *operation)
{
    struct mr_queued_operation **link = &operations->all;
    while (*link != operation)
        link = &(*link)->next_all;
    *link = operation->next_all;
    operations->operation_count--;
    mr_queue_memory_give(operations->memory, operation);
}

void mr_operations_destroy(struct mr_operations *operations)
{
    while (operations->all)
        free_operation(operations, operations->all);
    mr_key_memory_destroy(operations->present);
    mr_queue_memory_destroy(operations->memory);
}

static void release_ref(struct mr_operations *operations, struct mr_queued_operation *operation)
{
    MR_ASSERT(operation->refs > 0);
    if (--operation->refs == 0) free_operation(operations, operation);
}

void mr_operations_wake(struct mr_operations *operations, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        operations->wakes |= 1u << i;
}

void mr_operations_count(struct mr_operations *operations, enum mr_remote_counter counter,
                         uint64_t amount)
{
    operations->stats.counters[counter] += amount;
}

/* ---- answers ---- */

static void post_answer(struct mr_operations *operations, struct mr_queued_answer *queued,
                        struct mr_queued_operation *operation)
{
    queued->next = NULL;
    queued->operation = operation;
    if (operations->last_answer)
        operations->last_answer->next = queued;
    else
        operations->first_answer = queued;
    operations->last_answer = queued;
    operations->answered = true;
}

bool mr_operations_poll(struct mr_operations *operations, struct mr_remote_answer *answer)
{
    bool found = false;
    while (!found && operations->first_answer) {
        struct mr_queued_answer *queued = operations->first_answer;
        operations->first_answer = queued->next;
        if (!operations->first_answer) operations->last_answer = NULL;
        found = queued->answer.final || !queued->operation->cancelled;
        *answer = queued->answer;
        if (queued->answer.final) release_ref(operations, queued->operation);
    }
    return found;
}

static void measure_lookup(struct mr_operations *operations,
                           const struct mr_queued_operation *operation, uint64_t now_ns)
{
    uint64_t took_ns = now_ns - operation->posted_ns;
    mr_operations_count(operations, MR_REMOTE_VALUES_FOUND, mr_queued_operation_present(operation));
    if (operation->late) {
        mr_operations_count(operations, MR_REMOTE_LOOKUPS_LATE, 1);
        return;
    }
    mr_load_pace_lookup_took(&operations->pace, took_ns);
    mr_histogram_observe(&operations->stats.lookup_seconds, (double)took_ns / 1e9);
}

/* Updates the bandwidth estimate from a load that has ended, even if it received nothing for a long
 * time. */
static void measure_load(struct mr_operations *operations,
                         const struct mr_queued_operation *operation, uint64_t now_ns)
{
    uint64_t took_ns = now_ns - operation->begun_ns;
    bool cut_short = operation->cancelled || operation->skip_below > 0;
    if (operation->done_bytes)
        mr_histogram_observe(&operations->stats.load_seconds, (double)took_ns / 1e9);
    if (operation->done_bytes < MEASURE_BYTES && (cut_short || took_ns < SLOW_NS)) return;
    mr_load_pace_measure(&operations->pace,
                         1e9 * (double)(operation->done_bytes + 1) / (double)took_ns, now_ns);
}

/* ---- finishing ---- */

/* Posts the operation's final answer to the engine. No command of the operation may be outstanding.
 */
static void finish_operation(struct mr_operations *operations,
                             struct mr_queued_operation *operation, uint64_t now_ns)
{
    MR_ASSERT(!operation->final && operation->open == 0 && operation->untaken == 0);
    struct mr_queued_answer *queued = &operation->answers[operation->value_count];
    operation->final = true;
    if (operation->kind == MR_REMOTE_LOOKUP && !operation->cancelled)
        measure_lookup(operations, operation, now_ns);
    if (operation->kind == MR_REMOTE_STORE)
        operations->stats.waiting_store_bytes -= operation->bytes;
    if (operation->kind == MR_REMOTE_LOAD && operation->begun_ns && now_ns > operation->begun_ns)
        measure_load(operations, operation, now_ns);
    queued->answer = (struct mr_remote_answer){.id = operation->id,
                                               .kind = operation->kind,
                                               .final = true,
                                               .count = mr_queued_operation_present(operation)};
    post_answer(operations, queued, operation);
}

static void finish_if_done(struct mr_operations *operations, struct mr_queued_operation *operation,
                           uint64_t now_ns)
{
    if (operation->open == 0 && operation->untaken == 0)
        finish_operation(operations, operation, now_ns);
}

static void finish_load_value(struct mr_operations *operations,
                              struct mr_queued_operation *operation, uint32_t index)
{
    const struct mr_queued_value *value = &operation->values[index];
    bool skipped = operation->cancelled || index < operation->skip_below;
    operations->stats.waiting_load_bytes -= value->length;
    if (value->present) {
        mr_operations_count(operations, MR_REMOTE_VALUES_LOADED, 1);
        mr_operations_count(operations, MR_REMOTE_BYTES_LOADED, value->length);
    } else {
        mr_key_memory_remove(operations->present, value->key);
        mr_operations_count(operations, skipped ? MR_REMOTE_VALUES_SKIPPED : MR_REMOTE_VALUES_GONE,
                            1);
    }
    struct mr_queued_answer *queued = &operation->answers[index];
    queued->answer = (struct mr_remote_answer){
        .id = operation->id, .kind = operation->kind, .index = index, .loaded = value->present};
    if (!operation->cancelled) post_answer(operations, queued, operation);
}

/* The command for one slice of a value has ended; with the last slice the value is present or
 * absent. */
static void finish_slice(struct mr_operations *operations, struct mr_queued_operation *operation,
                         uint32_t index, bool good, uint64_t now_ns)
{
    struct mr_queued_value *value = &operation->values[index];
    if (!good) value->failed = true;
    if (--value->open > 0) return;
    value->present = !value->failed;
    if (value->present) mr_key_memory_add(operations->present, value->key, now_ns);
    if (operation->kind == MR_REMOTE_LOAD) {
        finish_load_value(operations, operation, index);
    } else if (operation->kind == MR_REMOTE_STORE && !value->not_written && value->present &&
               value->write_bytes == 0) {
        mr_operations_count(operations, MR_REMOTE_VALUES_KNOWN, 1);
    } else if (operation->kind == MR_REMOTE_STORE && !value->not_written) {
        mr_operations_count(operations,
                            value->present ? MR_REMOTE_VALUES_STORED : MR_REMOTE_VALUES_DROPPED, 1);
        mr_operations_count(operations,
                            value->present ? MR_REMOTE_BYTES_STORED : MR_REMOTE_BYTES_DROPPED,
                            value->write_bytes);
    }
}

/* A GET or SET of one slice has ended. */
static void finish_transfer(struct mr_operations *operations, struct mr_remote_slice *slice,
                            bool good, uint64_t now_ns)
{
    struct mr_queued_operation *operation = slice->operation;
    if (good) operation->done_bytes += slice->frame.length;
    operation->open--;
    finish_slice(operations, operation, slice->value, good, now_ns);
    finish_if_done(operations, operation, now_ns);
}

/* ---- waiting ---- */

static bool is_looking_up(const struct mr_queued_operation *operation)
{
    return operation->kind != MR_REMOTE_LOAD && operation->slices[0].step == MR_REMOTE_STEP_LOOKUP;
}

static struct mr_queued_list *list_of(struct mr_operations *operations,
                                      const struct mr_queued_operation *operation)
{
    if (is_looking_up(operation)) return &operations->lookups;
    return operation->kind == MR_REMOTE_LOAD ? &operations->loads : &operations->stores;
}

void mr_operations_add(struct mr_operations *operations, struct mr_queued_operation *operation,
                       uint64_t now_ns)
{
    operation->next_all = operations->all;
    operations->all = operation;
    operations->operation_count++;
    if (operation->kind == MR_REMOTE_LOAD) operations->stats.waiting_load_bytes += operation->bytes;
    if (operation->kind == MR_REMOTE_STORE)
        operations->stats.waiting_store_bytes += operation->bytes;
    if (operation->open == 0)
        finish_operation(operations, operation, now_ns);
    else
        mr_queued_list_push(list_of(operations, operation), operation);
}

/* The lookup that precedes a store has ended: the slices that Redis lacks wait for a thread again,
 * now to be written with SET. The bytes of the others no longer count against the limits. */
static void begin_writing(struct mr_operations *operations, struct mr_queued_operation *operation,
                          uint64_t now_ns)
{
    uint64_t spared_bytes = 0;
    for (uint32_t i = 0; i < operation->slice_count; i++) {
        struct mr_remote_slice *slice = &operation->slices[i];
        if (!slice->released) slice->step = MR_REMOTE_STEP_SET;
        if (operation->values[slice->value].not_written) continue;
        if (!slice->present) operation->values[slice->value].write_bytes += slice->frame.length;
        if (slice->present || operation->late || operation->cancelled) {
            spared_bytes += slice->frame.length;
            finish_slice(operations, operation, slice->value, slice->present, now_ns);
            continue;
        }
        slice->taken = false;
        operation->untaken++;
        operation->open++;
    }
    mr_byte_budget_give(&operations->budget, operation->tenant, spared_bytes);
    operation->bytes -= spared_bytes;
    operations->stats.waiting_store_bytes -= spared_bytes;
    if (operation->open == 0) {
        finish_operation(operations, operation, now_ns);
        return;
    }
    mr_queued_list_push(list_of(operations, operation), operation);
    mr_operations_wake(operations, 1, operations->thread_count);
}

static void end_lookup_if_done(struct mr_operations *operations,
                               struct mr_queued_operation *operation, uint64_t now_ns)
{
    if (operation->kind == MR_REMOTE_LOOKUP)
        finish_if_done(operations, operation, now_ns);
    else if (operation->open == 0 && operation->untaken == 0)
        begin_writing(operations, operation, now_ns);
}

/* Ends a lookup early: values whose STRLEN command was not yet sent are treated as absent. */
static void drop_lookup(struct mr_operations *operations, struct mr_queued_operation *operation,
                        uint64_t now_ns)
{
    mr_queued_list_remove(&operations->lookups, operation);
    operation->open -= operation->untaken;
    operation->untaken = 0;
    for (uint32_t i = 0; i < operation->slice_count; i++) {
        if (!operation->slices[i].taken)
            operation->values[operation->slices[i].value].failed = true;
        operation->slices[i].taken = true;
    }
    operation->late = true;
    end_lookup_if_done(operations, operation, now_ns);
}

void mr_operations_drop(struct mr_operations *operations, struct mr_queued_operation *operation,
                        uint32_t below, uint64_t now_ns)
{
    if (operation->final || operation->untaken == 0) return;
    if (is_looking_up(operation)) {
        drop_lookup(operations, operation, now_ns);
        return;
    }
    struct mr_queued_list *list = list_of(operations, operation);
    for (uint32_t i = 0; i < operation->slice_count && operation->untaken; i++) {
        struct mr_remote_slice *slice = &operation->slices[i];
        if (slice->taken || slice->value >= below) continue;
        if (--operation->untaken == 0) mr_queued_list_remove(list, operation);
        slice->taken = true;
        if (operation->kind == MR_REMOTE_STORE)
            mr_byte_budget_give(&operations->budget, operation->tenant, slice->frame.length);
        finish_transfer(operations, slice, false, now_ns);
    }
}

void mr_operations_drop_list(struct mr_operations *operations, struct mr_queued_list *list,
                             uint64_t now_ns)
{
    while (list->first)
        mr_operations_drop(operations, list->first, UINT32_MAX, now_ns);
}

/* ---- taking ---- */

/* The next slice to transfer of the list's first operation: in a load the last one not taken,
 * otherwise the first one. */
static struct mr_remote_slice *next_slice(const struct mr_queued_list *list)
{
    struct mr_queued_operation *operation = list->first;
    if (!operation) return NULL;
    bool load = operation->kind == MR_REMOTE_LOAD;
    for (uint32_t i = 0; i < operation->slice_count; i++) {
        struct mr_remote_slice *slice =
            &operation->slices[load ? operation->slice_count - 1 - i : i];
        if (!slice->taken) return slice;
    }
    return NULL;
}

struct mr_remote_slice *mr_operations_take(struct mr_operations *operations, uint32_t thread,
                                           uint64_t now_ns)
{
    struct mr_queued_list *list = thread == 0               ? &operations->lookups
                                  : operations->loads.first ? &operations->loads
                                                            : &operations->stores;
    struct mr_remote_slice *slice = next_slice(list);
    if (!slice) return NULL;
    struct mr_queued_operation *operation = slice->operation;
    MR_ASSERT(operation->untaken > 0);
    if (list == &operations->loads) {
        operations->refused |= 1u << thread;
        if (!mr_load_pace_allows(&operations->pace, thread, slice->frame.length)) return NULL;
        operations->refused &= ~(1u << thread);
        mr_load_pace_request(&operations->pace, thread, slice->frame.length, now_ns);
    }
    if (--operation->untaken == 0) mr_queued_list_remove(list, operation);
    slice->thread = thread;
    slice->taken = true;
    operation->refs++;
    if (!operation->begun_ns) operation->begun_ns = now_ns;
    return slice;
}

static void finish_lookup(struct mr_operations *operations, struct mr_remote_slice *slice,
                          bool good, uint64_t now_ns)
{
    struct mr_queued_operation *operation = slice->operation;
    slice->present = good;
    operation->late |= slice->unanswered;
    operation->open--;
    if (operation->kind == MR_REMOTE_LOOKUP) {
        finish_slice(operations, operation, slice->value, good, now_ns);
        if (!good) mr_key_memory_remove(operations->present, operation->values[slice->value].key);
    }
    end_lookup_if_done(operations, operation, now_ns);
}

/* A load has finished on thread `except`, which looks for its next slice by itself. Wakes of the
 * other threads that the pace refused as many as it allows now, or all of them for stores when no
 * load waits: a wake costs a thread a step, so waking all 16 for each slice would slow the load. */
static void wake_refused(struct mr_operations *operations, uint32_t except)
{
    const struct mr_remote_slice *slice = next_slice(&operations->loads);
    uint64_t bytes = 0;
    for (uint32_t i = 1; i < operations->thread_count; i++) {
        if (i == except || !(operations->refused & 1u << i)) continue;
        if (slice) bytes += slice->frame.length;
        if (slice && !mr_load_pace_allows(&operations->pace, i, bytes)) return;
        operations->refused &= ~(1u << i);
        mr_operations_wake(operations, i, i + 1);
    }
}

bool mr_operations_finish(struct mr_operations *operations, struct mr_remote_slice *slice,
                          bool good, uint64_t now_ns)
{
    struct mr_queued_operation *operation = slice->operation;
    bool again = false;
    if (slice->step == MR_REMOTE_STEP_GET) {
        mr_load_pace_finish(&operations->pace, slice->thread, slice->frame.length);
        wake_refused(operations, slice->thread);
        again = good || slice->damaged;
    }
    if (!slice->released && slice->step == MR_REMOTE_STEP_LOOKUP)
        finish_lookup(operations, slice, good, now_ns);
    else if (!slice->released && slice->step != MR_REMOTE_STEP_CLEANUP)
        finish_transfer(operations, slice, good, now_ns);
    if (again) slice->step = MR_REMOTE_STEP_CLEANUP;
    if (!again) release_ref(operations, operation);
    return again;
}

void mr_operations_release(struct mr_operations *operations, struct mr_remote_slice *slice,
                           uint64_t now_ns)
{
    MR_ASSERT(!slice->released);
    slice->released = true;
    if (slice->step == MR_REMOTE_STEP_LOOKUP)
        finish_lookup(operations, slice, false, now_ns);
    else
        finish_transfer(operations, slice, false, now_ns);
}

void mr_operations_check(const struct mr_operations *operations)
{
    uint32_t count = 0;
    uint64_t store_bytes = 0;
    for (const struct mr_queued_operation *operation = operations->all; operation;
         operation = operation->next_all) {
        uint32_t untaken = 0;
        count++;
        for (uint32_t i = 0; i < operation->slice_count; i++)
            untaken += !operation->slices[i].taken;
        MR_ASSERT(untaken == operation->untaken && operation->untaken <= operation->open);
        MR_ASSERT(!operation->final || operation->open == 0);
        if (operation->kind == MR_REMOTE_STORE && !operation->final)
            store_bytes += operation->bytes;
    }
    MR_ASSERT((mr_queue_memory_check(operations->memory) > 0) == (count > 0));
    mr_load_pace_check(&operations->pace);
    MR_ASSERT(count == operations->operation_count &&
              store_bytes == operations->stats.waiting_store_bytes);
}
