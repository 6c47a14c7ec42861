/* Draws from the findings of the device must equal draws from the whole rows. */
#include "ops/torch/torch_backend.h"

#include "ops/cpu_kernels/parallel.h"
#include "ops/sampling/sampler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../numbers.h"
#include "load_torch.h"
#include "tests/fakes/draw_kernels.h"

enum { ROWS = 16, HISTORY = 60, BIASES = 4, LISTED = 5, WORDS_MAX = 80 };

/* A step whose row i of logits is column i of `head`: token i is embedded as unit vector i. */
struct rig {
    struct mr_compute *compute;
    struct mr_linear *units, *head;
    struct mr_step *step;
    struct mr_sampler *sampler;
    uint32_t vocab;
    float *columns; /* [ROWS][vocab] */
    uint64_t seed;
};

static const struct mr_backend *backend;

static void read_unit(void *context, uint32_t row, float *out)
{
    (void)context;
    memset(out, 0, ROWS * sizeof *out);
    out[row] = 1.0f;
}

static void read_column(void *context, uint32_t id, float *out)
{
    const struct rig *rig = context;
    for (uint32_t row = 0; row < ROWS; row++)
        out[row] = rig->columns[row * rig->vocab + id];
}

static uint32_t below(struct rig *rig, uint32_t end)
{
    const float number = (number_next(&rig->seed) + 1.0f) / 2.0f;
    const uint32_t result = (uint32_t)(number * (float)end);
    return result < end ? result : end - 1;
}

/* Flat rows and rows with a few likely tokens; some of each have many equal logits. */
static void fill_columns(struct rig *rig)
{
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t id = 0; id < rig->vocab; id++) {
            const float number = number_next(&rig->seed);
            float logit = row % 2 == 0 ? 4.0f * number : 14.0f * number * number * number;
            if (row % 4 >= 2) logit = roundf(logit * 4.0f) / 4.0f;
            rig->columns[row * rig->vocab + id] = logit;
        }
}

static void run_step(struct rig *rig)
{
    uint32_t tokens[ROWS], block = 0;
    struct mr_step_sequence sequences[ROWS];
    const struct mr_linear_spec head = {
        .out_size = rig->vocab, .in_size = ROWS, .source = read_column, .source_context = rig};
    fill_columns(rig);
    backend->linear_destroy(rig->head);
    assert_int_equal(backend->linear_create(rig->compute, &rig->head, &head, NULL), MR_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        tokens[i] = i;
        sequences[i] =
            (struct mr_step_sequence){.row_begin = i, .row_count = 1, .blocks = {&block, NULL}};
    }
    backend->stage(rig->step, tokens, ROWS, sequences, ROWS, NULL);
    backend->embed(rig->step, rig->units, 1.0f);
    backend->norm(rig->step, NULL, ROWS);
    backend->linear(rig->step, rig->head, MR_NORMED, ROWS, MR_STORE, MR_LOGITS);
}

/* kernels: NULL, or the device draws. */
static void open_rig(struct rig *rig, uint32_t vocab, const struct mr_cuda_kernels *kernels)
{
    struct mr_step_spec spec = {.rows_max = ROWS, .sequences_max = ROWS};
    const struct mr_linear_spec units = {
        .out_size = ROWS, .in_size = ROWS, .source = read_unit, .table = true};
    const struct mr_device cpu = {.kind = MR_DEVICE_CPU, .kernels = kernels};
    const struct mr_sampler_spec sampler = {.vocab_size = vocab,
                                            .thread_count = mr_parallel_thread_count()};
    spec.widths[MR_RESIDUAL] = spec.widths[MR_NORMED] = ROWS;
    spec.widths[MR_LOGITS] = vocab;
    *rig = (struct rig){.vocab = vocab, .seed = 20261123 + vocab};
    rig->columns = malloc((size_t)ROWS * vocab * sizeof *rig->columns);
    assert_non_null(rig->columns);
    assert_int_equal(backend->open(&rig->compute, cpu, MR_NUMBER_F32, NULL), MR_OK);
    assert_int_equal(backend->linear_create(rig->compute, &rig->units, &units, NULL), MR_OK);
    assert_int_equal(backend->step_create(rig->compute, &rig->step, &spec, NULL), MR_OK);
    assert_int_equal(mr_sampler_create(&rig->sampler, &sampler, NULL), MR_OK);
}

