#include "batching/engine/batch_builder.h"

#include "tests/fakes/fake_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* One job of two choices; tests set how far its first sequence is computed. */
static struct mr_tokenizer *tokenizer;
static struct mr_token_text *texts;
static struct mr_job *job;
static struct mr_batch_builder *builder;
static mr_block_id blocks[] = {4, 2};
static struct mr_block_table table = {.blocks = blocks, .block_count = 2};

static struct mr_job_rules rules;

static int setup(void **state)
{
    (void)state;
    uint32_t prompt[] = {10, 11, 12, 13, 14};
    const struct mr_batch_limits limits = {.rows = 5, .sequences = 2, .drafts = 3, .scores = 4};
    struct mr_error err = {0};
    tokenizer = mr_fake_tokenizer();
    assert_int_equal(mr_token_text_create(&texts, tokenizer, &err), MR_OK);
    rules = (struct mr_job_rules){.completion = {.tokenizer = tokenizer, .texts = texts},
                                  .vocab_size = MR_FAKE_VOCABULARY,
                                  .context_tokens = 100,
                                  .block_count = 8,
                                  .scores_max = 4};
    struct mr_request *request = mr_fake_request("a", prompt, 5);
    request->choice_count = 2;
    request->scores_prompt = true;
    struct mr_submission submission = {.request = request};
    assert_int_equal(mr_job_create(&job, &rules, &submission, &err), MR_OK);
    assert_int_equal(mr_batch_builder_create(&builder, &limits, &rules, &err), MR_OK);
    job->sequences[0].table = &table;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    struct mr_request *request = job->request;
    mr_batch_builder_destroy(builder);
    mr_job_destroy(job);
    mr_request_destroy(request);
    mr_token_text_destroy(texts);
    mr_tokenizer_destroy(tokenizer);
    return 0;
}

static void a_chunk_is_its_tokens_at_their_place(void **state)
{
    (void)state;
    struct mr_plan_row row = {.sequence = &job->sequences[0], .token_count = 2};
    struct mr_plan plan = {.rows = &row, .row_count = 1};
    job->sequences[0].num_computed = 1;
    mr_batch_builder_build(builder, &plan);
    const struct mr_batch *batch = &builder->batch;
    assert_int_equal(batch->row_count, 2);
    assert_int_equal(batch->sequence_count, 1);
    assert_int_equal(batch->token_ids[0], 11);
    assert_int_equal(batch->token_ids[1], 12);
    assert_int_equal(batch->sequences[0].context_tokens, 1);
    assert_ptr_equal(batch->sequences[0].blocks, blocks);
    assert_int_equal(batch->sequences[0].logit_rows, 0);
    assert_int_equal(builder->sample_count, 0);
}

static void the_end_of_a_prompt_samples_every_choice_from_one_row(void **state)
{
    (void)state;
    struct mr_plan_row row = {.sequence = &job->sequences[0], .token_count = 5, .samples = true};
    struct mr_plan plan = {.rows = &row, .row_count = 1};
    job->sequences[0].num_computed = 0;
    mr_batch_builder_build(builder, &plan);
    assert_int_equal(builder->batch.sequences[0].logit_rows, 1);
    assert_int_equal(builder->sample_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ptr_equal(builder->sampled[i], &job->sequences[1 - i]); /* the first one last */
        assert_int_equal(builder->sample_rows[i].logit_row, 0);
        assert_int_equal(builder->sample_rows[i].position, 5);
    }
    assert_true(builder->sample_rows[0].seed != builder->sample_rows[1].seed);
}

static void known_logits_need_no_rows(void **state)
{
    (void)state;
    const float logits[MR_FAKE_VOCABULARY] = {0};
    struct mr_plan_row row = {.sequence = &job->sequences[0], .samples = true, .logits = logits};
    struct mr_plan plan = {.rows = &row, .row_count = 1};
    mr_batch_builder_build(builder, &plan);
    assert_int_equal(builder->batch.row_count, 0);
    assert_int_equal(builder->batch.sequence_count, 0);
    assert_int_equal(builder->sample_count, 2);
    assert_ptr_equal(builder->sample_rows[1].logits, logits);
    assert_true(builder->logit_rows[0] == UINT32_MAX);
}

static void logit_rows_count_only_those_that_sample(void **state)
{
    (void)state;
    struct mr_sequence *second = &job->sequences[1];
    second->table = &table;
    second->num_computed = 4;
    struct mr_plan_row rows[] = {{.sequence = &job->sequences[0], .token_count = 3},
                                 {.sequence = second, .token_count = 1, .samples = true}};
    struct mr_plan plan = {.rows = rows, .row_count = 2};
    job->sequences[0].num_computed = 0;
    mr_batch_builder_build(builder, &plan);
    assert_int_equal(builder->batch.sequences[1].row_begin, 3);
    assert_int_equal(builder->batch.token_ids[3], 14);
    assert_true(builder->logit_rows[0] == UINT32_MAX);
    assert_int_equal(builder->logit_rows[1], 0);
    assert_int_equal(builder->sample_count, 1);
    second->table = NULL;
    second->num_computed = 0;
}

