/* Steps in flight, on a model whose device draws (tests/fakes/draw_kernels.h): a token that feeds
 * the next step is the token that the host reports, and results stay valid while the next step
 * runs. */
#include "ops/model/step_queue.h"

#include "ops/model/model.h"
#include "tests/fakes/draw_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TINY "tests/golden/models/grouped_tied"

enum { ROWS = 9, TOKENS = 24, FIRST_TOKEN = 3, VOCAB = 272, HIDDEN_MAX = 512 };
#define BLOCKS_EACH ((TOKENS + MR_BLOCK_TOKENS - 1) / MR_BLOCK_TOKENS)

static struct mr_model *open_model(const struct mr_cuda_kernels *kernels)
{
    const struct mr_model_options options = {.path = TINY,
                                             .device = "cpu",
                                             .backend = "torch",
                                             .cuda_kernels = kernels,
                                             .dtype = MR_DTYPE_F32,
                                             .thread_count = 1,
                                             .kv_bytes = (uint64_t)32 << 20,
                                             .rows_max = 64,
                                             .sequences_max = 16};
    struct mr_model *model;
    struct mr_error err = {0};
    if (mr_model_open(&model, &options, &err) != MR_OK) fail_msg("%s", err.detail);
    assert_int_equal(mr_model_info(model)->vocab_size, VOCAB);
    return model;
}

/* ---- generating ---- */

static const uint32_t listed[] = {5, 9, 40, 41, 99};
static const struct mr_logit_bias biases[] = {{17, 3.0f}, {200, -9.0f}};

/* Greedy; without cuts; each cut, also with values that keep nearly all tokens; edits. */
static const struct mr_sampling samplings[ROWS] = {
    {.top_p = 1, .typical_p = 1, .repetition_penalty = 1, .logprobs = 2},
    {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .logprobs = 0},
    {.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .typical_p = 1, .repetition_penalty = 1},
    {.temperature = 30, .top_p = 0.99f, .typical_p = 1, .repetition_penalty = 1, .logprobs = 3},
    {.temperature = 1, .top_p = 1, .min_p = 0.05f, .typical_p = 1, .repetition_penalty = 1},
    {.temperature = 1, .top_p = 1, .typical_p = 0.7f, .repetition_penalty = 1, .logprobs = 5},
    {.temperature = 9, .top_k = 271, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
    {.temperature = 2,
     .top_p = 0.95f,
     .typical_p = 1,
     .repetition_penalty = 1,
     .logit_bias = biases,
     .logit_bias_count = 2},
    {.temperature = 1,
     .top_p = 1,
     .typical_p = 1,
     .repetition_penalty = 1,
     .allowed_token_ids = listed,
     .allowed_token_count = 5},
};

/* ROWS sequences at the same position. */
struct run {
    uint32_t token_ids[ROWS], fed_by[ROWS], blocks[ROWS][BLOCKS_EACH];
    struct mr_batch_sequence sequences[ROWS];
    struct mr_sample_row rows[ROWS];
    struct mr_batch batch;
    struct mr_model_step step;
};

static void begin_run(struct run *run)
{
    *run = (struct run){.batch = {run->token_ids, ROWS, run->sequences, ROWS},
                        .step = {.batch = &run->batch, .rows = run->rows, .sample_count = ROWS}};
    for (uint32_t i = 0; i < ROWS; i++) {
        run->token_ids[i] = FIRST_TOKEN + i;
        for (uint32_t block = 0; block < BLOCKS_EACH; block++)
            run->blocks[i][block] = i * BLOCKS_EACH + block;
        run->sequences[i] = (struct mr_batch_sequence){
            .row_begin = i, .row_count = 1, .blocks = run->blocks[i], .logit_rows = 1};
        run->rows[i] =
            (struct mr_sample_row){.logit_row = i, .sampling = &samplings[i], .seed = 1000 + i};
    }
}

static void set_position(struct run *run, uint32_t position)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        run->sequences[i].context_tokens = position;
        run->rows[i].position = position + 1;
    }
}

/* One step at a time: every input is known. */
static void generate(struct mr_model *model, struct mr_sample samples[TOKENS][ROWS])
{
    struct run run;
    begin_run(&run);
    for (uint32_t at = 0; at < TOKENS; at++) {
        set_position(&run, at);
        run.step.samples = samples[at];
        assert_int_equal(mr_model_launch(model, &run.step, NULL), MR_OK);
        assert_int_equal(mr_model_collect(model, NULL), MR_OK);
        for (uint32_t i = 0; i < ROWS; i++)
            run.token_ids[i] = samples[at][i].token_id;
    }
}

