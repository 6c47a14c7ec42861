#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fakes/allocations.h"
#include "tests/fakes/engine_rig.h"
#include "worker/remote_cache/tier_memory.h"
#include "worker/remote_cache/tier_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES  ((size_t)1 << 16)
#define PIECES 40u

static struct mr_tier_memory *make(void)
{
    struct mr_tier_memory *memory;
    assert_int_equal(mr_tier_memory_create(&memory, BYTES, NULL), MR_OK);
    return memory;
}

static void all_memory_can_be_taken_again(void **state)
{
    struct mr_tier_memory *memory = make();
    unsigned char *pieces[BYTES / 128 + 1];
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t count = 0;
        while ((pieces[count] = mr_tier_memory_take(memory, 100)) != NULL)
            count++;
        assert_int_equal(count, BYTES / 128);
        assert_int_equal(mr_tier_memory_check(memory), BYTES);
        for (uint32_t i = 0; i < count; i++) /* from the front, the back, and every other one */
            mr_tier_memory_give(memory, pieces[round == 0   ? i
                                               : round == 1 ? count - 1 - i
                                                            : i * 7 % count]);
        assert_int_equal(mr_tier_memory_check(memory), 0);
        void *whole = mr_tier_memory_take(memory, BYTES - 64);
        assert_non_null(whole);
        mr_tier_memory_give(memory, whole);
    }
    mr_tier_memory_destroy(memory);
}

static void a_piece_that_does_not_fit_is_refused(void **state)
{
    struct mr_tier_memory *memory = make();
    (void)state;
    assert_null(mr_tier_memory_take(memory, SIZE_MAX));
    assert_null(mr_tier_memory_take(memory, BYTES));
    void *left = mr_tier_memory_take(memory, BYTES / 2), *right = mr_tier_memory_take(memory, 1);
    assert_non_null(left);
    assert_non_null(right);
    assert_null(mr_tier_memory_take(memory, BYTES / 2));
    mr_tier_memory_give(memory, left);
    left = mr_tier_memory_take(memory, BYTES / 2);
    assert_non_null(left);
    mr_tier_memory_give(memory, left);
    mr_tier_memory_give(memory, right);
    assert_int_equal(mr_tier_memory_check(memory), 0);
    mr_tier_memory_destroy(memory);
    mr_tier_memory_destroy(NULL);
}

/* Pieces of all sizes, returned in any order. */
static void pieces_are_zeroed_and_do_not_overlap(void **state)
{
    struct mr_tier_memory *memory = make();
    unsigned char *pieces[PIECES] = {0};
    size_t sizes[PIECES];
    uint64_t drawn = 5;
    uint32_t refused = 0;
    (void)state;
    for (uint32_t round = 0; round < 20000; round++) {
        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        uint32_t i = (uint32_t)(drawn >> 33) % PIECES;
        if (pieces[i]) {
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(pieces[i][k], i + 1);
            mr_tier_memory_give(memory, pieces[i]);
            pieces[i] = NULL;
            continue;
        }
        sizes[i] = 1 + (drawn >> 40) % 5000;
        pieces[i] = mr_tier_memory_take(memory, sizes[i]);
        refused += pieces[i] == NULL;
        for (size_t k = 0; pieces[i] && k < sizes[i]; k++)
            assert_int_equal(pieces[i][k], 0);
        if (pieces[i]) memset(pieces[i], (int)i + 1, sizes[i]);
        (void)mr_tier_memory_check(memory);
    }
    assert_in_range(refused, 1, 10000);
    for (uint32_t i = 0; i < PIECES; i++)
        if (pieces[i]) mr_tier_memory_give(memory, pieces[i]);
    assert_int_equal(mr_tier_memory_check(memory), 0);
    mr_tier_memory_destroy(memory);
}

static void returning_a_piece_twice_is_caught(void **state)
{
    struct mr_tier_memory *memory = make();
    (void)state;
    void *piece = mr_tier_memory_take(memory, 10);
    mr_tier_memory_give(memory, piece);
    expect_assert_failure(mr_tier_memory_give(memory, piece));
    mr_tier_memory_destroy(memory);
}

/* ---- an engine step with a tier ---- */

#define VALUES_MAX 1024u
#define REQUESTS   12u
#define SHARED     1100u /* tokens */

/* A Redis shared by two engines, each with a queue of its own. */
struct shelf {
    char keys[VALUES_MAX][MR_TIER_KEY_BYTES];
    void *payloads[VALUES_MAX];
    uint32_t count;
};

struct stand {
    struct engine_rig rig;
    struct mr_tier_queue *queue;
    struct mr_tier table;
    struct shelf *shelf;
};

