/* A pool far too small for its requests, with forced preemption: the answers equal those of a large
 * pool, block counts are exact, and memory does not grow. */
#include "tests/fakes/engine_rig.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REQUESTS   200u
#define PROMPT_MAX (5u * MR_BLOCK_TOKENS)
#define OUTPUT_MAX (3u * MR_BLOCK_TOKENS / 8u)
#define ENDING_MAX (MR_BLOCK_TOKENS / 4u)
#define RUNS       10u
#define WINDOW     (MR_BLOCK_TOKENS + MR_BLOCK_TOKENS / 4)
#define CHUNK      (2 * (int32_t)MR_BLOCK_TOKENS)

/* The allocator's caches fill in the first runs. The tolerance for later runs is below a leak of
 * one request in a hundred. */
#define WARM_RUNS   5u
#define SLACK_BYTES ((size_t)16 << 10)

struct spec {
    uint32_t prompt[PROMPT_MAX], count, output;
};

static uint32_t below(uint64_t *random, uint32_t bound)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % bound;
}

/* Prompts with one of ten shared beginnings of random length and their own endings; some repeat. */
static struct spec *make_specs(const struct engine_rig *rig)
{
    struct spec *specs = calloc(REQUESTS, sizeof *specs);
    uint64_t random = 99;
    assert_non_null(specs);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct spec *spec = &specs[i];
        if (i > 10 && below(&random, 5) == 0) {
            *spec = specs[below(&random, i)];
            continue;
        }
        uint32_t shared = below(&random, PROMPT_MAX - ENDING_MAX),
                 own = 1 + below(&random, ENDING_MAX - 1);
        rig_tokens(rig, 1 + below(&random, 10), spec->prompt, shared);
        rig_tokens(rig, 1000 + i, spec->prompt + shared, own);
        spec->count = shared + own;
        spec->output = 1 + below(&random, OUTPUT_MAX);
    }
    return specs;
}

/* slot_count 0: no sliding-window layers. */
static void start(struct engine_rig *rig, uint32_t block_count, uint32_t force_preempt_every,
                  uint32_t slot_count)
{
    rig_init(rig);
    rig->options.window_slots = slot_count;
    rig->options.window_tokens = WINDOW;
    rig->options.chunk_tokens = CHUNK;
    rig->options.block_count = block_count;
    rig->options.context_tokens = PROMPT_MAX + OUTPUT_MAX + 8;
    rig->options.prompt_cache_entries = 16;
    rig->options.queue_count_max = REQUESTS;
    rig->options.force_preempt_every = force_preempt_every;
    rig_start(rig);
}

static void run_all(struct engine_rig *rig, const struct spec *specs)
{
    memset(rig->seen, 0, RIG_TICKETS_MAX * sizeof *rig->seen);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        char id[24];
        snprintf(id, sizeof id, "r%u", i);
        struct mr_request *request = mr_fake_request(id, specs[i].prompt, specs[i].count);
        request->max_tokens = specs[i].output;
        request->ignore_eos = true;
        assert_int_equal(rig_submit(rig, i, request), MR_OK);
    }
    rig_run(rig);
    struct mr_engine_stats stats = mr_engine_stats(rig->engine);
    assert_int_equal(stats.cache.held_count, 0);
    assert_int_equal(stats.cache.free_count + stats.cache.cached_count, stats.cache.block_count);
    assert_int_equal(stats.cache.slots_free + stats.cache.slots_cached, stats.cache.slot_count);
}

static void assert_same_answers(const struct engine_rig *one, const struct engine_rig *two,
                                const struct spec *specs)
{
    uint32_t expected[OUTPUT_MAX];
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const struct rig_choice *left = &one->seen[i].choices[0];
        const struct rig_choice *right = &two->seen[i].choices[0];
        assert_int_equal(left->token_count, specs[i].output);
        assert_int_equal(right->token_count, left->token_count);
        assert_memory_equal(left->tokens, right->tokens, left->token_count * sizeof(uint32_t));
        rig_expect(one, specs[i].prompt, specs[i].count, expected, specs[i].output);
        assert_memory_equal(left->tokens, expected, left->token_count * sizeof(uint32_t));
    }
}

static void tight_answers_as_a_roomy_pool_does(uint32_t tight_slots, uint32_t roomy_slots)
{
    struct engine_rig tight, roomy;
    start(&tight, 8, 3, tight_slots);
    start(&roomy, 2048, 0, roomy_slots);
    struct spec *specs = make_specs(&tight);
    run_all(&roomy, specs);
    size_t bytes = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        run_all(&tight, specs);
        assert_same_answers(&tight, &roomy, specs);
        if (run <= WARM_RUNS)
            bytes = mallinfo2().uordblks;
        else
            assert_true(mallinfo2().uordblks <= bytes + SLACK_BYTES);
    }
    struct mr_engine_stats stats = mr_engine_stats(tight.engine);
    assert_true(stats.preemptions > 100);
    assert_true(stats.cached_tokens > 0);
    assert_int_equal(mr_engine_stats(roomy.engine).preemptions, 0);
    free(specs);
    rig_end(&roomy);
    rig_end(&tight);
}

static void eight_blocks_and_forced_preemption_answer_as_a_roomy_pool_does(void **state)
{
    (void)state;
    tight_answers_as_a_roomy_pool_does(0, 0);
}

/* A long sequence needs six slots: for the window, a step and a copy. */
static void nine_slots_of_sliding_layers_answer_as_a_roomy_pool_does(void **state)
{
    (void)state;
    tight_answers_as_a_roomy_pool_does(9, 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_blocks_and_forced_preemption_answer_as_a_roomy_pool_does),
        cmocka_unit_test(nine_slots_of_sliding_layers_answer_as_a_roomy_pool_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