/* Two steps ahead. Some rows are fed; the inputs of the others are the samples of the first run. */
static void generate_ahead(struct mr_model *model, struct mr_sample known[TOKENS][ROWS],
                           struct mr_sample samples[TOKENS][ROWS])
{
    struct run run;
    begin_run(&run);
    for (uint32_t at = 0; at <= TOKENS; at++) {
        set_position(&run, at);
        run.step.fed_by = at > 0 ? run.fed_by : NULL;
        run.step.samples = samples[at % TOKENS];
        if (at < TOKENS) assert_int_equal(mr_model_launch(model, &run.step, NULL), MR_OK);
        for (uint32_t i = 0; at < TOKENS && i < ROWS; i++) {
            const bool fed = (at + i) % 5 != 0;
            run.fed_by[i] = fed ? i : MR_ROW_KNOWN;
            run.token_ids[i] = fed ? 0 : known[at][i].token_id;
        }
        if (at > 0) assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    }
}

static void agree(const struct mr_sample *a, const struct mr_sample *b, float tolerance)
{
    assert_int_equal(a->failed, b->failed);
    assert_int_equal(a->token_id, b->token_id);
    assert_true(fabsf(a->probability - b->probability) <= tolerance);
    assert_true(fabsf(a->logprob - b->logprob) <= tolerance);
    assert_int_equal(a->top_count, b->top_count);
    for (uint32_t i = 0; i < a->top_count; i++) {
        assert_int_equal(a->top_ids[i], b->top_ids[i]);
        assert_true(fabsf(a->top_logprobs[i] - b->top_logprobs[i]) <= tolerance);
    }
}

/* With and without feeding, and with draws by the host, from lists of candidates. */
static void fed_tokens_are_those_that_are_reported(void **state)
{
    static struct mr_sample single[TOKENS][ROWS], ahead[TOKENS][ROWS], host[TOKENS][ROWS];
    (void)state;
    struct mr_model *model = open_model(&draw_kernels), *plain = open_model(NULL);
    assert_int_equal(mr_model_steps_ahead(model), 2);
    assert_int_equal(mr_model_steps_ahead(plain), 1);
    generate(model, single);
    generate_ahead(model, single, ahead);
    generate(plain, host);
    for (uint32_t at = 0; at < TOKENS; at++)
        for (uint32_t i = 0; i < ROWS; i++) {
            agree(&ahead[at][i], &single[at][i], 0.0f);
            agree(&host[at][i], &single[at][i], 1e-4f);
        }
    mr_model_close(plain);
    mr_model_close(model);
}

/* ---- rows of other kinds ---- */

static void launch_one(struct mr_model *model, uint32_t token, uint32_t position,
                       const uint32_t *fed_by, const struct mr_sample_row *row,
                       struct mr_sample *sample)
{
    const uint32_t block = 7;
    const struct mr_batch_sequence sequence = {
        .row_count = 1, .context_tokens = position, .blocks = &block, .logit_rows = 1};
    const struct mr_batch batch = {&token, 1, &sequence, 1};
    const struct mr_model_step step = {
        .batch = &batch, .fed_by = fed_by, .rows = row, .sample_count = 1, .samples = sample};
    assert_int_equal(mr_model_launch(model, &step, NULL), MR_OK);
}

/* The case of the first token after a prompt whose logits are in the prompt cache. */
static void a_token_that_the_host_draws_feeds_the_next_step(void **state)
{
    float logits[VOCAB] = {[77] = 5.0f}, known[VOCAB], fed[VOCAB];
    const uint32_t by = 0;
    const struct mr_batch none = {0};
    const struct mr_sample_row cached = {.sampling = &samplings[0], .logits = logits};
    const struct mr_sample_row row = {.sampling = &samplings[0]};
    struct mr_sample first, second;
    const struct mr_model_step draw = {
        .batch = &none, .rows = &cached, .sample_count = 1, .samples = &first};
    (void)state;
    struct mr_model *model = open_model(&draw_kernels);
    launch_one(model, 77, 0, NULL, &row, &second);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(mr_model_logits(model, 0, known, NULL), MR_OK);
    assert_int_equal(mr_model_launch(model, &draw, NULL), MR_OK);
    launch_one(model, 0, 0, &by, &row, &second);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(first.token_id, 77);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(mr_model_logits(model, 0, fed, NULL), MR_OK);
    assert_memory_equal(fed, known, sizeof fed);
    mr_model_close(model);
}

/* The device has no query for a row that the host draws, so the numbers of rows and of queries
 * differ. */
