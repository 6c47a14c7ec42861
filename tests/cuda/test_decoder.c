/* Tiny models of every kind of attention, norm and activation, on the backend torch with the
 * kernels of ops/cuda: logits against the reference implementation, in fp32. This tests the
 * kernels, their calls in ops/torch, and the graphs of decode steps: here a graph runs the
 * operations again, with the host's values of the recording (ops/torch/graph.hpp). */
#include "ops/cuda/kernel_table.h"
#include "tests/golden/logits_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t calls[6]; /* of the counting kernels below */
static size_t fail_at;  /* this call of attention and all later ones fail; 0: none */
static size_t replays;  /* calls of attention whose longest length is that of a graph */
/* Rows that the step has; a graph's other rows must have no tokens. 0: not known. */
static uint32_t live_rows;

static enum mr_status decode_attention(const struct mr_cuda_decode *decode, void *stream,
                                       struct mr_error *err)
{
    calls[0]++;
    if (fail_at > 0 && calls[0] >= fail_at)
        return mr_fail(err, MR_BACKEND, "CUDA kernel decode_split: unspecified launch failure");
    replays +=
        decode->length_max == 1024 || decode->length_max == 2048 || decode->length_max == 4096;
    for (uint32_t row = live_rows; live_rows > 0 && row < decode->row_count; row++)
        assert_int_equal(decode->lengths[row], 0);
    return mr_cuda_decode_attention(decode, stream, err);
}

static enum mr_status add_rms_norm(const struct mr_cuda_add_norm *norm, void *stream,
                                   struct mr_error *err)
{
    calls[1] += norm->x != NULL;
    return mr_cuda_add_rms_norm(norm, stream, err);
}

static enum mr_status rope_kv_write(const struct mr_cuda_rope_write *write, void *stream,
                                    struct mr_error *err)
{
    calls[2]++;
    return mr_cuda_rope_kv_write(write, stream, err);
}

static enum mr_status gated_mul(const struct mr_cuda_gated *gated, void *stream,
                                struct mr_error *err)
{
    calls[3]++;
    return mr_cuda_gated_mul(gated, stream, err);
}

static enum mr_status sample(const struct mr_cuda_sampling *sampling, void *stream,
                             struct mr_error *err)
{
    calls[4]++;
    return mr_cuda_sample(sampling, stream, err);
}

static enum mr_status find_tokens(const struct mr_cuda_find *find, void *stream,
                                  struct mr_error *err)
{
    calls[5]++;
    return mr_cuda_find_tokens(find, stream, err);
}

static const struct mr_cuda_kernels counting = {
    .decode_scratch_bytes = mr_cuda_decode_scratch_bytes,
    .decode_attention = decode_attention,
    .add_rms_norm = add_rms_norm,
    .rope_kv_write = rope_kv_write,
    .gated_mul = gated_mul,
    .sample = sample,
    .find_tokens = find_tokens,
};

/* {rows of a step, rows of a sequence}: decoding sequences alone, chunks of prompts, both in a step
 */
static const uint32_t shapes[][2] = {{STEP_SEQUENCES, 1}, {40, 13}, {257, 257}};

/* Draws without cuts after a computed prompt. The kernel's token must be that of the sampler on the
 * whole row. */
static void compare_draws(struct fixture *fixture, const struct prompt *prompt)
{
    enum { DRAWS = 10 };
    const struct mr_sampling sampling = {
        .temperature = 0.8f, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .logprobs = 3};
    struct mr_sample_row rows[DRAWS];
    struct mr_sample ours[DRAWS], theirs[DRAWS];
    decode(fixture, prompt->tokens[prompt->token_count - 1], prompt->token_count - 1);
    for (uint32_t i = 0; i < DRAWS; i++)
        rows[i] = (struct mr_sample_row){.sampling = &sampling, .seed = 7, .position = i};
    assert_int_equal(mr_model_sample(fixture->model, rows, DRAWS, ours, NULL), MR_OK);
    assert_int_equal(mr_model_logits(fixture->model, 0, fixture->row, NULL), MR_OK);
    for (uint32_t i = 0; i < DRAWS; i++)
        rows[i].logits = fixture->row;
    assert_int_equal(mr_model_sample(fixture->model, rows, DRAWS, theirs, NULL), MR_OK);
    for (uint32_t i = 0; i < DRAWS; i++) {
        assert_int_equal(ours[i].token_id, theirs[i].token_id);
        assert_true(fabsf(ours[i].probability - theirs[i].probability) < 1e-5f);
        assert_true(fabsf(ours[i].logprob - theirs[i].logprob) < 1e-4f);
        assert_int_equal(ours[i].top_ids[2], theirs[i].top_ids[2]);
    }
}

