#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kvcache/remote/remote_queue.h"
#include "tests/fakes/allocations.h"
#include "tests/fakes/engine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 1024u
#define REQUESTS   12u
#define SHARED     1100u /* tokens */

/* A Redis shared by two engines, each with a queue of its own. */
struct shelf {
    char keys[VALUES_MAX][MR_REMOTE_KEY_BYTES];
    void *payloads[VALUES_MAX];
    uint32_t count;
};

struct stand {
    struct engine_rig rig;
    struct mr_remote_queue *queue;
    struct mr_remote_cache table;
    struct shelf *shelf;
};

static uint64_t now_of(const struct stand *stand)
{
    return stand->rig.fake->now_ns;
}

static bool ask(void *context, const struct mr_remote_operation *posted)
{
    struct stand *stand = context;
    return mr_remote_queue_post(stand->queue, MR_REMOTE_LOOKUP, posted, now_of(stand)) > 0;
}

static bool load(void *context, const struct mr_remote_operation *posted)
{
    struct stand *stand = context;
    return mr_remote_queue_post(stand->queue, MR_REMOTE_LOAD, posted, now_of(stand)) > 0;
}

static uint32_t store(void *context, const struct mr_remote_operation *posted)
{
    struct stand *stand = context;
    return mr_remote_queue_post(stand->queue, MR_REMOTE_STORE, posted, now_of(stand));
}

static void skip_values(void *context, uint64_t id, uint32_t index)
{
    mr_remote_queue_skip(((struct stand *)context)->queue, id, index);
}

static void cancel(void *context, uint64_t id)
{
    mr_remote_queue_cancel(((struct stand *)context)->queue, id);
}

static bool poll_answer(void *context, struct mr_remote_answer *answer)
{
    return mr_remote_queue_poll(((struct stand *)context)->queue, answer);
}

static struct mr_remote_rates rates(void *context)
{
    return mr_remote_queue_rates(((struct stand *)context)->queue);
}

static uint32_t find(const struct shelf *shelf, const struct mr_remote_slice *slice)
{
    uint32_t i = 0;
    while (i < shelf->count && strcmp(shelf->keys[i], slice->key) != 0)
        i++;
    return i;
}

/* Processes a slice like a connection thread and Redis. */
static bool do_slice(struct shelf *shelf, struct mr_remote_slice *slice)
{
    uint32_t i = find(shelf, slice);
    bool there = i < shelf->count;
    if (slice->step == MR_REMOTE_STEP_GET && there)
        memcpy(slice->payload, shelf->payloads[i], slice->frame.length);
    if (slice->step != MR_REMOTE_STEP_SET || there) return there;
    assert_true(i < VALUES_MAX);
    memcpy(shelf->keys[i], slice->key, slice->key_length + 1);
    shelf->payloads[i] = malloc(slice->frame.length);
    memcpy(shelf->payloads[i], slice->payload, slice->frame.length);
    shelf->count++;
    return true;
}

static void serve(struct stand *stand)
{
    struct mr_remote_slice *slice;
    for (uint32_t thread = 0; thread < 3; thread++)
        while ((slice = mr_remote_queue_take(stand->queue, thread, now_of(stand))) != NULL)
            while (mr_remote_queue_finish(stand->queue, slice, do_slice(stand->shelf, slice),
                                          now_of(stand)))
                ;
    mr_remote_queue_check(stand->queue);
}

static void start(struct stand *stand, struct shelf *shelf)
{
    struct mr_remote_queue_options options = {.thread_count = 3,
                                              .lookup_timeout_ns = UINT64_MAX / 4,
                                              .transfer_timeout_ns = UINT64_MAX / 4,
                                              .store_bytes_max = 1 << 30,
                                              .present_ns = UINT64_MAX / 4};
    stand->shelf = shelf;
    stand->table =
        (struct mr_remote_cache){stand, ask, load, skip_values, store, poll_answer, cancel, rates};
    assert_int_equal(mr_remote_queue_create(&stand->queue, &options, NULL), MR_OK);
    for (uint32_t i = 0; i < 3; i++)
        mr_remote_queue_set_ready(stand->queue, i, true, 0);
    mr_remote_queue_measured(stand->queue, 1e9, 1);
    rig_init(&stand->rig);
    stand->rig.options.remote = &stand->table;
    stand->rig.options.prompt_cache_entries = 4;
    rig_start(&stand->rig);
}

/* Requests with a common prefix, one after the other; counts the allocations of all steps. */
static void run(struct stand *stand, uint32_t first_ticket)
{
    uint32_t prompt[SHARED + 40];
    for (uint32_t i = first_ticket; i < first_ticket + REQUESTS; i++) {
        char id[16];
        rig_tokens(&stand->rig, i % 3, prompt, SHARED);
        rig_tokens(&stand->rig, 100 + i, prompt + SHARED, 40);
        snprintf(id, sizeof id, "%u", i);
        struct mr_request *posted = mr_fake_request(id, prompt, SHARED + 40);
        posted->max_tokens = 6;
        assert_int_equal(rig_submit(&stand->rig, i, posted), MR_OK);
        for (bool more = true; more;) {
            allocations_count(true);
            more = rig_step(&stand->rig);
            allocations_count(false);
            serve(stand);
        }
    }
}

static void end(struct stand *stand)
{
    rig_end(&stand->rig);
    assert_int_equal(mr_remote_queue_stats(stand->queue).operations, 0);
    mr_remote_queue_destroy(stand->queue);
}

static void a_step_with_a_remote_cache_allocates_nothing(void **state)
{
    (void)state;
    struct shelf *shelf = calloc(1, sizeof *shelf);
    struct stand *writer = calloc(1, sizeof *writer), *reader = calloc(1, sizeof *reader);
    uint64_t before = allocations_counted();
    start(writer, shelf);
    start(reader, shelf);
    run(writer, 0);
    run(reader, REQUESTS);
    assert_int_equal(allocations_counted(), before);
    struct mr_remote_prefix_stats wrote = mr_engine_stats(writer->rig.engine).remote;
    struct mr_remote_prefix_stats loaded = mr_engine_stats(reader->rig.engine).remote;
    assert_true(wrote.lookups > 0 && wrote.stored_values > 0);
    assert_true(loaded.loads > 0 && loaded.loaded_tokens >= 3 * (SHARED - MR_BLOCK_TOKENS));
    end(reader);
    end(writer);
    for (uint32_t i = 0; i < shelf->count; i++)
        free(shelf->payloads[i]);
    free(reader);
    free(writer);
    free(shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_with_a_remote_cache_allocates_nothing),
    };
    allocations_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