static void a_row_behind_one_that_the_host_draws_feeds_the_next_step(void **state)
{
    float logits[VOCAB] = {[77] = 5.0f}, known[VOCAB], fed[VOCAB];
    const uint32_t tokens[] = {5, 9}, blocks[] = {0, 1}, by = 2;
    const struct mr_batch_sequence sequences[] = {
        {.row_count = 1, .blocks = &blocks[0], .logit_rows = 1},
        {.row_begin = 1, .row_count = 1, .blocks = &blocks[1], .logit_rows = 1}};
    const struct mr_batch batch = {tokens, 2, sequences, 2};
    const struct mr_sample_row rows[] = {{.sampling = &samplings[0], .logit_row = 0},
                                         {.sampling = &samplings[0], .logits = logits},
                                         {.sampling = &samplings[0], .logit_row = 1},
                                         {.sampling = &samplings[1], .logit_row = 0, .seed = 3}};
    struct mr_sample drawn[4], next;
    const struct mr_model_step step = {
        .batch = &batch, .rows = rows, .sample_count = 4, .samples = drawn};
    (void)state;
    struct mr_model *model = open_model(&draw_kernels);
    assert_int_equal(mr_model_launch(model, &step, NULL), MR_OK);
    launch_one(model, 0, 0, &by, &rows[0], &next);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(drawn[1].token_id, 77);
    assert_int_not_equal(drawn[2].token_id, drawn[3].token_id);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(mr_model_logits(model, 0, fed, NULL), MR_OK);
    launch_one(model, drawn[2].token_id, 0, NULL, &rows[0], &next);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(mr_model_logits(model, 0, known, NULL), MR_OK);
    assert_memory_equal(fed, known, sizeof fed);
    mr_model_close(model);
}

/* Results of a step that are read late: logits, hidden states, and the whole rows that scores
 * need. */
struct late {
    float logits[VOCAB], hidden[HIDDEN_MAX];
    struct mr_sample sample;
};

static void read_late(struct mr_model *model, bool beside, struct late *late)
{
    static const uint32_t tokens[] = {5, 9, 2, 250, 17, 1, 33}, blocks[] = {0, 1};
    const struct mr_batch_sequence sequences[] = {
        {.row_count = 3, .blocks = &blocks[0], .logit_rows = 1},
        {.row_begin = 3, .row_count = 4, .blocks = &blocks[1], .hidden_rows = 4}};
    const struct mr_batch batch = {tokens, 7, sequences, 2};
    const struct mr_sample_row score = {
        .sampling = &samplings[0], .given = true, .given_id = 44, .position = 3};
    const struct mr_sample_row row = {.sampling = &samplings[1]};
    const struct mr_model_step step = {
        .batch = &batch, .rows = &score, .sample_count = 1, .samples = &late->sample};
    struct mr_sample other;
    memset(late, 0, sizeof *late);
    assert_int_equal(mr_model_launch(model, &step, NULL), MR_OK);
    if (beside) launch_one(model, 8, 0, NULL, &row, &other);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(mr_model_logits(model, 0, late->logits, NULL), MR_OK);
    mr_model_hidden(model, 0, late->hidden);
    if (beside) assert_int_equal(mr_model_collect(model, NULL), MR_OK);
}

static void results_last_while_the_next_step_is_in_flight(void **state)
{
    struct late alone, beside;
    (void)state;
    struct mr_model *model = open_model(&draw_kernels);
    assert_true(mr_model_info(model)->hidden_size <= HIDDEN_MAX);
    read_late(model, false, &alone);
    read_late(model, true, &beside);
    assert_int_equal(alone.sample.token_id, 44);
    assert_int_equal(alone.sample.top_count, 2);
    assert_memory_equal(&alone, &beside, sizeof alone);
    mr_model_close(model);
}

static void misuse_asserts(void **state)
{
    const uint32_t token = 1, block = 0, fed_by = 0;
    const struct mr_batch_sequence sequence = {.row_count = 1, .blocks = &block, .logit_rows = 1};
    const struct mr_batch batch = {&token, 1, &sequence, 1};
    const struct mr_sample_row row = {.sampling = &samplings[0]};
    struct mr_sample sample;
    struct mr_model_step step = {.batch = &batch, .fed_by = &fed_by};
    (void)state;
    struct mr_model *model = open_model(&draw_kernels);
    expect_assert_failure(mr_model_launch(model, &step, NULL)); /* no step before */
    step.fed_by = NULL;
    assert_int_equal(mr_model_launch(model, &step, NULL), MR_OK);
    launch_one(model, 1, 0, NULL, &row, &sample);
    expect_assert_failure(mr_model_launch(model, &step, NULL)); /* two steps in flight */
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK);
    assert_int_equal(mr_model_collect(model, NULL), MR_OK); /* nothing in flight */
    mr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fed_tokens_are_those_that_are_reported),
        cmocka_unit_test(a_token_that_the_host_draws_feeds_the_next_step),
        cmocka_unit_test(a_row_behind_one_that_the_host_draws_feeds_the_next_step),
        cmocka_unit_test(results_last_while_the_next_step_is_in_flight),
        cmocka_unit_test(misuse_asserts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