static uint64_t now_of(const struct stand *stand)
{
    return stand->rig.fake->now_ns;
}

static bool ask(void *context, const struct mr_tier_request *request)
{
    struct stand *stand = context;
    return mr_tier_queue_post(stand->queue, MR_TIER_LOOKUP, request, now_of(stand)) > 0;
}

static bool load(void *context, const struct mr_tier_request *request)
{
    struct stand *stand = context;
    return mr_tier_queue_post(stand->queue, MR_TIER_LOAD, request, now_of(stand)) > 0;
}

static uint32_t store(void *context, const struct mr_tier_request *request)
{
    struct stand *stand = context;
    return mr_tier_queue_post(stand->queue, MR_TIER_STORE, request, now_of(stand));
}

static void skip_items(void *context, uint64_t ticket, uint32_t index)
{
    mr_tier_queue_skip(((struct stand *)context)->queue, ticket, index);
}

static void abandon(void *context, uint64_t ticket)
{
    mr_tier_queue_abandon(((struct stand *)context)->queue, ticket);
}

static bool poll_answer(void *context, struct mr_tier_answer *answer)
{
    return mr_tier_queue_poll(((struct stand *)context)->queue, answer);
}

static struct mr_tier_rates rates(void *context)
{
    return mr_tier_queue_rates(((struct stand *)context)->queue);
}

static uint32_t find(const struct shelf *shelf, const struct mr_tier_part *part)
{
    uint32_t i = 0;
    while (i < shelf->count && strcmp(shelf->keys[i], part->key) != 0)
        i++;
    return i;
}

/* Does with a part what a connection thread and Redis would do. */
static bool do_part(struct shelf *shelf, struct mr_tier_part *part)
{
    uint32_t i = find(shelf, part);
    bool there = i < shelf->count;
    if (part->step == MR_TIER_STEP_GET && there)
        memcpy(part->payload, shelf->payloads[i], part->frame.length);
    if (part->step != MR_TIER_STEP_SET || there) return there;
    assert_true(i < VALUES_MAX);
    memcpy(shelf->keys[i], part->key, part->key_length + 1);
    shelf->payloads[i] = malloc(part->frame.length);
    memcpy(shelf->payloads[i], part->payload, part->frame.length);
    shelf->count++;
    return true;
}

static void serve(struct stand *stand)
{
    struct mr_tier_part *part;
    for (uint32_t thread = 0; thread < 3; thread++)
        while ((part = mr_tier_queue_take(stand->queue, thread, now_of(stand))) != NULL)
            while (mr_tier_queue_finish(stand->queue, part, do_part(stand->shelf, part),
                                        now_of(stand)))
                ;
    mr_tier_queue_check(stand->queue);
}

static void start(struct stand *stand, struct shelf *shelf)
{
    struct mr_tier_queue_options options = {.thread_count = 3,
                                            .lookup_timeout_ns = UINT64_MAX / 4,
                                            .transfer_timeout_ns = UINT64_MAX / 4,
                                            .store_bytes_max = 1 << 30,
                                            .present_ns = UINT64_MAX / 4};
    stand->shelf = shelf;
    stand->table =
        (struct mr_tier){stand, ask, load, skip_items, store, poll_answer, abandon, rates};
    assert_int_equal(mr_tier_queue_create(&stand->queue, &options, NULL), MR_OK);
    for (uint32_t i = 0; i < 3; i++)
        mr_tier_queue_set_ready(stand->queue, i, true, 0);
    mr_tier_queue_measured(stand->queue, 1e9, 1);
    rig_init(&stand->rig);
    stand->rig.options.tier = &stand->table;
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
        struct mr_request *request = mr_fake_request(id, prompt, SHARED + 40);
        request->max_tokens = 6;
        assert_int_equal(rig_submit(&stand->rig, i, request), MR_OK);
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
    assert_int_equal(mr_tier_queue_stats(stand->queue).jobs, 0);
    mr_tier_queue_destroy(stand->queue);
}

static void a_step_with_a_tier_allocates_nothing(void **state)
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
    struct mr_shared_cache_stats wrote = mr_engine_stats(writer->rig.engine).shared;
    struct mr_shared_cache_stats loaded = mr_engine_stats(reader->rig.engine).shared;
    assert_true(wrote.lookups > 0 && wrote.stored_items > 0);
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
        cmocka_unit_test(all_memory_can_be_taken_again),
        cmocka_unit_test(a_piece_that_does_not_fit_is_refused),
        cmocka_unit_test(pieces_are_zeroed_and_do_not_overlap),
        cmocka_unit_test(returning_a_piece_twice_is_caught),
        cmocka_unit_test(a_step_with_a_tier_allocates_nothing),
    };
    allocations_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
