/* The engine over a real model in fp32: however a prompt is cut, batched, cached or preempted, the
 * greedy answer is the same. Reference: each prompt alone, whole, without any cache. */
#include "batching/engine.h"
#include "batching/model_port.h"
#include "codec/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MODEL   ".deps/model/SmolLM2-135M-Instruct.Q4_1.gguf"
#define PROMPTS 5u
#define ANSWER  12u

static struct mr_model *model;
static uint32_t prompts[PROMPTS][400], lengths[PROMPTS];
static uint32_t expected[PROMPTS][ANSWER];

struct seen {
    uint32_t tokens[PROMPTS][ANSWER], counts[PROMPTS];
    uint32_t cached, preemptions;
};

static uint64_t clock_ns(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void on_delta(void *context, uint64_t ticket, const struct mr_request *request,
                     const struct mr_token_record *record)
{
    (void)context;
    (void)ticket;
    (void)request;
    (void)record;
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    struct seen *seen = context;
    const struct mr_choice *choice = &result->choices[0];
    MR_ASSERT(choice->token_count <= ANSWER);
    seen->counts[ticket] = (uint32_t)choice->token_count;
    memcpy(seen->tokens[ticket], choice->token_ids, choice->token_count * sizeof(uint32_t));
    seen->cached += result->cached_tokens;
    seen->preemptions += result->preemptions;
    mr_request_destroy(request);
}

static struct mr_engine_options usual_options(void)
{
    const struct mr_model_info *info = mr_model_info(model);
    return (struct mr_engine_options){.model = mr_model_port_of(model, clock_ns),
                                      .tokenizer = mr_model_tokenizer(model),
                                      .block_count = info->block_count,
                                      .context_tokens = 1024,
                                      .sequences_max = 16,
                                      .rows_max = 1024,
                                      .chunk_tokens = 512,
                                      .prefills_max = 1,
                                      .prefill_batch_max = 8,
                                      .prefill_bytes_max = UINT64_MAX,
                                      .queue_count_max = 64,
                                      .queue_bytes_max = UINT64_MAX,
                                      .default_temperature = 0.0f,
                                      .eos_ids = info->eos_ids,
                                      .eos_count = info->eos_count};
}

static struct mr_engine *start(const struct mr_engine_options *options, struct seen *seen)
{
    struct mr_engine *engine = NULL;
    struct mr_error err = {0};
    struct mr_sink sink = {.context = seen, .delta = on_delta, .result = on_result};
    *seen = (struct seen){0};
    MR_ASSERT(mr_engine_create(&engine, options, &sink, &err) == MR_OK);
    return engine;
}

static struct mr_request *make_request(uint32_t index)
{
    struct mr_arena *arena = mr_arena_create((size_t)1 << 16);
    struct mr_request *request = mr_arena_take(arena, sizeof *request);
    MR_ASSERT(request != NULL);
    char *id = mr_arena_copy_text(arena, &"01234567"[index], 1);
    *request = (struct mr_request){.arena = arena,
                                   .id = {id, 1},
                                   .token_ids = prompts[index],
                                   .token_count = lengths[index],
                                   .max_tokens = ANSWER,
                                   .ignore_eos = true,
                                   .choice_count = 1,
                                   .cache_read = true,
                                   .cache_write = true,
                                   .sampling = {.temperature = 0.0f,
                                                .top_p = 1.0f,
                                                .typical_p = 1.0f,
                                                .repetition_penalty = 1.0f,
                                                .logprobs = -1}};
    return request;
}

static void submit(struct mr_engine *engine, uint32_t index)
{
    struct mr_error err = {0};
    struct mr_submission submission = {.request = make_request(index),
                                       .ticket = index,
                                       .tenant = "",
                                       .arrival_ns = clock_ns(NULL)};
    MR_ASSERT(mr_engine_submit(engine, &submission, &err) == MR_OK);
}

static void run(struct mr_engine *engine)
{
    uint64_t wake_ns = 0;
    struct mr_error err = {0};
    while (wake_ns != UINT64_MAX) {
        MR_ASSERT(mr_engine_step(engine, clock_ns(NULL), &wake_ns, &err) == MR_OK);
        mr_engine_check(engine);
    }
}

static void assert_expected(const struct seen *seen, uint32_t index)
{
    assert_int_equal(seen->counts[index], ANSWER);
    assert_memory_equal(seen->tokens[index], expected[index], sizeof expected[index]);
}

static void make_prompts(void)
{
    static const char text[] = "The queue holds what producers sent and nobody has read. ";
    struct mr_error err = {0};
    const struct mr_tokenizer *tokenizer = mr_model_tokenizer(model);
    struct mr_tokenizer_scratch *scratch = mr_tokenizer_scratch_create(tokenizer);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        char prompt[2048];
        size_t used = (size_t)snprintf(prompt, sizeof prompt, "Note %u. ", i < 2 ? 1 : i);
        for (uint32_t j = 0; j < (i == 0 ? 26u : 1 + 3 * i); j++)
            used += (size_t)snprintf(prompt + used, sizeof prompt - used, "%s", text);
        size_t count = 0;
        struct mr_encode_options encode = {.add_special = true};
        MR_ASSERT(mr_tokenizer_encode(tokenizer, scratch, (struct mr_text){prompt, used}, encode,
                                      prompts[i], 400, &count, &err) == MR_OK);
        lengths[i] = (uint32_t)count;
    }
    mr_tokenizer_scratch_destroy(scratch);
}