static const struct golden_model *golden_named(const char *name)
{
    for (size_t i = 0; i < golden_model_count; i++)
        if (strcmp(golden_models[i].name, name) == 0) return &golden_models[i];
    fail_msg("there is no golden model %s", name);
    return NULL;
}

static void the_model_equals_the_reference(void **state)
{
    const struct golden_model *golden = *state;
    struct fixture fixture;
    memset(calls, 0, sizeof calls);
    open_golden(&fixture, golden, MR_DTYPE_F32, false);
    for (uint32_t i = 0; i < fixture.prompt_count; i++) {
        const struct prompt prompt = read_prompt(&fixture);
        for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
            if (shapes[shape][1] < prompt.token_count)
                run_prompt(&fixture, &prompt, shapes[shape][0], shapes[shape][1]);
        compare_draws(&fixture, &prompt);
    }
    print_message("%s: %u positions, largest difference %g; calls of kernels: %zu of attention, "
                  "%zu of residual and norm, %zu of rope, %zu of an activation\n",
                  golden->name, fixture.positions, (double)fixture.worst, calls[0], calls[1],
                  calls[2], calls[3]);
    close_fixture(&fixture);
    /* no kernel norms q and k with a layer norm, and our attention needs the q of that kernel */
    const bool centered = strcmp(golden->name, "stablelm_parallel") == 0;
    assert_true(calls[3] > 0 && calls[4] == fixture.prompt_count);
    assert_int_equal(calls[0] > 0, !centered);
    assert_int_equal(calls[2] > 0, !centered);
}

/* ---- graphs ---- */

enum { GRAPH_ROWS = 8, SHORT_PROMPT = 64 };

/* Repeats the last token of a computed prompt, in a step of one row. */
static void decode_last(struct fixture *fixture, const struct prompt *prompt)
{
    const uint32_t last = prompt->token_count - 1;
    const float *expected = prompt->logits + (size_t)(last - prompt->first) * fixture->vocab_size;
    decode(fixture, prompt->tokens[last], last);
    assert_int_equal(mr_model_logits(fixture->model, 0, fixture->row, NULL), MR_OK);
    for (uint32_t i = 0; i < fixture->vocab_size; i++)
        assert_true(fabsf(fixture->row[i] - expected[i]) <= fixture_tolerance);
}

static void steps_of_graphs_equal_the_reference(void **state)
{
    static const char *const names[] = {"qwen3_head_norm", "gemma2", "mistral_slides", "gpt_oss"};
    (void)state;
    fixture_graph_rows = GRAPH_ROWS;
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        struct fixture fixture;
        open_golden(&fixture, golden_named(names[name]), MR_DTYPE_F32, KV_NUMBERS);
        const struct mr_model_info *info = mr_model_info(fixture.model);
        assert_int_equal(info->graphs.refusal.status, MR_OK);
        /* 1, 2, 4 and 8 rows of 1,024 tokens, and of 2,048 and 4,096 if the model's context allows
         */
        const uint32_t tokens = info->context_tokens;
        assert_int_equal(info->graphs.count, tokens > 2048 ? 12 : tokens > 1024 ? 8 : 4);
        replays = 0;
        for (uint32_t i = 0; i < fixture.prompt_count; i++) {
            const struct prompt prompt = read_prompt(&fixture);
            run_prompt(&fixture, &prompt, 257, 257);
            decode_last(&fixture, &prompt);
            if (prompt.token_count <= SHORT_PROMPT) /* the longest step has rows of padding */
                run_prompt(&fixture, &prompt, 5, 1);
        }
        print_message("%s: %u positions, largest difference %g, %zu calls of attention in graphs\n",
                      names[name], fixture.positions, (double)fixture.worst, replays);
        assert_true(replays > fixture.prompt_count);
        close_fixture(&fixture);
    }
    fixture_graph_rows = 0;
}

enum { FIRST_ROWS = 4, SECOND_ROWS = 3, TEST_BLOCKS = 2 * FIRST_ROWS };

