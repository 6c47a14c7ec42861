/* Compares models with rounding to the same models in fp32, which test_logits.c compares to the
 * reference implementation: bf16 weights and activations, int8 weights, KV in int8, and KV blocks
 * stored in int8.
 *     golden_test_rounding torch
 * tests bf16, fp16 and KV blocks in int8 on LibTorch's operators (ops/torch/torch_backend.h). */
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

#define MARGIN          0.1f  /* a token whose logit leads by more must lead in bf16 too */
#define BF16_SAME       0.99  /* smallest share of such tokens that stay first, over all models */
#define BF16_SAME_EACH  0.95  /* ... and in each model */
#define DELTA_SAME_EACH 0.85  /* ... in a model with the delta rule, with int8 weights */
#define BF16_SHARE      0.015 /* largest root mean square error, relative to that of the logits */
#define TORCH_SHARE     0.025 /* ... on LibTorch, which rounds the result of each product */
#define FP16_SHARE      0.004 /* ... with fp16 on LibTorch */
#define WEIGHTS_SHARE   0.07  /* ... with int8 weights */
#define WEIGHTS_EXPERTS 0.2   /* ... with int8 weights and experts */
#define EXPERTS_SHARE   0.1   /* ... with experts */
#define KV_SHARE        0.025 /* ... with KV in int8 */
#define KV_EXPERTS      0.2   /* ... with KV in int8 and experts */
#define INT8_SHARE      0.02  /* largest root mean square error, relative to that of the logits */
#define INT8_SAME       0.95  /* smallest share of equal greedy tokens */

struct difference {
    double worst;                         /* largest difference of two logits */
    double squared_error, squared_logits; /* sums over all logits */
    uint32_t rows, same;                  /* same: rows with the same greedy token */
    uint32_t decided, decided_same;       /* of rows whose best token leads by MARGIN */
};

/* exact, rounded: rows of logits at the same position. */
static void add_row(struct difference *sum, const float *exact, const float *rounded,
                    uint32_t count)
{
    float margin, ours;
    for (uint32_t i = 0; i < count; i++) {
        double difference = fabs((double)exact[i] - (double)rounded[i]);
        assert_true(isfinite(difference));
        sum->worst = difference > sum->worst ? difference : sum->worst;
        sum->squared_error += difference * difference;
        sum->squared_logits += (double)exact[i] * (double)exact[i];
    }
    bool same = best(exact, count, &margin) == best(rounded, count, &ours);
    bool decided = margin > MARGIN;
    sum->rows++;
    sum->same += same;
    sum->decided += decided;
    sum->decided_same += same && decided;
}

static double share(const struct difference *sum)
{
    return sqrt(sum->squared_error / sum->squared_logits);
}

static void print(const char *name, const char *what, const struct difference *sum)
{
    print_message("%s: %s changes the logits of %u rows by a share of %.4f, at most by %.4f; "
                  "equal greedy tokens: %u, %u of %u where the margin is above %g\n",
                  name, what, sum->rows, share(sum), sum->worst, sum->same, sum->decided_same,
                  sum->decided, (double)MARGIN);
}

/* ---- bf16, the default ----
 * The bounds are above the effect of rounding on these models in transformers: errors of 0.006 to
 * 0.02, with experts up to 0.09; 3,673 of 3,676 tokens with a margin stay first. */

/* Compares the logits at every position of a prompt and of the reference's continuation, a step
 * each: sequences of one step cannot share blocks in bf16, because two tokens share a word of V. */
static void compare_bf16(struct fixture *exact, struct fixture *rounded,
                         const struct prompt *prompt, struct difference *sum)
{
    choose_slots(exact, 1);
    choose_slots(rounded, 1);
    for (uint32_t i = 0; i < prompt->token_count + prompt->continuation_count; i++) {
        bool in_prompt = i < prompt->token_count;
        uint32_t token =
            in_prompt ? prompt->tokens[i] : prompt->continuation[i - prompt->token_count];
        decode(exact, token, i);
        decode(rounded, token, i);
        assert_int_equal(mr_model_logits(exact->model, 0, exact->row, NULL), MR_OK);
        assert_int_equal(mr_model_logits(rounded->model, 0, rounded->row, NULL), MR_OK);
        add_row(sum, exact->row, rounded->row, exact->vocab_size);
    }
}

/* ---- KV stored in int8 and loaded again ---- */

/* Exports every block of the prompt and imports it again. */
static void store_and_load(struct fixture *fixture, uint32_t token_count)
{
    size_t size = mr_model_kv_export_bytes(fixture->model, MR_BLOCK_TOKENS);
    unsigned char *bytes = malloc(size);
    for (uint32_t i = 0; i * MR_BLOCK_TOKENS < token_count; i++) {
        uint32_t left = token_count - i * MR_BLOCK_TOKENS;
        uint32_t count = left < MR_BLOCK_TOKENS ? left : MR_BLOCK_TOKENS;
        struct mr_kv_place place = {fixture->blocks[i], fixture->slots[i], 0};
        size = mr_model_kv_export_bytes(fixture->model, count);
        assert_int_equal(mr_model_kv_export(fixture->model, place, count, bytes, size, NULL),
                         MR_OK);
        assert_int_equal(mr_model_kv_import(fixture->model, place, count, bytes, size, NULL),
                         MR_OK);
    }
    free(bytes);
}

/* The logits after each token of the reference's continuation: [continuation_count][vocab_size], to
 * be freed. stored: the KV of the prompt is exported and imported first. */
