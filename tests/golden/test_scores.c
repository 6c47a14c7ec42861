/* Compares the log-probabilities of prompts and continuations, and the vectors, that the engine
 * computes with a committed tiny model in fp32 to those from the reference implementation's logits
 * (make_logits.py). golden_test_scores torch compares them on LibTorch's operators. */
#include "batching/engine/engine.h"
#include "tests/golden/logits_fixture.h"
#include "worker/bench/bench_workload.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SCORE_ROWS = STEP_SEQUENCES - 8, TOP = 5 };

static const char *const names[] = {"llama_linear", "qwen2", "gemma2", "qwen3_moe",
                                    "mistral_slides"};

struct scene {
    struct fixture fixture;
    struct prompt prompt;
    const float *hidden; /* the reference's hidden states: the last token's, then the mean
                            (make_embeddings.py) */
    bool ended;
    float worst;
};

/* The log-probability of a token according to the reference's logits after `position`. */
static double reference(const struct scene *scene, uint32_t position, uint32_t token)
{
    const uint32_t vocab = scene->fixture.vocab_size;
    const float *logits = scene->prompt.logits + (size_t)(position - scene->prompt.first) * vocab;
    double top = -INFINITY, total = 0;
    for (uint32_t i = 0; i < vocab; i++)
        top = fmax(top, (double)logits[i]);
    for (uint32_t i = 0; i < vocab; i++)
        total += exp((double)logits[i] - top);
    return (double)logits[token] - top - log(total);
}

static void compare(struct scene *scene, uint32_t position, const struct mr_token_logprob *found)
{
    double difference = fabs((double)found->logprob - reference(scene, position, found->token_id));
    scene->worst = fmaxf(scene->worst, (float)difference);
    if (!(difference <= 1e-4))
        fail_msg("token %u has %g, off by %g", position + 1, (double)found->logprob, difference);
}

/* The continuations are the tokens after the first `cut` tokens of the reference's prompt: all of
 * them, and only the first. */
static void compare_continuations(struct scene *scene, const struct mr_result *result, uint32_t cut)
{
    const struct prompt *prompt = &scene->prompt;
    assert_int_equal(result->score_count, 2);
    assert_int_equal(result->scores[0].token_count, prompt->token_count - cut);
    assert_int_equal(result->scores[1].token_count, 1);
    for (uint32_t i = cut; i < prompt->token_count; i++) {
        assert_int_equal(result->scores[0].logprobs[i - cut].chosen.token_id, prompt->tokens[i]);
        compare(scene, i - 1, &result->scores[0].logprobs[i - cut].chosen);
    }
    compare(scene, cut - 1, &result->scores[1].logprobs[0].chosen);
}

static void compare_embedding(struct scene *scene, const struct mr_result *result, bool mean)
{
    const uint32_t size = mr_model_info(scene->fixture.model)->hidden_size;
    assert_int_equal(result->embedding_size, size);
    for (uint32_t i = 0; i < size; i++) {
        float difference = fabsf(result->embedding[i] - scene->hidden[mean * size + i]);
        scene->worst = fmaxf(scene->worst, difference);
        if (!(difference <= 1e-4f)) fail_msg("number %u is off by %g", i, (double)difference);
    }
}

static void on_result(void *context, uint64_t ticket, struct mr_request *request,
                      const struct mr_result *result)
{
    (void)ticket;
    struct scene *scene = context;
    const struct prompt *prompt = &scene->prompt;
    scene->ended = true;
    if (request->task == MR_TASK_EMBED) {
        compare_embedding(scene, result, request->pooling.mean);
        mr_request_destroy(request);
        return;
    }
    if (request->task == MR_TASK_SCORE) {
        compare_continuations(scene, result, (uint32_t)request->token_count);
        mr_request_destroy(request);
        return;
    }
    assert_int_equal(result->prompt_logprob_count, prompt->token_count);
    for (uint32_t i = prompt->first + 1; i < prompt->token_count; i++) {
        const struct mr_logprobs *entry = &result->prompt_logprobs[i];
        assert_int_equal(entry->chosen.token_id, prompt->tokens[i]);
        assert_int_equal(entry->top_count, TOP);
        compare(scene, i - 1, &entry->chosen);
        for (uint32_t k = 0; k < TOP; k++)
            compare(scene, i - 1, &entry->top[k]);
    }
    mr_request_destroy(request);
}

/* cut: length of the prompt; the other tokens are continuations. 0: all tokens are the prompt.
 */
static struct mr_request *make_request(const struct scene *scene, uint32_t cut)
{
    const struct prompt *prompt = &scene->prompt;
    const uint32_t count = cut > 0 ? cut : prompt->token_count;
    uint32_t *ids;
    struct mr_request *request = mr_bench_workload_request("r", 0, count, 1, &ids);
    assert_non_null(request);
    memcpy(ids, prompt->tokens, count * sizeof *ids);
    request->scores_prompt = cut == 0;
    request->prompt_logprobs = TOP;
    if (cut == 0) return request;
    request->task = MR_TASK_SCORE;
    request->max_tokens = 0;
    request->continuations = mr_arena_take_array(request->arena, 2, sizeof *request->continuations);
    assert_non_null(request->continuations);
    request->continuation_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        request->continuations[i].token_ids = prompt->tokens + cut;
        request->continuations[i].token_count = i == 0 ? prompt->token_count - cut : 1;
    }
    return request;
}