static int setup(void **state)
{
    (void)state;
    struct mr_error err = {0};
    struct mr_model_options options = {.path = MODEL,
                                       .device = "cpu",
                                       .dtype = MR_DTYPE_F32,
                                       .kv_bytes = (uint64_t)512 << 20,
                                       .rows_max = 1024,
                                       .sequences_max = 16};
    if (mr_model_open(&model, &options, &err) != MR_OK) {
        printf("%s\n", err.detail);
        return 1;
    }
    make_prompts();
    for (uint32_t i = 0; i < PROMPTS; i++) {
        struct seen seen;
        struct mr_engine_options alone = usual_options();
        alone.chunk_tokens = 0;
        struct mr_engine *engine = start(&alone, &seen);
        submit(engine, i);
        run(engine);
        memcpy(expected[i], seen.tokens[i], sizeof expected[i]);
        mr_engine_destroy(engine);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

static void every_chunk_size_gives_the_same_answer(void **state)
{
    (void)state;
    /* The smallest ones on a short prompt: each token is a step. */
    static const int32_t chunks[] = {1, 7, 255, 256, 257, 512};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct seen seen;
        struct mr_engine_options options = usual_options();
        uint32_t index = chunks[i] < 100 ? 1 : 0;
        options.chunk_tokens = chunks[i];
        struct mr_engine *engine = start(&options, &seen);
        submit(engine, index);
        run(engine);
        assert_expected(&seen, index);
        mr_engine_destroy(engine);
    }
}

static void company_does_not_change_an_answer(void **state)
{
    (void)state;
    struct seen seen;
    struct mr_engine_options options = usual_options();
    options.step_target_ms = 100;
    struct mr_engine *engine = start(&options, &seen);
    for (uint32_t i = 0; i < PROMPTS; i++)
        submit(engine, i);
    run(engine);
    for (uint32_t i = 0; i < PROMPTS; i++)
        assert_expected(&seen, i);
    mr_engine_destroy(engine);
}

static void cached_prefixes_do_not_change_an_answer(void **state)
{
    (void)state;
    struct seen seen;
    struct mr_engine_options options = usual_options();
    options.prefix_cache = true;
    options.prompt_cache_entries = 4;
    struct mr_engine *engine = start(&options, &seen);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < PROMPTS; i++)
            submit(engine, i);
        run(engine);
        for (uint32_t i = 0; i < PROMPTS; i++)
            assert_expected(&seen, i);
    }
    assert_true(seen.cached > lengths[0]);
    assert_true(mr_engine_stats(engine).prompt_cache_hits > 0);
    mr_engine_destroy(engine);
}

static void preemption_does_not_change_an_answer(void **state)
{
    (void)state;
    struct seen seen;
    struct mr_engine_options options = usual_options();
    options.force_preempt_every = 5;
    struct mr_engine *engine = start(&options, &seen);
    for (uint32_t i = 0; i < 3; i++)
        submit(engine, i);
    run(engine);
    for (uint32_t i = 0; i < 3; i++)
        assert_expected(&seen, i);
    assert_true(seen.preemptions > 0);
    mr_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_size_gives_the_same_answer),
        cmocka_unit_test(company_does_not_change_an_answer),
        cmocka_unit_test(cached_prefixes_do_not_change_an_answer),
        cmocka_unit_test(preemption_does_not_change_an_answer),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
