/* The choices of one request share the KV of its prompt, even if the request forbids caching.
 */
#include "tests/fakes/engine_rig.h"

#include "kvcache/kv_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PROMPT  600u
#define OUTPUT  16u
#define CHOICES 4u
#define WINDOW  (MR_BLOCK_TOKENS + 20u)

struct caching {
    bool option, read, write;
};

static const struct caching cachings[] = {
    {true, true, true},  {true, true, false},  {true, false, true},  {true, false, false},
    {false, true, true}, {false, true, false}, {false, false, true}, {false, false, false}};

#define CACHINGS (sizeof cachings / sizeof *cachings)

static struct mr_request *make(const struct engine_rig *rig, struct caching caching)
{
    uint32_t tokens[PROMPT];
    rig_tokens(rig, 1, tokens, PROMPT);
    struct mr_request *request = mr_fake_request("a", tokens, PROMPT);
    request->ignore_eos = true;
    request->max_tokens = OUTPUT;
    request->choice_count = CHOICES;
    request->sampling.temperature = 0.7f;
    request->sampling.seed = 5;
    request->sampling.has_seed = true;
    request->cache_read = caching.read;
    request->cache_write = caching.write;
    return request;
}

static void init(struct engine_rig *rig, struct caching caching)
{
    rig_init(rig);
    rig->options.prefix_cache = caching.option;
}

/* The tokens of all choices, with everything shared. */
static void run_plainly(struct rig_seen *seen)
{
    struct engine_rig rig;
    init(&rig, cachings[0]);
    rig_start(&rig);
    assert_int_equal(rig_submit(&rig, 0, make(&rig, cachings[0])), MR_OK);
    rig_run(&rig);
    assert_int_equal(rig.seen[0].choice_count, CHOICES);
    *seen = rig.seen[0];
    rig_end(&rig);
}

/* Runs the request in this rig and checks that no token of the prompt was computed twice. */
static void check_once(struct engine_rig *rig, struct mr_request *request,
                       const struct rig_seen *wanted)
{
    uint64_t rows = PROMPT;
    assert_int_equal(rig_submit(rig, 0, request), MR_OK);
    rig_run(rig);
    const struct rig_seen *seen = &rig->seen[0];
    assert_int_equal(seen->results, 1);
    for (uint32_t i = 0; i < CHOICES; i++) {
        const struct rig_choice *choice = &seen->choices[i];
        assert_memory_equal(choice->tokens, wanted->choices[i].tokens,
                            choice->token_count * sizeof *choice->tokens);
        rows += choice->completion_tokens - 1;
    }
    assert_int_equal(rig->fake->row_count, rows);
    rig_end(rig);
}

static void the_prompt_is_computed_once_whatever_is_cached(void **state)
{
    (void)state;
    static struct rig_seen wanted;
    run_plainly(&wanted);
    for (size_t i = 0; i < CACHINGS; i++) {
        struct engine_rig rig;
        init(&rig, cachings[i]);
        rig_start(&rig);
        check_once(&rig, make(&rig, cachings[i]), &wanted);
    }
}

static void also_one_choice_after_the_other(void **state)
{
    (void)state;
    static struct rig_seen wanted;
    run_plainly(&wanted);
    for (size_t i = 0; i < CACHINGS; i++) {
        struct engine_rig rig;
        init(&rig, cachings[i]);
        rig.options.sequences_max = 1;
        rig_start(&rig);
        check_once(&rig, make(&rig, cachings[i]), &wanted);
    }
}

/* The first token of the first choice is a stop token, so it ends in the step that computed the
 * prompt. */
static void also_when_the_first_choice_ends_at_once(void **state)
{
    (void)state;
    static struct rig_seen wanted;
    run_plainly(&wanted);
    for (size_t i = 0; i < CACHINGS; i++) {
        struct engine_rig rig;
        init(&rig, cachings[i]);
        rig_start(&rig);
        struct mr_request *request = make(&rig, cachings[i]);
        request->stop_token_ids = mr_fake_ids(request, wanted.choices[0].tokens, 1);
        request->stop_token_count = 1;
        check_once(&rig, request, &wanted);
    }
}