/* A step of the first `rows` of four sequences, which have two blocks each. */
static void step_of(struct fixture *fixture, uint32_t rows, const uint32_t contexts[FIRST_ROWS])
{
    static const uint32_t tokens[FIRST_ROWS] = {7, 11, 13, 17};
    uint32_t blocks[FIRST_ROWS][2];
    struct mr_batch_sequence sequences[FIRST_ROWS];
    for (uint32_t i = 0; i < rows; i++) {
        blocks[i][0] = 2 * i;
        blocks[i][1] = 2 * i + 1;
        sequences[i] = (struct mr_batch_sequence){.row_begin = i,
                                                  .row_count = 1,
                                                  .context_tokens = contexts[i],
                                                  .blocks = blocks[i],
                                                  .logit_rows = 1};
    }
    live_rows = fixture_graph_rows > 0 ? rows : 0;
    const struct mr_batch batch = {tokens, rows, sequences, rows};
    assert_int_equal(mr_model_forward(fixture->model, &batch, NULL), MR_OK);
    live_rows = 0;
}

/* Two steps over a pool of known numbers, the second one with fewer rows and a fresh block. Returns
 * the numbers of all blocks after them, and the logits of the second. */
static float *numbers_after_steps(uint32_t graph_rows, size_t *count)
{
    static const uint32_t contexts[2][FIRST_ROWS] = {
        {MR_BLOCK_TOKENS - 1, 3, MR_BLOCK_TOKENS + 5, 2 * MR_BLOCK_TOKENS - 1},
        {MR_BLOCK_TOKENS, 4, MR_BLOCK_TOKENS + 6}};
    struct fixture fixture;
    fixture_graph_rows = graph_rows;
    open_golden(&fixture, golden_named("qwen3_head_norm"), MR_DTYPE_F32, KV_NUMBERS);
    const size_t bytes = mr_model_kv_export_bytes(fixture.model, MR_BLOCK_TOKENS);
    const size_t numbers = bytes / sizeof(float), logits = fixture.vocab_size;
    *count = TEST_BLOCKS * numbers + SECOND_ROWS * logits;
    float *out = malloc(*count * sizeof *out), *at = out;
    assert_non_null(out);
    for (uint32_t block = 0; block < TEST_BLOCKS; block++) {
        for (size_t i = 0; i < numbers; i++)
            out[i] = (float)((i * 7919 + block * 31) % 1009) / 1009.0f - 0.5f;
        assert_int_equal(mr_model_kv_import(fixture.model, (struct mr_kv_place){.block = block},
                                            MR_BLOCK_TOKENS, out, bytes, NULL),
                         MR_OK);
    }
    step_of(&fixture, FIRST_ROWS, contexts[0]);
    step_of(&fixture, SECOND_ROWS, contexts[1]);
    for (uint32_t row = 0; row < SECOND_ROWS; row++, at += logits)
        assert_int_equal(mr_model_logits(fixture.model, row, at, NULL), MR_OK);
    for (uint32_t block = 0; block < TEST_BLOCKS; block++, at += numbers)
        assert_int_equal(mr_model_kv_export(fixture.model, (struct mr_kv_place){.block = block},
                                            MR_BLOCK_TOKENS, at, bytes, NULL),
                         MR_OK);
    close_fixture(&fixture);
    fixture_graph_rows = 0;
    return out;
}

static void padding_changes_neither_logits_nor_kv(void **state)
{
    size_t count, same;
    (void)state;
    replays = 0;
    float *eager = numbers_after_steps(0, &count);
    assert_int_equal(replays, 0);
    float *graph = numbers_after_steps(GRAPH_ROWS, &same);
    assert_true(replays > 0 && same == count);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(eager[i] - graph[i]) <= 1e-5f))
            fail_msg("number %zu of %zu: %g without graphs, %g with them", i, count,
                     (double)eager[i], (double)graph[i]);
    free(eager);
    free(graph);
}

enum { AHEAD_TOKENS = 6 };

/* Generates with sequences that draw with cuts, from all tokens, and greedily, from position 3 on;
 * the device feeds each token to the next step. known: tokens of an earlier run with the same
 * result, from which some rows take their input instead. NULL: one step at a time, without
 * feeding. */