static void drafts_have_rows_and_logits_of_their_own(void **state)
{
    (void)state;
    struct mr_sequence *sequence = &job->sequences[0];
    const uint32_t before = sequence->num_tokens, computed = sequence->num_computed;
    mr_sequence_append(sequence, 20);
    sequence->num_computed = before;
    sequence->draft_count = 2;
    sequence->tokens[before + 1] = 21;
    sequence->tokens[before + 2] = 22;
    struct mr_plan_row row = {
        .sequence = sequence, .token_count = 3, .draft_count = 2, .decode = true, .samples = true};
    struct mr_plan plan = {.rows = &row, .row_count = 1};
    mr_batch_builder_build(builder, &plan);
    assert_int_equal(builder->batch.row_count, 3);
    assert_int_equal(builder->batch.sequences[0].logit_rows, 3);
    assert_int_equal(builder->sample_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mr_sample_row *sample = &builder->sample_rows[i];
        assert_int_equal(builder->batch.token_ids[i], 20 + i);
        assert_ptr_equal(builder->sampled[i], i == 0 ? sequence : NULL);
        assert_int_equal(sample->logit_row, i);
        assert_int_equal(sample->position, before + 1 + i);
        assert_int_equal(sample->history[sample->history_count - 1], 20 + i);
        assert_true(sample->seed == builder->sample_rows[0].seed);
    }
    sequence->draft_count = 0;
    sequence->num_tokens = before;
    sequence->num_computed = computed;
}

static void an_unknown_token_is_fed_by_its_sampling_row(void **state)
{
    (void)state;
    struct mr_sequence *sequence = &job->sequences[0];
    struct mr_plan_row row = {
        .sequence = sequence, .token_count = 1, .decode = true, .samples = true};
    struct mr_plan plan = {.rows = &row, .row_count = 1};
    mr_batch_builder_build(builder, &plan);
    assert_false(builder->feeds);
    assert_true(builder->fed_by[0] == MR_ROW_KNOWN);
    sequence->unknown = 1;
    sequence->fed_row = 3;
    mr_batch_builder_build(builder, &plan);
    assert_true(builder->feeds);
    assert_int_equal(builder->fed_by[0], 3);
    sequence->unknown = 0;
}

/* Rows whose logits score a token come before the row that draws. The row of the last prompt token
 * has logits even when nothing is drawn. */
static void scored_tokens_have_rows_before_the_drawn_one(void **state)
{
    (void)state;
    struct mr_sequence *sequence = &job->sequences[0];
    sequence->num_computed = 1;
    for (int draws = 1; draws >= 0; draws--) {
        struct mr_plan_row row = {.sequence = sequence,
                                  .token_count = 4,
                                  .score_begin = 2,
                                  .score_count = 2,
                                  .score_samples = 2,
                                  .samples = draws};
        struct mr_plan plan = {.rows = &row, .row_count = 1};
        mr_batch_builder_build(builder, &plan);
        assert_int_equal(builder->batch.sequences[0].logit_rows, 3);
        assert_int_equal(builder->sample_count, draws ? 4 : 2); /* of both choices */
        assert_int_equal(builder->score_rows[0], 0);
        for (uint32_t i = 0; i < 2; i++) {
            assert_null(builder->sampled[i]);
            assert_true(builder->sample_rows[i].given);
            assert_int_equal(builder->sample_rows[i].logit_row, i);
            assert_int_equal(builder->sample_rows[i].given_id, 13 + i);
        }
        assert_int_equal(builder->logit_rows[0], draws ? 2 : UINT32_MAX);
        if (draws) assert_int_equal(builder->sample_rows[3].logit_row, 2);
    }
}

static void more_rows_than_there_is_room_for_are_a_bug(void **state)
{
    (void)state;
    struct mr_plan_row row = {.sequence = &job->sequences[0], .token_count = 9};
    struct mr_plan plan = {.rows = &row, .row_count = 1};
    expect_assert_failure(mr_batch_builder_build(builder, &plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_is_its_tokens_at_their_place),
        cmocka_unit_test(the_end_of_a_prompt_samples_every_choice_from_one_row),
        cmocka_unit_test(known_logits_need_no_rows),
        cmocka_unit_test(logit_rows_count_only_those_that_sample),
        cmocka_unit_test(drafts_have_rows_and_logits_of_their_own),
        cmocka_unit_test(an_unknown_token_is_fed_by_its_sampling_row),
        cmocka_unit_test(scored_tokens_have_rows_before_the_drawn_one),
        cmocka_unit_test(more_rows_than_there_is_room_for_are_a_bug),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