static void close_rig(struct rig *rig)
{
    mr_sampler_destroy(rig->sampler);
    backend->step_destroy(rig->step);
    backend->linear_destroy(rig->head);
    backend->linear_destroy(rig->units);
    backend->close(rig->compute);
    free(rig->columns);
}

/* ---- random requests ---- */

struct wish { /* a row and the arrays that it points to */
    struct mr_sample_row row;
    struct mr_sampling sampling;
    struct mr_logit_bias bias[BIASES];
    uint32_t history[HISTORY], listed[LISTED], suppressed[LISTED], word[2], word_count;
    const uint32_t *words;
    uint64_t allowed[WORDS_MAX];
};

static float any_of(struct rig *rig, const float *values, uint32_t count)
{
    return values[below(rig, count)];
}

#define ANY(rig, ...)                                                                              \
    any_of(rig, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

static void wish_edits(struct rig *rig, struct wish *wish)
{
    struct mr_sampling *sampling = &wish->sampling;
    if (below(rig, 3) == 0) sampling->logit_bias_count = BIASES;
    for (uint32_t i = 0; i < BIASES; i++) /* the last id is outside the vocabulary */
        wish->bias[i] = (struct mr_logit_bias){i + 1 < BIASES ? below(rig, rig->vocab) : rig->vocab,
                                               8.0f * number_next(&rig->seed)};
    sampling->logit_bias = wish->bias;
    sampling->repetition_penalty = ANY(rig, 1.0f, 1.0f, 1.3f, 0.7f);
    sampling->presence_penalty = ANY(rig, 0.0f, 0.0f, 0.5f);
    sampling->frequency_penalty = ANY(rig, 0.0f, 0.0f, 0.25f, -0.25f);
    for (uint32_t i = 0; i < HISTORY; i++)
        wish->history[i] = below(rig, i % 2 == 0 ? rig->vocab : 12);
    wish->row.history = wish->history;
    wish->row.history_count = HISTORY;
    wish->row.prompt_count = HISTORY / 2;
}

static void wish_masks(struct rig *rig, struct wish *wish)
{
    for (uint32_t i = 0; i < LISTED; i++) {
        wish->listed[i] = below(rig, rig->vocab);
        wish->suppressed[i] = below(rig, rig->vocab + 2);
    }
    wish->sampling.allowed_token_ids = wish->listed;
    wish->row.suppressed = wish->suppressed;
    wish->word[0] = wish->history[HISTORY - 1];
    wish->word[1] = below(rig, rig->vocab);
    wish->word_count = 2;
    wish->words = wish->word;
    wish->row.bad_words = &wish->words;
    wish->row.bad_word_counts = &wish->word_count;
    if (below(rig, 8) == 0) wish->sampling.allowed_token_count = LISTED;
    if (below(rig, 4) == 0) wish->row.suppressed_count = LISTED;
    if (below(rig, 4) == 0) wish->row.bad_word_count = 1;
    if (below(rig, 4) != 0) return;
    const uint32_t one_in = below(rig, 2) == 0 ? 2 : 100;
    wish->allowed[0] = 4;
    for (uint32_t id = 0; id < rig->vocab; id++)
        if (below(rig, one_in) == 0) wish->allowed[id / 64] |= (uint64_t)1 << id % 64;
    wish->row.allowed = wish->allowed;
}

static void make_wish(struct rig *rig, uint32_t row, struct wish *wish)
{
    *wish = (struct wish){0};
    struct mr_sampling *sampling = &wish->sampling;
    sampling->temperature = ANY(rig, 0.0f, 0.3f, 1.0f, 1.0f, 2.0f);
    sampling->top_k = (uint32_t)ANY(rig, 0, 0, 1, 5, 40, 255, 1000);
    sampling->top_p = ANY(rig, 1.0f, 1.0f, 0.9f, 0.2f, 0.999f);
    sampling->min_p = ANY(rig, 0.0f, 0.0f, 0.05f, 1e-6f);
    sampling->typical_p = ANY(rig, 1.0f, 1.0f, 0.5f);
    sampling->logprobs = (int32_t)ANY(rig, -1, 0, 5, MR_LOGPROBS_MAX);
    wish->row = (struct mr_sample_row){.logit_row = row,
                                       .sampling = sampling,
                                       .seed = rig->seed,
                                       .position = below(rig, 1000),
                                       .given = below(rig, 12) == 0,
                                       .given_id = below(rig, rig->vocab)};
    wish_edits(rig, wish);
    wish_masks(rig, wish);
}

/* ---- comparing ---- */

static void agree(const struct mr_sample *a, const struct mr_sample *b)
{
    assert_int_equal(a->failed, b->failed);
    assert_int_equal(a->token_id, b->token_id);
    assert_true(fabsf(a->probability - b->probability) <= 1e-5f);
    assert_true(fabsf(a->logprob - b->logprob) <= 1e-5f);
    assert_int_equal(a->top_count, b->top_count);
    for (uint32_t i = 0; i < a->top_count; i++) {
        assert_int_equal(a->top_ids[i], b->top_ids[i]);
        assert_true(fabsf(a->top_logprobs[i] - b->top_logprobs[i]) <= 1e-5f);
    }
}

/* Draws through the device; returns the number of rows that needed whole logits. */
static uint32_t draw(struct rig *rig, const struct wish *wishes, uint32_t count,
                     struct mr_sample *samples)
{
    struct mr_device_row rows[ROWS];
    for (uint32_t i = 0; i < count; i++) {
        struct mr_logit_query query;
        rows[i] =
            (struct mr_device_row){.logit_row = wishes[i].row.logit_row, .needs_logits = true};
        mr_sampler_describe(rig->sampler, &wishes[i].row, &query, &rows[i].draw);
        backend->query(rig->step, &query);
    }
    backend->search(rig->step);
    assert_int_equal(backend->finish(rig->step, NULL), MR_OK);
    for (uint32_t i = 0; i < count; i++)
        rows[i].found = backend->findings(rig->step, i);
    const uint32_t asking = mr_sampler_draw(rig->sampler, rows, count, samples);
    for (uint32_t i = 0; i < count; i++) {
        if (!rows[i].needs_logits) continue;
        rows[i].edited = backend->edited(rig->step, i, NULL);
        rows[i].model = backend->logits(rig->step, rows[i].logit_row, NULL);
    }
    assert_int_equal(mr_sampler_draw(rig->sampler, rows, count, samples), 0);
    return asking;
}

static uint32_t compare(struct rig *rig, struct wish *wishes, uint32_t count)
{
    struct mr_sample found[ROWS], whole[ROWS];
    const uint32_t asking = draw(rig, wishes, count, found);
    for (uint32_t i = 0; i < count; i++) {
        wishes[i].row.logits = backend->logits(rig->step, wishes[i].row.logit_row, NULL);
        mr_sampler_run(rig->sampler, &wishes[i].row, 1, &whole[i]);
        agree(&found[i], &whole[i]);
    }
    return asking;
}

static void compare_draws(const struct mr_cuda_kernels *kernels, uint32_t asking_one_in)
{
    static const uint32_t vocabs[] = {5000, 300, 100};
    for (size_t size = 0; size < sizeof vocabs / sizeof vocabs[0]; size++) {
        struct rig rig;
        uint32_t asking = 0, drawn = 0;
        open_rig(&rig, vocabs[size], kernels);
        for (uint32_t round = 0; round < 60; round++) {
            struct wish wishes[ROWS];
            const uint32_t count = 1 + below(&rig, ROWS);
            run_step(&rig);
            for (uint32_t i = 0; i < count; i++) /* a row may be drawn from twice */
                make_wish(&rig, below(&rig, 4) == 0 ? below(&rig, ROWS) : i, &wishes[i]);
            asking += compare(&rig, wishes, count);
            drawn += count;
        }
        print_message("vocabulary of %u: %u draws, %u from whole rows\n", vocabs[size], drawn,
                      asking);
        assert_true(asking > 0 && asking * asking_one_in < drawn);
        close_rig(&rig);
    }
}

static void draws_equal_those_from_whole_rows(void **state)
{
    (void)state;
    compare_draws(NULL, 2);
}

/* The host needs the whole row of a given token, for equal logits at the end of the list of the
 * largest, and when all tokens are masked. */
static void draws_of_the_device_equal_those_from_whole_rows(void **state)
{
    (void)state;
    compare_draws(&draw_kernels, 4);
}

/* The usual cuts of requests stay within the list, except with flat logits. */
static void usual_cuts_need_no_whole_row(void **state)
{
    (void)state;
    static const struct mr_sampling usual[] = {
        {.temperature = 0.0f, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
        {.temperature = 0.7f, .top_p = 0.8f, .top_k = 20, .typical_p = 1, .repetition_penalty = 1},
        {.temperature = 0.6f, .top_p = 0.9f, .typical_p = 1, .repetition_penalty = 1},
        {.temperature = 1.0f,
         .top_p = 1,
         .min_p = 0.1f,
         .typical_p = 1,
         .repetition_penalty = 1.1f},
    };
    struct rig rig;
    open_rig(&rig, 5000, NULL);
    for (uint32_t round = 0; round < 10; round++) {
        struct wish wishes[ROWS] = {0};
        run_step(&rig);
        for (uint32_t i = 0; i < ROWS / 2; i++) {
            wishes[i].sampling = usual[i % 4];
            wishes[i].sampling.logprobs = 5;
            wishes[i].row = (struct mr_sample_row){.logit_row = 2 * i + 1,
                                                   .sampling = &wishes[i].sampling,
                                                   .seed = rig.seed,
                                                   .position = round};
        }
        assert_int_equal(compare(&rig, wishes, ROWS / 2), 0);
    }
    close_rig(&rig);
}

/* A second list of queries, after a search, returns no results of the first. */
static void every_search_has_its_own_queries(void **state)
{
    (void)state;
    struct rig rig;
    struct wish wishes[ROWS];
    open_rig(&rig, 300, NULL);
    run_step(&rig);
    for (uint32_t i = 0; i < ROWS; i++)
        make_wish(&rig, i, &wishes[i]);
    (void)compare(&rig, wishes, ROWS);
    (void)compare(&rig, wishes + 7, 3);
    (void)compare(&rig, wishes, 1);
    close_rig(&rig);
}

static void logits_that_are_not_numbers_give_no_token(void **state)
{
    (void)state;
    struct rig rig;
    struct wish wish;
    struct mr_sample sample;
    open_rig(&rig, 100, NULL);
    run_step(&rig);
    make_wish(&rig, 3, &wish);
    backend->softcap(rig.step, NAN, ROWS);
    (void)draw(&rig, &wish, 1, &sample);
    assert_true(sample.failed);
    close_rig(&rig);
}

int main(void)
{
    if (mr_parallel_set_thread_count(2, NULL) != MR_OK) return 1;
    backend = torch_backend();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_equal_those_from_whole_rows),
        cmocka_unit_test(draws_of_the_device_equal_those_from_whole_rows),
        cmocka_unit_test(usual_cuts_need_no_whole_row),
        cmocka_unit_test(every_search_has_its_own_queries),
        cmocka_unit_test(logits_that_are_not_numbers_give_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
