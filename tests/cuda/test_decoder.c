/* Tiny models of every kind of attention, norm and activation, on the backend torch with the
 * kernels of ops/cuda: logits against the reference implementation, in fp32. What this tests beside
 * the kernels is how ops/torch calls them. */
#include "ops/cuda/kernel_table.h"
#include "tests/golden/logits_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static size_t calls[5]; /* of the counting kernels below */

static enum mr_status decode_attention(const struct mr_cuda_decode *decode, void *stream,
                                       struct mr_error *err)
{
    calls[0]++;
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

static const struct mr_cuda_kernels counting = {
    .decode_scratch_bytes = mr_cuda_decode_scratch_bytes,
    .decode_attention = decode_attention,
    .add_rms_norm = add_rms_norm,
    .rope_kv_write = rope_kv_write,
    .gated_mul = gated_mul,
    .sample = sample,
};

/* {rows of a step, rows of a sequence}: decoding sequences alone, chunks of prompts, both in a step
 */
static const uint32_t shapes[][2] = {{STEP_SEQUENCES, 1}, {40, 13}, {257, 257}};

/* Draws without cuts after the prompt, which was computed: the kernel's token is that of the
 * sampler on the whole row. */
static void compare_draws(struct fixture *fixture, const struct prompt *prompt)
{
    enum { DRAWS = 20 };
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
    /* no kernel for layer norm, and so none for what follows it */
    const bool centered = strcmp(golden->name, "stablelm_parallel") == 0;
    assert_true(calls[3] > 0 && calls[4] == fixture.prompt_count);
    assert_int_equal(calls[0] > 0, !centered);
    assert_int_equal(calls[2] > 0, !centered);
}

/* With an argument: all models of the list; without: the first four. */
int main(int argc, char **argv)
{
    static const char *const names[] = {
        "qwen3_head_norm", "gemma2",       "gpt_oss",           "stablelm_parallel",
        "mistral_slides",  "grouped_tied", "llama_head_dim_24", "multi_head_untied_biases",
        "olmo2",           "granite",      "qwen2_moe_sparse",  "phi4_partial_rotary",
    };
    struct CMUnitTest tests[sizeof names / sizeof *names];
    const size_t used = argc > 1 ? sizeof names / sizeof *names : 4;
    size_t count = 0;
    (void)argv;
    fixture_backend = "torch";
    fixture_kernels = &counting;
    for (size_t i = 0; i < golden_model_count; i++)
        for (size_t name = 0; name < used; name++)
            if (strcmp(golden_models[i].name, names[name]) == 0)
                tests[count++] =
                    (struct CMUnitTest){.name = golden_models[i].name,
                                        .test_func = the_model_equals_the_reference,
                                        .initial_state = (void *)(uintptr_t)&golden_models[i]};
    assert_int_equal(count, used);
    return _cmocka_run_group_tests("decoder", tests, count, NULL, NULL);
}
