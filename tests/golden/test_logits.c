/* Compares logits and greedy continuations to the reference implementation, in fp32: every
 * position, in steps of many shapes. Without arguments it tests the committed tiny models; with
 *     golden_test_logits MODEL EXPECTED.bin
 * it tests a model against the file that make_logits.py has written for it. */
#include "ops/model.h"

#include "kvcache/kv_window.h"
#include "ops/files/mapped_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOLERANCE      1e-4f
#define BF16_SHARE     0.015 /* largest root mean square error, relative to that of the logits */
#define BF16_WORST     0.15f /* largest error of a logit */
#define BF16_SAME      0.97  /* smallest share of equal greedy tokens */
#define INT8_SHARE     0.02  /* largest root mean square error, relative to that of the logits */
#define INT8_SAME      0.95  /* smallest share of equal greedy tokens */
#define STEP_ROWS      512u
#define STEP_SEQUENCES 64u
#define BLOCKS         (2048u / MR_BLOCK_TOKENS)

struct prompt {
    uint32_t token_count, first, continuation_count;
    const uint32_t *tokens, *continuation;
    const float *logits; /* of positions first .. token_count - 1 */
};

struct figures {
    float worst;        /* largest difference */
    uint32_t positions; /* positions compared */
};

struct fixture {
    struct mr_model *model;
    struct mr_mapped_file expected;
    const unsigned char *next;
    uint32_t vocab_size, prompt_count;
    float *row;
    uint32_t blocks[BLOCKS], slots[BLOCKS]; /* the same for every sequence */
    struct figures figures;
};

/* Assigns slots of sliding-window layers in a ring that is just large enough for a window and a
 * step of step_rows rows. */
static void choose_slots(struct fixture *fixture, uint32_t step_rows)
{
    const struct mr_model_info *info = mr_model_info(fixture->model);
    if (info->window_slots == 0) return;
    uint32_t ring = mr_kv_window_blocks(info->window_tokens, step_rows);
    assert_true(ring <= info->window_slots);
    for (uint32_t i = 0; i < BLOCKS; i++)
        fixture->slots[i] = i % ring;
}

/* ---- reading the expected logits ---- */

static uint32_t read_u32(struct fixture *fixture)
{
    uint32_t value;
    memcpy(&value, fixture->next, sizeof(value));
    fixture->next += sizeof(value);
    return value;
}

static const void *take(struct fixture *fixture, size_t count)
{
    const unsigned char *begin = fixture->next;
    fixture->next += count * sizeof(uint32_t);
    assert_true(fixture->next <= fixture->expected.bytes + fixture->expected.size);
    return begin;
}

static struct prompt read_prompt(struct fixture *fixture)
{
    struct prompt prompt = {0};
    prompt.token_count = read_u32(fixture);
    prompt.first = read_u32(fixture);
    prompt.continuation_count = read_u32(fixture);
    prompt.tokens = take(fixture, prompt.token_count);
    prompt.continuation = take(fixture, prompt.continuation_count);
    prompt.logits =
        take(fixture, (size_t)(prompt.token_count - prompt.first) * fixture->vocab_size);
    return prompt;
}

