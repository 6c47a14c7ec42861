/* Compares logits and greedy continuations to the reference implementation, in fp32: every position, in
 * steps of many shapes. Without arguments it tests the committed tiny models; with
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

#define TOLERANCE      1e-3f
#define INT8_SHARE     0.02 /* largest root mean square error, relative to that of the logits */
#define INT8_SAME      0.95 /* smallest share of equal greedy tokens */
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

struct bench {
    struct mr_model *model;
    struct mr_mapped_file expected;
    const unsigned char *next;
    uint32_t vocab_size, prompt_count;
    float *row;
    uint32_t blocks[BLOCKS], slots[BLOCKS]; /* the same for every sequence */
    struct figures figures;
};

/* Assigns slots of sliding-window layers in a ring that is just large enough for a window and a step of
 * step_rows rows. */
static void choose_slots(struct bench *bench, uint32_t step_rows)
{
    const struct mr_model_info *info = mr_model_info(bench->model);
    if (info->window_slots == 0) return;
    uint32_t ring = mr_kv_window_blocks(info->window_tokens, step_rows);
    assert_true(ring <= info->window_slots);
    for (uint32_t i = 0; i < BLOCKS; i++)
        bench->slots[i] = i % ring;
}

/* ---- reading the expected logits ---- */

static uint32_t read_u32(struct bench *bench)
{
    uint32_t value;
    memcpy(&value, bench->next, sizeof(value));
    bench->next += sizeof(value);
    return value;
}

static const void *take(struct bench *bench, size_t count)
{
    const unsigned char *begin = bench->next;
    bench->next += count * sizeof(uint32_t);
    assert_true(bench->next <= bench->expected.bytes + bench->expected.size);
    return begin;
}

static struct prompt read_prompt(struct bench *bench)
{
    struct prompt prompt = {0};
    prompt.token_count = read_u32(bench);
    prompt.first = read_u32(bench);
    prompt.continuation_count = read_u32(bench);
    prompt.tokens = take(bench, prompt.token_count);
    prompt.continuation = take(bench, prompt.continuation_count);
    prompt.logits = take(bench, (size_t)(prompt.token_count - prompt.first) * bench->vocab_size);
    return prompt;
}