static void generate(struct fixture *fixture, struct mr_sample samples[AHEAD_TOKENS][FIRST_ROWS],
                     struct mr_sample (*known)[FIRST_ROWS])
{
    static const struct mr_sampling samplings[FIRST_ROWS] = {
        {.top_p = 1, .typical_p = 1, .repetition_penalty = 1, .logprobs = 1},
        {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
        {.temperature = 0.7f, .top_p = 0.8f, .top_k = 20, .typical_p = 1, .repetition_penalty = 1},
        {.temperature = 20, .top_p = 0.99f, .typical_p = 1, .repetition_penalty = 1}};
    uint32_t tokens[FIRST_ROWS] = {7, 11, 13, 17}, fed_by[FIRST_ROWS];
    uint32_t blocks[FIRST_ROWS][BLOCKS / FIRST_ROWS];
    struct mr_batch_sequence sequences[FIRST_ROWS];
    struct mr_sample_row rows[FIRST_ROWS];
    const struct mr_batch batch = {tokens, FIRST_ROWS, sequences, FIRST_ROWS};
    for (uint32_t at = 0; at <= AHEAD_TOKENS; at++) {
        for (uint32_t i = 0; i < FIRST_ROWS; i++) {
            const uint32_t position = 3 + 31 * i + at;
            for (uint32_t k = 0; k < BLOCKS / FIRST_ROWS; k++)
                blocks[i][k] = k * FIRST_ROWS + i;
            sequences[i] = (struct mr_batch_sequence){.row_begin = i,
                                                      .row_count = 1,
                                                      .context_tokens = position,
                                                      .blocks = blocks[i],
                                                      .logit_rows = 1};
            rows[i] = (struct mr_sample_row){
                .logit_row = i, .sampling = &samplings[i], .seed = i, .position = position};
        }
        const struct mr_model_step step = {.batch = &batch,
                                           .fed_by = known && at > 0 ? fed_by : NULL,
                                           .rows = rows,
                                           .sample_count = FIRST_ROWS,
                                           .samples = samples[at % AHEAD_TOKENS]};
        if (at < AHEAD_TOKENS)
            assert_int_equal(mr_model_launch(fixture->model, &step, NULL), MR_OK);
        if (known ? at > 0 : at < AHEAD_TOKENS)
            assert_int_equal(mr_model_collect(fixture->model, NULL), MR_OK);
        for (uint32_t i = 0; at < AHEAD_TOKENS && i < FIRST_ROWS; i++) {
            const bool fed = known && (at + i) % 4 != 0;
            fed_by[i] = fed ? i : MR_ROW_KNOWN;
            tokens[i] = fed ? 0 : (known ? known : samples)[at][i].token_id;
        }
    }
}

static void fed_tokens_are_those_that_are_reported(void **state)
{
    (void)state;
    for (uint32_t graph_rows = 0; graph_rows <= GRAPH_ROWS; graph_rows += GRAPH_ROWS) {
        struct mr_sample single[AHEAD_TOKENS][FIRST_ROWS], ahead[AHEAD_TOKENS][FIRST_ROWS];
        struct fixture fixture;
        fixture_graph_rows = graph_rows;
        open_golden(&fixture, golden_named("qwen3_head_norm"), MR_DTYPE_F32, KV_NUMBERS);
        assert_int_equal(mr_model_steps_ahead(fixture.model), 2);
        replays = 0;
        generate(&fixture, single, NULL);
        generate(&fixture, ahead, single);
        assert_int_equal(replays > 0, graph_rows > 0);
        for (uint32_t at = 0; at < AHEAD_TOKENS; at++)
            for (uint32_t i = 0; i < FIRST_ROWS; i++) {
                assert_int_equal(ahead[at][i].token_id, single[at][i].token_id);
                assert_true(fabsf(ahead[at][i].logprob - single[at][i].logprob) <= 1e-5f);
            }
        close_fixture(&fixture);
    }
    fixture_graph_rows = 0;
}

/* The host computes the index arrays of operators that have no kernel. */
static void a_model_that_needs_the_host_has_no_graphs(void **state)
{
    struct fixture fixture;
    (void)state;
    fixture_graph_rows = GRAPH_ROWS;
    open_golden(&fixture, golden_named("stablelm_parallel"), MR_DTYPE_F32, KV_NUMBERS);
    const struct mr_decode_graphs graphs = mr_model_info(fixture.model)->graphs;
    assert_int_equal(graphs.count, 0);
    assert_int_equal(graphs.refusal.status, MR_UNSUPPORTED);
    assert_non_null(strstr(graphs.refusal.detail, "the index arrays of KV writes"));
    const struct prompt prompt = read_prompt(&fixture);
    run_prompt(&fixture, &prompt, 257, 257); /* the model computes as before */
    close_fixture(&fixture);
    fixture_graph_rows = 0;
}

/* ---- errors of the device ---- */

static void assert_failed(enum mr_status status, const struct mr_error *err)
{
    assert_int_equal(status, MR_BACKEND);
    assert_non_null(strstr(err->detail, "unspecified launch failure"));
}

/* An error of CUDA stays until the process ends. Every later call fails with its text, and the
 * model can still be closed. */
static void an_error_of_the_device_stays(void **state)
{
    static const uint32_t contexts[FIRST_ROWS] = {3, 4, 5, 6};
    (void)state;
    for (uint32_t graph_rows = 0; graph_rows <= GRAPH_ROWS; graph_rows += GRAPH_ROWS) {
        struct fixture fixture;
        struct mr_error err = {0};
        uint32_t token = 5, block = 0;
        unsigned char byte;
        fixture_graph_rows = graph_rows;
        open_golden(&fixture, golden_named("grouped_tied"), MR_DTYPE_F32, KV_NUMBERS);
        step_of(&fixture, FIRST_ROWS, contexts);
        fail_at = calls[0] + 2; /* in the second layer */
        const struct mr_batch_sequence next = {
            .row_count = 1, .context_tokens = 7, .blocks = &block, .logit_rows = 1};
        const struct mr_batch batch = {&token, 1, &next, 1};
        const struct mr_sampling greedy = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1};
        const struct mr_sample_row row = {.sampling = &greedy};
        struct mr_sample sample;
        for (uint32_t step = 0; step < 2; step++) {
            const struct mr_model_step launched = {
                .batch = &batch, .rows = &row, .sample_count = 1, .samples = &sample};
            enum mr_status status = mr_model_launch(fixture.model, &launched, &err);
            assert_int_equal(status, MR_OK); /* the step fails when it is collected */
            status = mr_model_collect(fixture.model, &err);
            assert_failed(status, &err);
        }
        assert_failed(mr_model_logits(fixture.model, 0, fixture.row, &err), &err);
        mr_model_kv_copy(fixture.model, (struct mr_kv_place){.block = 0},
                         (struct mr_kv_place){.block = 1}, 16);
        assert_int_not_equal(
            mr_model_kv_export(fixture.model, (struct mr_kv_place){.block = 0}, 0, &byte, 0, &err),
            MR_OK);
        fail_at = 0;
        assert_failed(mr_model_forward(fixture.model, &batch, &err), &err);
        close_fixture(&fixture);
    }
    fixture_graph_rows = 0;
}