static struct mr_request *make_embed(const struct scene *scene, bool mean)
{
    struct mr_request *request = make_request(scene, 0);
    request->task = MR_TASK_EMBED;
    request->scores_prompt = false;
    request->max_tokens = 0;
    request->pooling = (struct mr_pooling){.mean = mean};
    return request;
}

static void run_engine(struct scene *scene, int32_t chunk_tokens, struct mr_request *request)
{
    struct fixture *fixture = &scene->fixture;
    const struct mr_model_info *info = mr_model_info(fixture->model);
    const struct mr_engine_options options = {
        .model = mr_model_port_of(fixture->model, NULL),
        .tokenizer = mr_model_tokenizer(fixture->model),
        .block_count = info->block_count,
        .window_slots = info->window_slots,
        .window_tokens = info->window_tokens,
        .context_tokens = CONTEXT_TOKENS,
        .sequences_max = STEP_SEQUENCES - SCORE_ROWS,
        .rows_max = STEP_ROWS,
        .score_rows_max = SCORE_ROWS,
        .chunk_tokens = chunk_tokens,
        .prefills_max = 1,
        .prefill_batch_max = 1,
        .prefill_bytes_max = (uint64_t)1 << 32,
        .prefix_cache = true,
        .queue_count_max = 4,
        .queue_bytes_max = (uint64_t)1 << 28,
        .defaults.top_p = 1,
    };
    const struct mr_sink sink = {.context = scene, .result = on_result};
    struct mr_engine *engine;
    struct mr_error err;
    uint64_t wake_ns;
    assert_int_equal(mr_engine_create(&engine, &options, &sink, &err), MR_OK);
    struct mr_submission submission = {.request = request, .tenant = "default"};
    if (mr_engine_submit(engine, &submission, &err) != MR_OK) fail_msg("%s", err.detail);
    scene->ended = false;
    for (uint64_t now_ns = 1; !scene->ended; now_ns += 1000000) {
        if (mr_engine_step(engine, now_ns, &wake_ns, &err) != MR_OK) fail_msg("%s", err.detail);
        assert_true(now_ns < (uint64_t)1000000 * 10000);
    }
    mr_engine_destroy(engine);
}

/* The vectors of make_embeddings.py for this model. */
static const float *open_hidden(struct mr_mapped_file *file, const struct golden_model *golden,
                                const struct fixture *fixture)
{
    char path[160];
    struct mr_error err;
    uint32_t head[2];
    snprintf(path, sizeof path, "tests/golden/embeddings/%s.bin", golden->name);
    if (mr_mapped_file_open(file, path, &err) != MR_OK) fail_msg("%s", err.detail);
    memcpy(head, file->bytes, sizeof head);
    assert_int_equal(head[0], mr_model_info(fixture->model)->hidden_size);
    assert_int_equal(head[1], fixture->prompt_count);
    assert_int_equal(file->size, sizeof head + 2 * sizeof(float) * head[0] * head[1]);
    return (const float *)(const void *)(file->bytes + sizeof head);
}

static void run_all(struct scene *scene)
{
    const uint32_t first = scene->prompt.first + 1, count = scene->prompt.token_count;
    run_engine(scene, 0, make_request(scene, 0));
    run_engine(scene, 17, make_request(scene, 0));
    if (first < count) run_engine(scene, 512, make_request(scene, (first + count) / 2));
    for (int mean = 0; mean < 2; mean++) {
        run_engine(scene, 0, make_embed(scene, mean));
        run_engine(scene, 17, make_embed(scene, mean));
    }
}

static void results_equal_the_reference(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct mr_mapped_file file;
    assert_non_null(scene);
    open_golden(&scene->fixture, *state, MR_DTYPE_F32, false);
    scene->hidden = open_hidden(&file, *state, &scene->fixture);
    for (uint32_t i = 0; i < scene->fixture.prompt_count; i++) {
        scene->prompt = read_prompt(&scene->fixture);
        run_all(scene);
        scene->hidden += 2 * (size_t)mr_model_info(scene->fixture.model)->hidden_size;
    }
    assert_true(all_prompts_read(&scene->fixture));
    print_message("largest difference %g\n", (double)scene->worst);
    mr_mapped_file_close(&file);
    close_fixture(&scene->fixture);
    free(scene);
}

int main(int argument_count, char **arguments)
{
    struct CMUnitTest tests[sizeof names / sizeof *names];
    size_t count = 0;
    if (argument_count > 1) fixture_backend = arguments[1];
    for (size_t i = 0; i < golden_model_count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(golden_models[i].name, names[k]) == 0)
                tests[count++] =
                    (struct CMUnitTest){.name = names[k],
                                        .test_func = results_equal_the_reference,
                                        .initial_state = (void *)(uintptr_t)&golden_models[i]};
    if (count != sizeof names / sizeof *names) return 1;
    return _cmocka_run_group_tests("scores", tests, count, NULL, NULL);
}
