/* Compares logits and greedy continuations to the reference implementation, in fp32: every
 * position, in steps of many shapes. Without arguments it tests the committed tiny models; with
 *     golden_test_logits MODEL EXPECTED.bin
 * it tests a model against the file that make_logits.py has written for it, in fp32 or, with a
 *     further argument "stored", computed in the small integers of its files, within
 *     BF16_TOLERANCE; with golden_test_logits torch [DEVICE [DTYPE [KERNELS [MODEL EXPECTED]]]]
 * it tests the committed models on LibTorch's operators (ops/torch/torch_backend.h): on the CPU, or
 * on DEVICE in fp32 or bf16; KERNELS auto: with the CUDA kernels of this build, off: without,
 * graphs: with them, and decode steps as graphs; ahead: on the CPU, with draws as on a GPU, so that
 * continuations run two steps ahead, which they do on a GPU anyway. In bf16 logits are compared
 * within BF16_TOLERANCE, except for models in which rounding changes the choice of experts.
 * Continuations are not compared. */
#include "ops/model/torch_module.h"
#include "tests/fakes/draw_kernels.h"
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

static void continue_greedily(struct fixture *fixture, const struct prompt *prompt)
{
    run_prompt(fixture, prompt, STEP_ROWS, STEP_ROWS);
    struct mr_sampling greedy = {
        .temperature = 0.0f, .top_p = 1.0f, .repetition_penalty = 1.0f, .logprobs = -1};
    struct mr_sample_row row = {.sampling = &greedy};
    for (uint32_t i = 0; i < prompt->continuation_count; i++) {
        struct mr_sample sample;
        assert_int_equal(mr_model_sample(fixture->model, &row, 1, &sample, NULL), MR_OK);
        if (sample.token_id != prompt->continuation[i])
            fail_msg("continuation of %u tokens: token %u is %u, the reference has %u",
                     prompt->token_count, i, sample.token_id, prompt->continuation[i]);
        decode(fixture, sample.token_id, prompt->token_count + i);
    }
}

/* Continues the prompt two steps ahead: a step is launched before the one that draws its input is
 * collected. */
static void continue_ahead(struct fixture *fixture, const struct prompt *prompt)
{
    const uint32_t fed_by = 0; /* sampling row 0 of the step before */
    const uint32_t token = 0;  /* not read: the device feeds the row */
    const struct mr_sampling greedy = {.top_p = 1.0f, .repetition_penalty = 1.0f, .logprobs = -1};
    const struct mr_sample_row row = {.sampling = &greedy};
    struct mr_batch_sequence next = {
        .row_count = 1, .blocks = fixture->blocks, .logit_rows = 1, .slots = fixture->slots};
    struct mr_batch batch = {&token, 0, &next, 1};
    struct mr_sample samples[2];
    struct mr_model_step step = {.batch = &batch, .rows = &row, .sample_count = 1};
    run_prompt(fixture, prompt, STEP_ROWS, STEP_ROWS);
    for (uint32_t i = 0; i <= prompt->continuation_count; i++) {
        step.samples = &samples[i % 2];
        if (i < prompt->continuation_count)
            assert_int_equal(mr_model_launch(fixture->model, &step, NULL), MR_OK);
        next.context_tokens = prompt->token_count + i;
        batch.row_count = 1;
        step.fed_by = &fed_by;
        if (i == 0) continue;
        assert_int_equal(mr_model_collect(fixture->model, NULL), MR_OK);
        if (samples[(i - 1) % 2].token_id != prompt->continuation[i - 1])
            fail_msg(
                "two steps ahead, continuation of %u tokens: token %u is %u, the reference has "
                "%u",
                prompt->token_count, i - 1, samples[(i - 1) % 2].token_id,
                prompt->continuation[i - 1]);
    }
}

/* On the CPU the largest difference of the committed models in bf16 is 0.14. */
#define BF16_TOLERANCE 0.25f

static enum mr_dtype dtype = MR_DTYPE_F32;

/* Chunks change no bit of the last logits on our own kernels. */
static void check_bits(struct fixture *fixture, float *last, bool again)
{
    const size_t bytes = fixture->vocab_size * sizeof(float);
    if (fixture_backend) return;
    if (again) assert_memory_equal(fixture->row, last, bytes);
    memcpy(last, fixture->row, bytes);
}