static float *force_continuation(struct fixture *fixture, const struct prompt *prompt, bool stored)
{
    float *logits =
        calloc((size_t)prompt->continuation_count * fixture->vocab_size, sizeof *logits);
    run_prompt(fixture, prompt, STEP_ROWS, STEP_ROWS);
    if (stored) store_and_load(fixture, prompt->token_count);
    for (uint32_t i = 0; i < prompt->continuation_count; i++) {
        decode(fixture, prompt->continuation[i], prompt->token_count + i);
        float *row = logits + (size_t)i * fixture->vocab_size;
        assert_int_equal(mr_model_logits(fixture->model, 0, row, NULL), MR_OK);
    }
    return logits;
}

static void compare_int8(struct fixture *fixture, const struct prompt *prompt,
                         struct difference *sum)
{
    float *exact = force_continuation(fixture, prompt, false);
    float *loaded = force_continuation(fixture, prompt, true);
    for (uint32_t i = 0; i < prompt->continuation_count; i++) {
        size_t row = (size_t)i * fixture->vocab_size;
        add_row(sum, exact + row, loaded + row, fixture->vocab_size);
    }
    free(loaded);
    free(exact);
}

/* ---- tests ---- */

static void choose_the_tokens_of_fp32(enum mr_dtype dtype, enum kv_form kv, const char *name,
                                      double share_dense, double share_experts)
{
    uint32_t decided = 0, same = 0;
    for (size_t i = 0; i < golden_model_count; i++) {
        double share_max = golden_models[i].experts ? share_experts : share_dense;
        struct difference sum = {0};
        struct fixture exact, rounded;
        open_golden(&exact, &golden_models[i], MR_DTYPE_F32, KV_NUMBERS);
        open_golden(&rounded, &golden_models[i], dtype, kv);
        for (uint32_t k = 0; k < exact.prompt_count; k++) {
            struct prompt prompt = read_prompt(&exact);
            compare_bf16(&exact, &rounded, &prompt, &sum);
        }
        print(golden_models[i].name, name, &sum);
        close_fixture(&rounded);
        close_fixture(&exact);
        assert_true(sum.worst > 0); /* the second model must have rounded */
        assert_true(share(&sum) < share_max);
        assert_true(sum.decided >= sum.rows / 2);
        bool turned = golden_models[i].delta_rule && dtype == MR_DTYPE_INT8;
        assert_true(sum.decided_same >= sum.decided * (turned ? DELTA_SAME_EACH : BF16_SAME_EACH));
        decided += sum.decided;
        same += sum.decided_same;
    }
    assert_true(same >= decided * BF16_SAME);
}

static void bf16_chooses_the_tokens_of_fp32(void **state)
{
    (void)state;
    choose_the_tokens_of_fp32(MR_DTYPE_BF16, KV_NUMBERS, "bf16", BF16_SHARE, EXPERTS_SHARE);
}

static void bf16_on_torch_chooses_the_tokens_of_fp32(void **state)
{
    (void)state;
    choose_the_tokens_of_fp32(MR_DTYPE_BF16, KV_NUMBERS, "bf16", TORCH_SHARE, EXPERTS_SHARE);
}

static void fp16_on_torch_chooses_the_tokens_of_fp32(void **state)
{
    (void)state;
    choose_the_tokens_of_fp32(MR_DTYPE_F16, KV_NUMBERS, "fp16", FP16_SHARE, EXPERTS_SHARE);
}

static void int8_weights_choose_the_tokens_of_fp32(void **state)
{
    (void)state;
    choose_the_tokens_of_fp32(MR_DTYPE_INT8, KV_NUMBERS, "int8 weights", WEIGHTS_SHARE,
                              WEIGHTS_EXPERTS);
}

static void kv_in_int8_chooses_the_tokens_of_fp32(void **state)
{
    (void)state;
    choose_the_tokens_of_fp32(MR_DTYPE_F32, KV_INT8, "KV in int8", KV_SHARE, KV_EXPERTS);
}

static void int8_gives_nearly_the_same_logits(void **state)
{
    (void)state;
    for (size_t i = 0; i < golden_model_count; i++) {
        struct difference sum = {0};
        struct fixture fixture;
        if (!golden_models[i].int8) continue;
        open_golden(&fixture, &golden_models[i], MR_DTYPE_F32, KV_EXPORTED_INT8);
        for (uint32_t k = 0; k < fixture.prompt_count; k++) {
            struct prompt prompt = read_prompt(&fixture);
            compare_int8(&fixture, &prompt, &sum);
        }
        print(golden_models[i].name, "int8", &sum);
        close_fixture(&fixture);
        assert_true(sum.worst > 0); /* KV did go through int8 */
        assert_true(share(&sum) < INT8_SHARE);
        assert_true(sum.same >= sum.rows * INT8_SAME);
    }
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_chooses_the_tokens_of_fp32),
        cmocka_unit_test(int8_weights_choose_the_tokens_of_fp32),
        cmocka_unit_test(kv_in_int8_chooses_the_tokens_of_fp32),
        cmocka_unit_test(int8_gives_nearly_the_same_logits),
    };
    const struct CMUnitTest on_torch[] = {
        cmocka_unit_test(bf16_on_torch_chooses_the_tokens_of_fp32),
        cmocka_unit_test(fp16_on_torch_chooses_the_tokens_of_fp32),
        cmocka_unit_test(int8_gives_nearly_the_same_logits),
    };
    if (argument_count == 1) return cmocka_run_group_tests(tests, NULL, NULL);
    fixture_backend = arguments[1];
    return cmocka_run_group_tests(on_torch, NULL, NULL);
}