static void open_fixture(struct fixture *fixture, const char *model, const char *expected,
                         enum mr_dtype dtype, bool int8)
{
    struct mr_error err = {0};
    struct mr_model_options options = {.path = model,
                                       .device = "cpu",
                                       .dtype = dtype,
                                       .rows_max = STEP_ROWS,
                                       .sequences_max = STEP_SEQUENCES,
                                       .kv_int8 = int8};
    options.kv_bytes = 1;
    *fixture = (struct fixture){0};
    for (uint32_t i = 0; i < BLOCKS; i++)
        fixture->blocks[i] = (5 * i + 5) % BLOCKS; /* each block once, not in order */
    assert_int_equal(mr_model_open(&fixture->model, &options, &err), MR_OK);
    options.kv_bytes = mr_model_info(fixture->model)->kv_bytes_per_token * MR_BLOCK_TOKENS * BLOCKS;
    mr_model_close(fixture->model);
    if (mr_model_open(&fixture->model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_true(mr_model_info(fixture->model)->block_count >= BLOCKS);
    assert_int_equal(mr_mapped_file_open(&fixture->expected, expected, &err), MR_OK);
    assert_memory_equal(fixture->expected.bytes, "MRLOGIT1", 8);
    fixture->next = fixture->expected.bytes + 8;
    fixture->vocab_size = read_u32(fixture);
    fixture->prompt_count = read_u32(fixture);
    assert_int_equal(fixture->vocab_size, mr_model_info(fixture->model)->vocab_size);
    fixture->row = calloc(fixture->vocab_size, sizeof(float));
}

static void close_fixture(struct fixture *fixture)
{
    mr_mapped_file_close(&fixture->expected);
    free(fixture->row);
    mr_model_close(fixture->model);
}

/* ---- comparing ---- */

static uint32_t best(const float *logits, uint32_t count, float *margin)
{
    uint32_t top = 0;
    float second = -INFINITY;
    for (uint32_t i = 1; i < count; i++) {
        if (logits[i] > logits[top]) {
            second = logits[top];
            top = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    }
    *margin = logits[top] - second;
    return top;
}

static void compare_row(struct fixture *fixture, const struct prompt *prompt, uint32_t position,
                        uint32_t logit_row)
{
    const float *expected =
        prompt->logits + (size_t)(position - prompt->first) * fixture->vocab_size;
    assert_int_equal(mr_model_logits(fixture->model, logit_row, fixture->row, NULL), MR_OK);
    float worst = 0, margin, ours;
    for (uint32_t i = 0; i < fixture->vocab_size; i++) {
        float difference = fabsf(fixture->row[i] - expected[i]);
        if (!(difference <= TOLERANCE)) /* true for NaN */
            fail_msg("position %u of %u: logit %u differs by %g", position, prompt->token_count, i,
                     (double)difference);
        worst = difference > worst ? difference : worst;
    }
    uint32_t wanted = best(expected, fixture->vocab_size, &margin);
    if (margin > TOLERANCE)
        assert_int_equal(best(fixture->row, fixture->vocab_size, &ours), wanted);
    fixture->figures.worst = worst > fixture->figures.worst ? worst : fixture->figures.worst;
    fixture->figures.positions++;
}

/* Computes one step of rows [begin, end), cut into sequences of `width` rows that share their
 * blocks. The step writes all keys before any attention, so each sequence attends to the tokens of
 * those before. */
static void run_step(struct fixture *fixture, const struct prompt *prompt, uint32_t begin,
                     uint32_t end, uint32_t width)
{
    struct mr_batch_sequence sequences[STEP_SEQUENCES] = {0};
    struct mr_batch batch = {prompt->tokens + begin, end - begin, sequences, 0};
    for (uint32_t at = begin; at < end; at += width) {
        assert_true(batch.sequence_count < STEP_SEQUENCES);
        sequences[batch.sequence_count++] =
            (struct mr_batch_sequence){.row_begin = at - begin,
                                       .row_count = end - at < width ? end - at : width,
                                       .context_tokens = at,
                                       .blocks = fixture->blocks,
                                       .wants_logits = true,
                                       .slots = fixture->slots};
    }
    assert_int_equal(mr_model_forward(fixture->model, &batch, NULL), MR_OK);
    for (uint32_t i = 0; i < batch.sequence_count; i++) {
        uint32_t position = begin + sequences[i].row_begin + sequences[i].row_count - 1;
        if (position >= prompt->first) compare_row(fixture, prompt, position, i);
    }
}

static void run_prompt(struct fixture *fixture, const struct prompt *prompt, uint32_t step_rows,
                       uint32_t width)
{
    choose_slots(fixture, step_rows);
    for (uint32_t begin = 0; begin < prompt->token_count; begin += step_rows) {
        uint32_t left = prompt->token_count - begin;
        run_step(fixture, prompt, begin, begin + (left < step_rows ? left : step_rows), width);
    }
}

/* Computes one token at `position`; its logits are then logit row 0. */
static void decode(struct fixture *fixture, uint32_t token, uint32_t position)
{
    struct mr_batch_sequence next = {.row_count = 1,
                                     .context_tokens = position,
                                     .blocks = fixture->blocks,
                                     .wants_logits = true,
                                     .slots = fixture->slots};
    struct mr_batch batch = {&token, 1, &next, 1};
    assert_int_equal(mr_model_forward(fixture->model, &batch, NULL), MR_OK);
}

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

static void compare_model(const char *model, const char *expected)
{
    /* {rows of a step, rows of a sequence}: single positions, pieces, chunks, whole prompts */
    static const uint32_t shapes[][2] = {{STEP_SEQUENCES, 1}, {35, 7},    {255, 255},
                                         {256, 256},          {257, 257}, {STEP_ROWS, STEP_ROWS}};
    struct fixture fixture;
    open_fixture(&fixture, model, expected, MR_DTYPE_F32, false);
    for (uint32_t i = 0; i < fixture.prompt_count; i++) {
        struct prompt prompt = read_prompt(&fixture);
        for (size_t shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++)
            run_prompt(&fixture, &prompt, shapes[shape][0], shapes[shape][1]);
        continue_greedily(&fixture, &prompt);
    }
    assert_ptr_equal(fixture.next, fixture.expected.bytes + fixture.expected.size);
    print_message("%s: %u positions, largest difference %g\n", model, fixture.figures.positions,
                  (double)fixture.figures.worst);
    close_fixture(&fixture);
}

/* ---- bf16, the default ----
 * The bounds are above what rounding to bf16 costs these models: an emulation in numpy, with the
 * inputs of every product rounded, has shares of 0.004 to 0.0125 and largest errors up to 0.12. */

struct bf16_figures {
    double worst;                         /* largest difference of two logits */
    double squared_error, squared_logits; /* sums over all logits */
    uint32_t rows, same;                  /* same: rows with the same greedy token */
    uint32_t decided; /* rows whose two best tokens are further apart than rounding can move them */
};

/* Compares the logits of the last step of two models. exact has f32, which the tests above compare
 * with the reference. */
static void compare_bf16_row(struct fixture *exact, struct fixture *rounded,
                             struct bf16_figures *figures)
{
    float margin, ours;
    assert_int_equal(mr_model_logits(exact->model, 0, exact->row, NULL), MR_OK);
    assert_int_equal(mr_model_logits(rounded->model, 0, rounded->row, NULL), MR_OK);
    for (uint32_t i = 0; i < exact->vocab_size; i++) {
        double difference = fabs((double)exact->row[i] - (double)rounded->row[i]);
        if (!(difference <= (double)BF16_WORST)) /* true for NaN */
            fail_msg("row %u: logit %u differs by %g", figures->rows, i, difference);
        figures->worst = difference > figures->worst ? difference : figures->worst;
        figures->squared_error += difference * difference;
        figures->squared_logits += (double)exact->row[i] * (double)exact->row[i];
    }
    bool same = best(exact->row, exact->vocab_size, &margin) ==
                best(rounded->row, rounded->vocab_size, &ours);
    bool decided = margin > 2 * BF16_WORST;
    assert_true(same || !decided);
    figures->rows++;
    figures->same += same;
    figures->decided += decided;
}

/* Compares the logits at every position of a prompt and of the reference's continuation, a step
 * each: sequences of one step cannot share blocks in bf16, because two tokens share a word of V. */
static void compare_bf16(struct fixture *exact, struct fixture *rounded,
                         const struct prompt *prompt, struct bf16_figures *figures)
{
    choose_slots(exact, 1);
    choose_slots(rounded, 1);
    for (uint32_t i = 0; i < prompt->token_count + prompt->continuation_count; i++) {
        bool in_prompt = i < prompt->token_count;
        uint32_t token =
            in_prompt ? prompt->tokens[i] : prompt->continuation[i - prompt->token_count];
        decode(exact, token, i);
        decode(rounded, token, i);
        compare_bf16_row(exact, rounded, figures);
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

struct int8_figures {
    double worst;                         /* largest difference of two logits */
    double squared_error, squared_logits; /* sums over all logits */
    uint32_t rows, same;                  /* same: rows with the same greedy token */
};

static void compare_int8(struct fixture *fixture, const struct prompt *prompt,
                         struct int8_figures *figures)
{
    float *exact = force_continuation(fixture, prompt, false), margin;
    float *loaded = force_continuation(fixture, prompt, true);
    for (uint32_t i = 0; i < prompt->continuation_count; i++, figures->rows++) {
        const float *left = exact + (size_t)i * fixture->vocab_size;
        const float *right = loaded + (size_t)i * fixture->vocab_size;
        for (uint32_t k = 0; k < fixture->vocab_size; k++) {
            double difference = fabs((double)left[k] - (double)right[k]);
            figures->worst = difference <= figures->worst ? figures->worst : difference;
            figures->squared_error += difference * difference;
            figures->squared_logits += (double)left[k] * (double)left[k];
        }
        figures->same +=
            best(left, fixture->vocab_size, &margin) == best(right, fixture->vocab_size, &margin);
    }
    free(loaded);
    free(exact);
}

/* ---- tests ---- */

static void compare_tiny(const char *name)
{
    char model[128], expected[160];
    snprintf(model, sizeof(model), "tests/golden/models/%s", name);
    snprintf(expected, sizeof(expected), "%s/expected.bin", model);
    compare_model(model, expected);
}

#define TINY(name)                                                                                 \
    static void name##_equals_the_reference(void **state)                                          \
    {                                                                                              \
        (void)state;                                                                               \
        compare_tiny(#name);                                                                       \
    }
TINY(grouped_tied)
TINY(multi_head_untied_biases)
TINY(llama3_rope_sharded)
TINY(qwen2)
TINY(qwen3_head_norm)
TINY(mistral_window)
TINY(mistral_slides)
TINY(qwen2_slides_above)

static void bf16_gives_nearly_the_same_logits(void **state)
{
    static const char *const names[] = {
        "grouped_tied",    "multi_head_untied_biases", "llama3_rope_sharded", "qwen2",
        "qwen3_head_norm", "mistral_window",           "mistral_slides",      "qwen2_slides_above"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct bf16_figures figures = {0};
        struct fixture exact, rounded;
        char model[128], expected[160];
        snprintf(model, sizeof(model), "tests/golden/models/%s", names[i]);
        snprintf(expected, sizeof(expected), "%s/expected.bin", model);
        open_fixture(&exact, model, expected, MR_DTYPE_F32, false);
        open_fixture(&rounded, model, expected, MR_DTYPE_BF16, false);
        for (uint32_t k = 0; k < exact.prompt_count; k++) {
            struct prompt prompt = read_prompt(&exact);
            compare_bf16(&exact, &rounded, &prompt, &figures);
        }
        double share = sqrt(figures.squared_error / figures.squared_logits);
        print_message("%s: bf16 changes the logits of %u rows by a share of %.4f, at most by %.4f; "
                      "%u greedy tokens are equal, %u of them must be\n",
                      names[i], figures.rows, share, figures.worst, figures.same, figures.decided);
        close_fixture(&rounded);
        close_fixture(&exact);
        assert_true(figures.worst > 0); /* the second model did compute in bf16 */
        assert_true(share < BF16_SHARE);
        assert_true(figures.same >= figures.rows * BF16_SAME);
        assert_true(figures.decided >= figures.rows / 3);
    }
}

static void int8_gives_nearly_the_same_logits(void **state)
{
    static const char *const names[] = {"grouped_tied",    "multi_head_untied_biases",
                                        "qwen3_head_norm", "llama3_rope_sharded",
                                        "mistral_slides",  "qwen2_slides_above"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct int8_figures figures = {0};
        struct fixture fixture;
        char model[128], expected[160];
        snprintf(model, sizeof(model), "tests/golden/models/%s", names[i]);
        snprintf(expected, sizeof(expected), "%s/expected.bin", model);
        open_fixture(&fixture, model, expected, MR_DTYPE_F32, true);
        for (uint32_t k = 0; k < fixture.prompt_count; k++) {
            struct prompt prompt = read_prompt(&fixture);
            compare_int8(&fixture, &prompt, &figures);
        }
        double share = sqrt(figures.squared_error / figures.squared_logits);
        print_message("%s: int8 changes the logits of %u rows by a share of %.4f, at most by "
                      "%.4f; %u greedy tokens are equal\n",
                      names[i], figures.rows, share, figures.worst, figures.same);
        close_fixture(&fixture);
        assert_true(figures.worst > 0); /* KV did go through int8 */
        assert_true(share < INT8_SHARE);
        assert_true(figures.same >= figures.rows * INT8_SAME);
    }
}

static const char *given_model, *given_expected;

static void the_given_model_equals_the_reference(void **state)
{
    (void)state;
    compare_model(given_model, given_expected);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tiny[] = {
        cmocka_unit_test(grouped_tied_equals_the_reference),
        cmocka_unit_test(multi_head_untied_biases_equals_the_reference),
        cmocka_unit_test(llama3_rope_sharded_equals_the_reference),
        cmocka_unit_test(qwen2_equals_the_reference),
        cmocka_unit_test(qwen3_head_norm_equals_the_reference),
        cmocka_unit_test(mistral_window_equals_the_reference),
        cmocka_unit_test(mistral_slides_equals_the_reference),
        cmocka_unit_test(qwen2_slides_above_equals_the_reference),
        cmocka_unit_test(bf16_gives_nearly_the_same_logits),
        cmocka_unit_test(int8_gives_nearly_the_same_logits),
    };
    const struct CMUnitTest given[] = {cmocka_unit_test(the_given_model_equals_the_reference)};
    if (argument_count != 3) return cmocka_run_group_tests(tiny, NULL, NULL);
    given_model = arguments[1];
    given_expected = arguments[2];
    return cmocka_run_group_tests(given, NULL, NULL);
}