static void compare_model(struct fixture *fixture, const char *name)
{
    /* {rows of a step, rows of a sequence}: single positions, pieces, chunks, whole prompts */
    static const uint32_t shapes[][2] = {
        {STEP_SEQUENCES, 1}, {1, 1},     {5, 5},    {35, 7}, {7, 7}, {17, 17}, {64, 64},
        {255, 255},          {256, 256}, {257, 257}};
    /* Two values of bf16 share a word: sequences that write one block in one step disturb each
     * other (ops/model/model.h forbids it). A state has one sequence in a step. */
    const bool alone = (dtype != MR_DTYPE_F32 && !fixture_backend) ||
                       mr_model_info(fixture->model)->state_slots > 0;
    float *last = calloc(fixture->vocab_size, sizeof(float));
    assert_non_null(last);
    for (uint32_t i = 0; i < fixture->prompt_count; i++) {
        struct prompt prompt = read_prompt(fixture);
        for (size_t shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++) {
            if (alone && shapes[shape][0] != shapes[shape][1]) continue;
            if (shapes[shape][1] >= prompt.token_count) continue;
            /* LibTorch computes a recurrence token by token, in minutes under a sanitizer. */
            if (alone && fixture_backend && prompt.token_count > 100 && shapes[shape][1] != 64)
                continue;
            run_prompt(fixture, &prompt, shapes[shape][0], shapes[shape][1]);
            check_bits(fixture, last, shape > 1);
        }
        if (dtype == MR_DTYPE_F32) continue_greedily(fixture, &prompt);
        if (dtype == MR_DTYPE_F32 && mr_model_steps_ahead(fixture->model) > 1)
            continue_ahead(fixture, &prompt);
    }
    free(last);
    assert_true(all_prompts_read(fixture));
    print_message("%s: %u positions, %u graphs, largest difference %g\n", name, fixture->positions,
                  mr_model_info(fixture->model)->graphs.count, (double)fixture->worst);
    close_fixture(fixture);
}

/* ---- tests ---- */

static void the_model_equals_the_reference(void **state)
{
    const struct golden_model *golden = *state;
    struct fixture fixture;
    if (dtype != MR_DTYPE_F32 && golden->experts) return;
    open_golden(&fixture, golden, dtype, KV_NUMBERS);
    compare_model(&fixture, golden->name);
    if (!golden->gguf || dtype != MR_DTYPE_F32) return;
    open_golden_gguf(&fixture, golden);
    compare_model(&fixture, "the same in GGUF");
}

static const char *given_model, *given_expected;

static void the_given_model_equals_the_reference(void **state)
{
    struct fixture fixture;
    (void)state;
    open_fixture(&fixture, given_model, given_expected, dtype, KV_NUMBERS, 0);
    if (dtype == MR_DTYPE_AUTO)
        assert_string_equal(mr_model_info(fixture.model)->dtype, "quantized");
    compare_model(&fixture, given_model);
}

/* arguments: BACKEND [DEVICE [DTYPE [KERNELS]]] */
static void select_backend(int argument_count, char **arguments)
{
    fixture_backend = arguments[0];
    if (argument_count > 1) fixture_device = arguments[1];
    if (argument_count > 2 && strcmp(arguments[2], "bf16") == 0) {
        dtype = MR_DTYPE_BF16;
        fixture_tolerance = BF16_TOLERANCE;
    }
    if (argument_count > 3 && strcmp(arguments[3], "off") != 0)
        fixture_kernels = mr_torch_module_cuda_kernels();
    if (argument_count > 3 && strcmp(arguments[3], "ahead") == 0) fixture_kernels = &draw_kernels;
    if (argument_count > 3 && strcmp(arguments[3], "graphs") == 0)
        fixture_graph_rows = STEP_SEQUENCES;
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest given[] = {cmocka_unit_test(the_given_model_equals_the_reference)};
    const bool on_torch = argument_count > 1 && strcmp(arguments[1], "torch") == 0;
    if (on_torch) select_backend(argument_count - 1, arguments + 1);
    if (argument_count == 4 && strcmp(arguments[3], "stored") == 0) {
        dtype = MR_DTYPE_AUTO;
        fixture_tolerance = BF16_TOLERANCE;
        argument_count--;
    }
    if (argument_count == (on_torch ? 7 : 3)) {
        given_model = arguments[argument_count - 2];
        given_expected = arguments[argument_count - 1];
        return cmocka_run_group_tests(given, NULL, NULL);
    }
    struct CMUnitTest *tests = calloc(golden_model_count, sizeof *tests);
    for (size_t i = 0; i < golden_model_count; i++)
        tests[i] = (struct CMUnitTest){.name = golden_models[i].name,
                                       .test_func = the_model_equals_the_reference,
                                       .initial_state = (void *)(uintptr_t)&golden_models[i]};
    int failed = _cmocka_run_group_tests("logits", tests, golden_model_count, NULL, NULL);
    free(tests);
    return failed;
}