/* With an argument: all models of the list; without: the first four. */
int main(int argc, char **argv)
{
    static const char *const names[] = {
        "qwen3_head_norm", "gemma2",       "gpt_oss",           "stablelm_parallel",
        "mistral_slides",  "grouped_tied", "llama_head_dim_24", "multi_head_untied_biases",
        "olmo2",           "granite",      "qwen2_moe_sparse",  "phi4_partial_rotary",
    };
    enum { NAMES = sizeof names / sizeof *names, OTHERS = 5 };
    struct CMUnitTest tests[NAMES + OTHERS] = {
        cmocka_unit_test(steps_of_graphs_equal_the_reference),
        cmocka_unit_test(padding_changes_neither_logits_nor_kv),
        cmocka_unit_test(fed_tokens_are_those_that_are_reported),
        cmocka_unit_test(a_model_that_needs_the_host_has_no_graphs),
        cmocka_unit_test(an_error_of_the_device_stays),
    };
    const size_t used = argc > 1 ? NAMES : 4;
    (void)argv;
    fixture_backend = "torch";
    fixture_kernels = &counting;
    for (size_t i = 0; i < used; i++)
        tests[OTHERS + i] =
            (struct CMUnitTest){.name = names[i],
                                .test_func = the_model_equals_the_reference,
                                .initial_state = (void *)(uintptr_t)golden_named(names[i])};
    return _cmocka_run_group_tests("decoder", tests, OTHERS + used, NULL, NULL);
}