static void open_bench(struct bench *bench, const char *model, const char *expected, bool int8)
{
    struct mr_error err = {0};
    struct mr_model_options options = {.path = model,
                                       .device = "cpu",
                                       .dtype = MR_DTYPE_F32,
                                       .rows_max = STEP_ROWS,
                                       .sequences_max = STEP_SEQUENCES,
                                       .kv_int8 = int8};
    options.kv_bytes = 1;
    *bench = (struct bench){0};
    for (uint32_t i = 0; i < BLOCKS; i++)
        bench->blocks[i] = (5 * i + 5) % BLOCKS; /* each block once, not in order */
    assert_int_equal(mr_model_open(&bench->model, &options, &err), MR_OK);
    options.kv_bytes = mr_model_info(bench->model)->kv_bytes_per_token * MR_BLOCK_TOKENS * BLOCKS;
    mr_model_close(bench->model);
    if (mr_model_open(&bench->model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_true(mr_model_info(bench->model)->block_count >= BLOCKS);
    assert_int_equal(mr_mapped_file_open(&bench->expected, expected, &err), MR_OK);
    assert_memory_equal(bench->expected.bytes, "MRLOGIT1", 8);
    bench->next = bench->expected.bytes + 8;
    bench->vocab_size = read_u32(bench);
    bench->prompt_count = read_u32(bench);
    assert_int_equal(bench->vocab_size, mr_model_info(bench->model)->vocab_size);
    bench->row = calloc(bench->vocab_size, sizeof(float));
}

static void close_bench(struct bench *bench)
{
    mr_mapped_file_close(&bench->expected);
    free(bench->row);
    mr_model_close(bench->model);
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

static void compare_row(struct bench *bench, const struct prompt *prompt, uint32_t position,
                        uint32_t logit_row)
{
    const float *expected = prompt->logits + (size_t)(position - prompt->first) * bench->vocab_size;
    assert_int_equal(mr_model_logits(bench->model, logit_row, bench->row, NULL), MR_OK);
    float worst = 0, margin, ours;
    for (uint32_t i = 0; i < bench->vocab_size; i++) {
        float difference = fabsf(bench->row[i] - expected[i]);
        worst = difference <= worst ? worst : difference; /* true for NaN */
    }
    if (!(worst <= TOLERANCE))
        fail_msg("position %u of %u: logits differ by %g", position, prompt->token_count,
                 (double)worst);
    uint32_t wanted = best(expected, bench->vocab_size, &margin);
    if (margin > TOLERANCE) assert_int_equal(best(bench->row, bench->vocab_size, &ours), wanted);
    bench->figures.worst = worst > bench->figures.worst ? worst : bench->figures.worst;
    bench->figures.positions++;
}

/* Computes one step of rows [begin, end), cut into sequences of `width` rows that share their blocks. The
 * step writes all keys before any attention, so each sequence attends to the tokens of those before. */
static void run_step(struct bench *bench, const struct prompt *prompt, uint32_t begin, uint32_t end,
                     uint32_t width)
{
    struct mr_batch_sequence sequences[STEP_SEQUENCES] = {0};
    struct mr_batch batch = {prompt->tokens + begin, end - begin, sequences, 0};
    for (uint32_t at = begin; at < end; at += width) {
        assert_true(batch.sequence_count < STEP_SEQUENCES);
        sequences[batch.sequence_count++] =
            (struct mr_batch_sequence){.row_begin = at - begin,
                                       .row_count = end - at < width ? end - at : width,
                                       .context_tokens = at,
                                       .blocks = bench->blocks,
                                       .wants_logits = true,
                                       .slots = bench->slots};
    }
    assert_int_equal(mr_model_forward(bench->model, &batch, NULL), MR_OK);
    for (uint32_t i = 0; i < batch.sequence_count; i++) {
        uint32_t position = begin + sequences[i].row_begin + sequences[i].row_count - 1;
        if (position >= prompt->first) compare_row(bench, prompt, position, i);
    }
}

static void run_prompt(struct bench *bench, const struct prompt *prompt, uint32_t step_rows,
                       uint32_t width)
{
    choose_slots(bench, step_rows);
    for (uint32_t begin = 0; begin < prompt->token_count; begin += step_rows) {
        uint32_t left = prompt->token_count - begin;
        run_step(bench, prompt, begin, begin + (left < step_rows ? left : step_rows), width);
    }
}

static void continue_greedily(struct bench *bench, const struct prompt *prompt)
{
    run_prompt(bench, prompt, STEP_ROWS, STEP_ROWS);
    struct mr_sampling greedy = {
        .temperature = 0.0f, .top_p = 1.0f, .repetition_penalty = 1.0f, .logprobs = -1};
    struct mr_sample_row row = {.sampling = &greedy};
    for (uint32_t i = 0; i < prompt->continuation_count; i++) {
        struct mr_sample sample;
        assert_int_equal(mr_model_sample(bench->model, &row, 1, &sample, NULL), MR_OK);
        if (sample.token_id != prompt->continuation[i])
            fail_msg("continuation of %u tokens: token %u is %u, the reference has %u",
                     prompt->token_count, i, sample.token_id, prompt->continuation[i]);
        struct mr_batch_sequence next = {.row_count = 1,
                                         .context_tokens = prompt->token_count + i,
                                         .blocks = bench->blocks,
                                         .wants_logits = true,
                                         .slots = bench->slots};
        struct mr_batch batch = {&sample.token_id, 1, &next, 1};
        assert_int_equal(mr_model_forward(bench->model, &batch, NULL), MR_OK);
    }
}

static void compare_model(const char *model, const char *expected)
{
    /* rows of a step, rows of a sequence: every position alone, small pieces, chunks, whole */
    static const uint32_t shapes[][2] = {{STEP_SEQUENCES, 1}, {35, 7},    {255, 255},
                                         {256, 256},          {257, 257}, {STEP_ROWS, STEP_ROWS}};
    struct bench bench;
    open_bench(&bench, model, expected, false);
    for (uint32_t i = 0; i < bench.prompt_count; i++) {
        struct prompt prompt = read_prompt(&bench);
        for (size_t shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++)
            run_prompt(&bench, &prompt, shapes[shape][0], shapes[shape][1]);
        continue_greedily(&bench, &prompt);
    }
    assert_ptr_equal(bench.next, bench.expected.bytes + bench.expected.size);
    print_message("%s: %u positions, greatest difference %g\n", model, bench.figures.positions,
                  (double)bench.figures.worst);
    close_bench(&bench);
}

/* ---- stored in int8 and loaded again ---- */

/* Every block of the prompt goes out and comes back. */
static void store_and_load(struct bench *bench, uint32_t token_count)
{
    size_t size = mr_model_kv_export_bytes(bench->model, MR_BLOCK_TOKENS);
    unsigned char *bytes = malloc(size);
    for (uint32_t i = 0; i * MR_BLOCK_TOKENS < token_count; i++) {
        uint32_t left = token_count - i * MR_BLOCK_TOKENS;
        uint32_t count = left < MR_BLOCK_TOKENS ? left : MR_BLOCK_TOKENS;
        struct mr_kv_place place = {bench->blocks[i], bench->slots[i], 0};
        size = mr_model_kv_export_bytes(bench->model, count);
        assert_int_equal(mr_model_kv_export(bench->model, place, count, bytes, size, NULL), MR_OK);
        assert_int_equal(mr_model_kv_import(bench->model, place, count, bytes, size, NULL), MR_OK);
    }
    free(bytes);
}

/* Logits of the reference's continuation, one token at a time: [continuation_count][vocab_size]. */
static float *continue_as_told(struct bench *bench, const struct prompt *prompt, bool stored)
{
    float *logits = calloc((size_t)prompt->continuation_count * bench->vocab_size, sizeof *logits);
    run_prompt(bench, prompt, STEP_ROWS, STEP_ROWS);
    if (stored) store_and_load(bench, prompt->token_count);
    for (uint32_t i = 0; i < prompt->continuation_count; i++) {
        struct mr_batch_sequence next = {.row_count = 1,
                                         .context_tokens = prompt->token_count + i,
                                         .blocks = bench->blocks,
                                         .wants_logits = true,
                                         .slots = bench->slots};
        struct mr_batch batch = {prompt->continuation + i, 1, &next, 1};
        assert_int_equal(mr_model_forward(bench->model, &batch, NULL), MR_OK);
        float *row = logits + (size_t)i * bench->vocab_size;
        assert_int_equal(mr_model_logits(bench->model, 0, row, NULL), MR_OK);
    }
    return logits;
}

struct int8_figures {
    double worst, sum, spread; /* of differences; of logits, from their mean */
    uint32_t rows, same;       /* same: the greedy token is */
};

static void compare_int8(struct bench *bench, const struct prompt *prompt,
                         struct int8_figures *figures)
{
    float *exact = continue_as_told(bench, prompt, false), margin;
    float *loaded = continue_as_told(bench, prompt, true);
    for (uint32_t i = 0; i < prompt->continuation_count; i++, figures->rows++) {
        const float *left = exact + (size_t)i * bench->vocab_size;
        const float *right = loaded + (size_t)i * bench->vocab_size;
        for (uint32_t k = 0; k < bench->vocab_size; k++) {
            double difference = fabs((double)left[k] - (double)right[k]);
            figures->worst = difference <= figures->worst ? figures->worst : difference;
            figures->sum += difference * difference;
            figures->spread += (double)left[k] * (double)left[k];
        }
        figures->same +=
            best(left, bench->vocab_size, &margin) == best(right, bench->vocab_size, &margin);
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
    static void name##_is_the_reference(void **state)                                              \
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

static void int8_stays_close(void **state)
{
    static const char *const names[] = {"grouped_tied",    "multi_head_untied_biases",
                                        "qwen3_head_norm", "llama3_rope_sharded",
                                        "mistral_slides",  "qwen2_slides_above"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct int8_figures figures = {0};
        struct bench bench;
        char model[128], expected[160];
        snprintf(model, sizeof(model), "tests/golden/models/%s", names[i]);
        snprintf(expected, sizeof(expected), "%s/expected.bin", model);
        open_bench(&bench, model, expected, true);
        for (uint32_t k = 0; k < bench.prompt_count; k++) {
            struct prompt prompt = read_prompt(&bench);
            compare_int8(&bench, &prompt, &figures);
        }
        double share = sqrt(figures.sum / figures.spread);
        print_message("%s: int8 moves %u rows by %.4f of their size, %.4f at most; %u greedy "
                      "tokens are the same\n",
                      names[i], figures.rows, share, figures.worst, figures.same);
        close_bench(&bench);
        assert_true(figures.worst > 0); /* it went through int8 */
        assert_true(share < INT8_SHARE);
        assert_true(figures.same >= figures.rows * INT8_SAME);
    }
}

static const char *given_model, *given_expected;

static void the_given_model_is_the_reference(void **state)
{
    (void)state;
    compare_model(given_model, given_expected);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tiny[] = {
        cmocka_unit_test(grouped_tied_is_the_reference),
        cmocka_unit_test(multi_head_untied_biases_is_the_reference),
        cmocka_unit_test(llama3_rope_sharded_is_the_reference),
        cmocka_unit_test(qwen2_is_the_reference),
        cmocka_unit_test(qwen3_head_norm_is_the_reference),
        cmocka_unit_test(mistral_window_is_the_reference),
        cmocka_unit_test(mistral_slides_is_the_reference),
        cmocka_unit_test(qwen2_slides_above_is_the_reference),
        cmocka_unit_test(int8_stays_close),
    };
    const struct CMUnitTest given[] = {cmocka_unit_test(the_given_model_is_the_reference)};
    if (argument_count != 3) return cmocka_run_group_tests(tiny, NULL, NULL);
    given_model = arguments[1];
    given_expected = arguments[2];
    return cmocka_run_group_tests(given, NULL, NULL);
}
