/* Random pairs of prompts with a common part, through the engine with a committed tiny model that
 * has recurrent layers: tokens and log-probabilities of every answer are those of an engine without
 * prefix cache, bit for bit. golden_test_prefix N runs N pairs with each model. */
#include "batching/engine/engine.h"
#include "tests/golden/logits_fixture.h"
#include "worker/bench/bench_workload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OUTPUT = 3, TOP = 3, CHOICES = 2, PROMPT_MAX = 3 * MR_BLOCK_TOKENS };

static const char *const names[] = {"lfm2", "granite_hybrid", "qwen3_next"};
static uint32_t pair_count = 4;

struct answer {
    uint32_t tokens[CHOICES][OUTPUT];
    float logprobs[CHOICES][OUTPUT][1 + TOP];
};

struct scene {
    struct fixture fixture;
    struct mr_engine *engine;
    struct answer *answer; /* of the request that runs */
    uint64_t now_ns;
    bool ended;
};

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    (void)ticket;
    struct scene *scene = context;
    struct answer *answer = scene->answer;
    scene->ended = true;
    assert_int_equal(result->choice_count, request->choice_count);
    for (size_t c = 0; c < result->choice_count; c++)
        for (uint32_t i = 0; i < OUTPUT; i++) {
            const struct mr_logprobs *entry = &result->choices[c].logprobs[i];
            assert_int_equal(result->choices[c].token_count, OUTPUT);
            assert_int_equal(entry->top_count, TOP);
            answer->tokens[c][i] = result->choices[c].token_ids[i];
            answer->logprobs[c][i][0] = entry->chosen.logprob;
            for (uint32_t k = 0; k < TOP; k++)
                answer->logprobs[c][i][1 + k] = entry->top[k].logprob;
        }
    mr_request_destroy(request);
}

static void open_engine(struct scene *scene, bool prefix_cache)
{
    const struct mr_model_info *info = mr_model_info(scene->fixture.model);
    const struct mr_engine_options options = {
        .model = mr_model_port_of(scene->fixture.model, NULL),
        .tokenizer = mr_model_tokenizer(scene->fixture.model),
        .block_count = info->block_count,
        .state_slots = info->state_slots,
        .context_tokens = CONTEXT_TOKENS,
        .sequences_max = 4,
        .rows_max = STEP_ROWS,
        .chunk_tokens = 100,
        .prefills_max = 1,
        .prefill_batch_max = 1,
        .prefill_bytes_max = (uint64_t)1 << 32,
        .prefix_cache = prefix_cache,
        .queue_count_max = 4,
        .queue_bytes_max = (uint64_t)1 << 28,
        .defaults.top_p = 1,
    };
    const struct mr_sink sink = {.context = scene, .result = on_result};
    struct mr_error err;
    assert_true(info->state_slots >= 4);
    if (mr_engine_create(&scene->engine, &options, &sink, &err) != MR_OK)
        fail_msg("%s", err.detail);
}

static void run(struct scene *scene, const uint32_t *tokens, uint32_t count, uint32_t choices,
                struct answer *answer)
{
    uint32_t *ids;
    struct mr_error err;
    uint64_t wake_ns;
    struct mr_request *request = mr_bench_workload_request("r", 0, count, OUTPUT, &ids);
    assert_non_null(request);
    memcpy(ids, tokens, count * sizeof *ids);
    request->sampling.logprobs = TOP;
    request->choice_count = choices;
    request->sampling.temperature = choices > 1 ? 1 : 0;
    request->sampling.seed = count;
    scene->answer = answer;
    scene->ended = false;
    struct mr_submission submission = {.request = request, .tenant = "default"};
    if (mr_engine_submit(scene->engine, &submission, &err) != MR_OK) fail_msg("%s", err.detail);
    for (uint32_t step = 0; !scene->ended; step++) {
        scene->now_ns += 1000000;
        if (mr_engine_step(scene->engine, scene->now_ns, &wake_ns, &err) != MR_OK)
            fail_msg("%s", err.detail);
        assert_true(step < 10000);
    }
}

static uint32_t below(uint64_t *random, uint32_t limit)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % limit;
}

/* Three prompts of each pair: the second one begins with a part of the first one, and the third one
 * with the same part. Returns the prompt tokens that came from the cache. */
static uint64_t run_pairs(struct scene *scene, bool prefix_cache, struct answer *answers)
{
    uint32_t tokens[PROMPT_MAX], first[PROMPT_MAX];
    uint64_t random = 1;
    open_engine(scene, prefix_cache);
    for (uint32_t i = 0; i < pair_count; i++) {
        uint32_t common = 0;
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t count = 1 + below(&random, PROMPT_MAX);
            for (uint32_t at = 0; at < PROMPT_MAX; at++)
                tokens[at] = below(&random, scene->fixture.vocab_size);
            memcpy(tokens, first, common * sizeof *tokens);
            run(scene, tokens, count, 1 + below(&random, CHOICES), answers++);
            if (k > 0) continue;
            memcpy(first, tokens, sizeof first);
            common = below(&random, count + 1);
        }
    }
    mr_engine_check(scene->engine);
    const uint64_t hits = mr_engine_stats(scene->engine).cache.hit_tokens;
    mr_engine_destroy(scene->engine);
    return hits;
}

static void answers_are_those_without_cache(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    const size_t count = (size_t)pair_count * 3;
    struct answer *with = calloc(count, sizeof *with), *without = calloc(count, sizeof *without);
    assert_true(scene && with && without);
    open_golden(&scene->fixture, *state, MR_DTYPE_F32, KV_NUMBERS);
    assert_true(run_pairs(scene, true, with) > 0);
    assert_int_equal(run_pairs(scene, false, without), 0);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(&with[i], &without[i], sizeof *with);
    close_fixture(&scene->fixture);
    free(without);
    free(with);
    free(scene);
}

int main(int argument_count, char **arguments)
{
    struct CMUnitTest tests[sizeof names / sizeof *names];
    size_t count = 0;
    if (argument_count > 1) pair_count = (uint32_t)strtoul(arguments[1], NULL, 10);
    for (size_t i = 0; i < golden_model_count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(golden_models[i].name, names[k]) == 0)
                tests[count++] =
                    (struct CMUnitTest){.name = names[k],
                                        .test_func = answers_are_those_without_cache,
                                        .initial_state = (void *)(uintptr_t)&golden_models[i]};
    if (count != sizeof names / sizeof *names) return 1;
    return _cmocka_run_group_tests("prefix", tests, count, NULL, NULL);
}