/* The window is shorter than the prompt, so the choices share its last blocks' slots too. */
static void also_with_sliding_window_layers(void **state)
{
    (void)state;
    static struct rig_seen wanted;
    run_plainly(&wanted);
    for (size_t i = 0; i < CACHINGS; i++) {
        struct engine_rig rig;
        init(&rig, cachings[i]);
        rig.options.window_tokens = WINDOW;
        rig.options.window_slots = 64 * mr_kv_window_blocks(WINDOW, 512);
        rig_start(&rig);
        check_once(&rig, make(&rig, cachings[i]), &wanted);
    }
}

static void a_request_that_reads_no_cache_still_computes_its_prompt(void **state)
{
    (void)state;
    for (size_t i = 0; i < CACHINGS; i++) {
        struct engine_rig rig;
        init(&rig, cachings[i]);
        rig_start(&rig);
        for (uint32_t ticket = 0; ticket < 2; ticket++) {
            rig_submit(&rig, ticket, make(&rig, cachings[i]));
            rig_run(&rig);
        }
        bool hits = cachings[i].option && cachings[i].read && cachings[i].write;
        assert_int_equal(rig.seen[1].result.cached_tokens, hits ? PROMPT - 1 : 0);
        assert_int_equal(mr_engine_stats(rig.engine).cache.held_count, 0);
        if (!cachings[i].option || !cachings[i].write)
            assert_int_equal(mr_engine_stats(rig.engine).cache.cached_count, 0);
        rig_end(&rig);
    }
}

static void choices_that_are_preempted_or_cancelled_leave_no_block(void **state)
{
    (void)state;
    static struct rig_seen wanted;
    run_plainly(&wanted);
    for (size_t i = 0; i < CACHINGS; i++)
        for (uint32_t cancelled = 0; cancelled < 2; cancelled++) {
            struct engine_rig rig;
            init(&rig, cachings[i]);
            rig.options.sequences_max = 3;
            rig.options.force_preempt_every = 3;
            rig_start(&rig);
            assert_int_equal(rig_submit(&rig, 0, make(&rig, cachings[i])), MR_OK);
            for (uint32_t steps = 0; steps < 9; steps++)
                rig_step(&rig);
            if (cancelled) mr_engine_cancel(rig.engine, 0, (struct mr_text){"a", 1});
            rig_run(&rig);
            for (uint32_t choice = 0; choice < CHOICES; choice++)
                assert_memory_equal(rig.seen[0].choices[choice].tokens,
                                    wanted.choices[choice].tokens,
                                    rig.seen[0].choices[choice].token_count * sizeof(uint32_t));
            assert_int_equal(mr_engine_stats(rig.engine).cache.held_count, 0);
            rig_end(&rig);
        }
}

/* The prompt fills the pool, so no choice has a block for its first token. */
static void choices_of_a_prompt_as_large_as_the_pool_end_with_one_token(void **state)
{
    (void)state;
    const uint32_t count = 3 * MR_BLOCK_TOKENS;
    uint32_t tokens[3 * MR_BLOCK_TOKENS];
    for (size_t i = 0; i < CACHINGS; i++) {
        struct engine_rig rig;
        init(&rig, cachings[i]);
        rig.options.block_count = 3;
        rig_start(&rig);
        rig_tokens(&rig, 1, tokens, count);
        struct mr_request *request = mr_fake_request("a", tokens, count);
        request->ignore_eos = true;
        request->choice_count = CHOICES;
        rig_submit(&rig, 0, request);
        rig_run(&rig);
        for (uint32_t choice = 0; choice < CHOICES; choice++) {
            assert_int_equal(rig.seen[0].choices[choice].finish, MR_FINISH_POOL_EXHAUSTED);
            assert_int_equal(rig.seen[0].choices[choice].token_count, 1);
        }
        rig_end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prompt_is_computed_once_whatever_is_cached),
        cmocka_unit_test(also_one_choice_after_the_other),
        cmocka_unit_test(also_when_the_first_choice_ends_at_once),
        cmocka_unit_test(also_with_sliding_window_layers),
        cmocka_unit_test(a_request_that_reads_no_cache_still_computes_its_prompt),
        cmocka_unit_test(choices_that_are_preempted_or_cancelled_leave_no_block),
        cmocka_unit_test(choices_of_a_prompt_as_large_as_the_pool_end_with_one_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
