/* The vector of a prompt is the hidden state of its last token, or the mean of all, independent of
 * cached blocks, chunk sizes and the other requests in the step. */
#include "tests/fakes/engine_rig.h"

#include "kvcache/kv_window.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PROMPT 600u

static struct mr_request *make(const struct engine_rig *rig, const char *id, uint32_t count,
                               struct mr_pooling pooling)
{
    uint32_t tokens[RIG_SCORES_MAX];
    rig_tokens(rig, 1, tokens, count);
    struct mr_request *request = mr_fake_request(id, tokens, count);
    request->task = MR_TASK_EMBED;
    request->max_tokens = 0;
    request->pooling = pooling;
    return request;
}

static void check(const struct engine_rig *rig, uint64_t ticket, uint32_t count,
                  struct mr_pooling pooling)
{
    uint32_t tokens[RIG_SCORES_MAX];
    double sums[MR_FAKE_HIDDEN] = {0}, squares = 0;
    const struct rig_seen *seen = &rig->seen[ticket];
    rig_tokens(rig, 1, tokens, count);
    for (uint32_t i = pooling.mean ? 1 : count; i <= count; i++)
        mr_fake_add_hidden(tokens, i, sums);
    for (uint32_t i = 0; i < MR_FAKE_HIDDEN; i++) {
        sums[i] /= pooling.mean ? count : 1;
        squares += sums[i] * sums[i];
    }
    assert_int_equal(seen->results, 1);
    assert_int_equal(seen->choices[0].finish, MR_FINISH_LENGTH);
    assert_int_equal(seen->choices[0].completion_tokens, 0);
    assert_int_equal(seen->result.embedding_size, MR_FAKE_HIDDEN);
    for (uint32_t i = 0; i < MR_FAKE_HIDDEN; i++) {
        double right = pooling.normalize ? sums[i] / sqrt(squares) : sums[i];
        if (fabs((double)seen->embedding[i] - right) > 1e-4)
            fail_msg("number %u is %g, not %g", i, (double)seen->embedding[i], right);
    }
}

static void a_vector_may_be_cut(void **state)
{
    (void)state;
    static const uint32_t dimensions[] = {1, MR_FAKE_HIDDEN, MR_FAKE_HIDDEN + 1};
    struct engine_rig rig;
    rig_init(&rig);
    rig_start(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mr_pooling pooling = {.normalize = true, .dimensions = dimensions[i]};
        bool fits = dimensions[i] <= MR_FAKE_HIDDEN;
        assert_int_equal(rig_submit(&rig, i, make(&rig, "abc" + i, 20, pooling)),
                         fits ? MR_OK : MR_INVALID_REQUEST);
        rig_run(&rig);
        assert_int_equal(rig.seen[i].result.embedding_size, fits ? dimensions[i] : 0);
    }
    assert_true(fabsf(fabsf(rig.seen[0].embedding[0]) - 1.0f) < 1e-6f);
    rig_end(&rig);
}

static const struct mr_pooling poolings[] = {{.mean = false},
                                             {.mean = true},
                                             {.mean = false, .normalize = true},
                                             {.mean = true, .normalize = true}};

static void prompts_of_any_length_and_chunk(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 2, 64, 255, 256, 257, PROMPT};
    static const int32_t chunks[] = {0, 1, 7, 512};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++)
            for (uint32_t ahead = 0; ahead <= MR_STEPS_AHEAD_MAX; ahead++) {
                struct engine_rig rig;
                const struct mr_pooling pooling = poolings[(i + k) % 4];
                rig_init(&rig);
                rig.options.chunk_tokens = chunks[k];
                rig.fake_options.steps_ahead = ahead;
                rig.fake_options.remote = true;
                rig_start(&rig);
                assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", lengths[i], pooling)), MR_OK);
                rig_run(&rig);
                check(&rig, 0, lengths[i], pooling);
                assert_int_equal(rig.fake->row_count, lengths[i]);
                rig_end(&rig);
            }
}

/* The last token's state needs only the last row; the mean needs all. */
static void caches_serve_what_they_can(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct engine_rig rig;
        rig_init(&rig);
        rig.options.prompt_cache_entries = 4;
        rig_start(&rig);
        for (uint64_t ticket = 0; ticket < 2; ticket++) {
            assert_int_equal(
                rig_submit(&rig, ticket, make(&rig, ticket ? "b" : "a", PROMPT, poolings[i])),
                MR_OK);
            rig_run(&rig);
            check(&rig, ticket, PROMPT, poolings[i]);
        }
        assert_int_equal(rig.fake->row_count, PROMPT + (poolings[i].mean ? PROMPT : 1));
        rig_end(&rig);
    }
}

static void requests_of_all_kinds_share_steps(void **state)
{
    (void)state;
    static const char *const ids[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    for (uint32_t ahead = 0; ahead <= MR_STEPS_AHEAD_MAX; ahead++) {
        struct engine_rig rig;
        rig_init(&rig);
        rig.options.prefills_max = 8;
        rig.options.block_count = RIG_BLOCKS(2048);
        rig.fake_options.steps_ahead = ahead;
        rig.fake_options.remote = true;
        rig_start(&rig);
        for (uint64_t ticket = 0; ticket < 10; ticket++) {
            struct mr_request *request =
                make(&rig, ids[ticket], 300 + 29 * (uint32_t)ticket, poolings[ticket % 4]);
            if (ticket % 3 == 0) {
                request->task = MR_TASK_GENERATE;
                request->max_tokens = 300;
                request->ignore_eos = true;
                request->scores_prompt = ticket % 2;
            }
            assert_int_equal(rig_submit(&rig, ticket, request), MR_OK);
        }
        rig_run(&rig);
        for (uint64_t ticket = 0; ticket < 10; ticket++) {
            assert_int_equal(rig.seen[ticket].results, 1);
            if (ticket % 3 != 0)
                check(&rig, ticket, 300 + 29 * (uint32_t)ticket, poolings[ticket % 4]);
        }
        rig_end(&rig);
    }
}

static void sliding_windows_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct engine_rig rig;
        rig_init(&rig);
        rig.options.window_tokens = MR_BLOCK_TOKENS + 20u;
        rig.options.window_slots = 64 * mr_kv_window_blocks(MR_BLOCK_TOKENS + 20u, 512);
        rig_start(&rig);
        assert_int_equal(rig_submit(&rig, 0, make(&rig, "a", PROMPT, poolings[i])), MR_OK);
        rig_run(&rig);
        check(&rig, 0, PROMPT, poolings[i]);
        rig_end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vector_may_be_cut),
        cmocka_unit_test(prompts_of_any_length_and_chunk),
        cmocka_unit_test(caches_serve_what_they_can),
        cmocka_unit_test(requests_of_all_kinds_share_steps),
        cmocka_unit_test(sliding_windows_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
