/* The texts of a request are taken one after the other, and each result gets the layers and the
 * form that its task has. */
#include "batching/sequence/text_set.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEXTS 4

static const uint32_t ids[] = {1, 2, 3};
static float weight[] = {1, 1}; /* the sum of both numbers of a hidden state */
static struct mr_text label = {"good", 4};
static const struct mr_text_heads heads = {
    .classes = {.layers = {{.in_size = 2, .out_size = 1, .weight = weight}}, .layer_count = 1},
    .labels = &label,
    .label_count = 1,
    .class_activation = MR_HEAD_SIGMOID,
    .scratch_size = 2};

/* The second of the texts has an error. */
static struct mr_request make_request(enum mr_task task, struct mr_input *inputs)
{
    for (uint32_t i = 0; i < TEXTS; i++)
        inputs[i] = (struct mr_input){.token_ids = ids, .token_count = 1 + i % 3};
    inputs[1].error = MR_PROMPT_TOO_LONG;
    return (struct mr_request){.task = task, .inputs = {.list = inputs, .count = TEXTS}};
}

static struct mr_text_set *make_set(struct mr_request *request)
{
    struct mr_text_set *set;
    assert_int_equal(mr_text_set_create(&set, request, &heads, 2, NULL), MR_OK);
    return set;
}

static void finish(struct mr_text_set *set, uint32_t index, float first, float second)
{
    struct mr_embedding *embedding;
    assert_int_equal(mr_embedding_create(&embedding, (struct mr_pooling){.last = true}, 1, 2, NULL),
                     MR_OK);
    assert_true(mr_embedding_add(embedding, (const float[]){first, second}, 1));
    mr_text_set_finish(set, index, embedding);
    mr_embedding_destroy(embedding);
}

static void a_text_with_an_error_is_passed_over(void **state)
{
    (void)state;
    struct mr_input inputs[TEXTS];
    struct mr_request request = make_request(MR_TASK_EMBED, inputs);
    struct mr_text_set *set = make_set(&request);
    assert_int_equal(set->good, 3);
    assert_int_equal(set->longest, 3);
    assert_int_equal(set->token_count, 1 + 3 + 1);
    uint32_t tokens[3];
    struct mr_sequence sequence = {.tokens = tokens, .capacity = 3};
    static const uint32_t order[] = {0, 2, 3};
    assert_int_equal(mr_text_set_begin(set, &sequence, 1, MR_MODEL_POOLING_MEAN, NULL), MR_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sequence.text, order[i]);
        assert_int_equal(sequence.num_tokens, inputs[order[i]].token_count);
        assert_int_equal(sequence.embedding->token_count, sequence.num_tokens);
        assert_int_equal(mr_text_set_next(set, &sequence), i < 2);
    }
    mr_embedding_destroy(sequence.embedding);
    mr_text_set_destroy(set);
}

static void vectors_are_cut_and_then_normalized(void **state)
{
    (void)state;
    struct mr_input inputs[TEXTS];
    struct mr_request request = make_request(MR_TASK_EMBED, inputs);
    struct mr_result result = {.choice_count = 1};
    request.pooling = (struct mr_pooling){.normalize = true};
    struct mr_text_set *set = make_set(&request);
    finish(set, 0, 3, -4);
    finish(set, 2, 0, 0);
    assert_false(mr_text_set_done(set));
    request.pooling.dimensions = 1;
    finish(set, 3, -7, 2);
    assert_true(mr_text_set_done(set));
    mr_text_set_report(set, &result);
    assert_int_equal(result.data.count, TEXTS);
    assert_true(fabsf(result.data.entries[0].numbers[0] - 0.6f) < 1e-6f);
    assert_true(fabsf(result.data.entries[0].numbers[1] + 0.8f) < 1e-6f);
    assert_int_equal(result.data.entries[1].error, MR_PROMPT_TOO_LONG);
    assert_true(result.data.entries[2].numbers[0] == 0.0f);
    assert_int_equal(result.data.entries[3].count, 1);
    assert_true(result.data.entries[3].numbers[0] == -1.0f);
    mr_text_set_destroy(set);
}

static void ranks_are_sorted_and_errors_come_last(void **state)
{
    (void)state;
    static const uint32_t order[] = {3, 0, 2, 1};
    for (uint32_t top = 0; top <= TEXTS; top++) {
        struct mr_input inputs[TEXTS];
        struct mr_request request = make_request(MR_TASK_RERANK, inputs);
        struct mr_result result = {.choice_count = 1};
        request.inputs.top = top;
        struct mr_text_set *set = make_set(&request);
        finish(set, 0, 2, 3);
        finish(set, 2, 1, 1);
        finish(set, 3, 5, 4);
        mr_text_set_report(set, &result);
        const size_t kept = top == 0 || top > 3 ? 3 : top;
        assert_int_equal(result.data.form, MR_DATA_RANKS);
        assert_int_equal(result.data.count, kept + 1);
        for (size_t i = 0; i < kept; i++)
            assert_int_equal(result.data.entries[i].index, order[i]);
        assert_int_equal(result.data.entries[kept].index, 1);
        assert_true(result.data.entries[0].numbers[0] == 9.0f);
        mr_text_set_destroy(set);
    }
}

static void classes_have_probabilities_unless_raw_numbers_are_requested(void **state)
{
    (void)state;
    for (int raw = 0; raw < 2; raw++) {
        struct mr_input inputs[TEXTS];
        struct mr_request request = make_request(MR_TASK_CLASSIFY, inputs);
        struct mr_result result = {.choice_count = 1};
        request.inputs.count = 1;
        request.inputs.raw = raw;
        struct mr_text_set *set = make_set(&request);
        finish(set, 0, 1, 1);
        mr_text_set_report(set, &result);
        assert_int_equal(result.data.label_count, 1);
        const float right = raw ? 2.0f : 1.0f / (1.0f + expf(-2.0f));
        assert_true(fabsf(result.data.entries[0].numbers[0] - right) < 1e-6f);
        mr_text_set_destroy(set);
    }
}

static enum mr_status odd_only(const void *context, const uint32_t *tokens, size_t count,
                               struct mr_error *err)
{
    (void)context, (void)tokens;
    return count % 2 == 1 ? MR_OK : mr_fail(err, MR_EMPTY_PROMPT, "even");
}

static void a_request_fails_only_if_all_its_texts_do(void **state)
{
    (void)state;
    struct mr_input inputs[TEXTS];
    struct mr_error err = {0};
    struct mr_request request = make_request(MR_TASK_EMBED, inputs);
    request.arena = mr_arena_create(4096);
    inputs[3].token_count = 2;
    assert_int_equal(mr_text_set_check_inputs(&request, odd_only, NULL, &err), MR_OK);
    assert_int_equal(inputs[0].error, MR_OK);
    assert_int_equal(inputs[1].error, MR_PROMPT_TOO_LONG);
    assert_int_equal(inputs[3].error, MR_EMPTY_PROMPT);
    assert_string_equal(inputs[3].message, "even");
    inputs[0].token_count = inputs[2].token_count = 2;
    assert_int_equal(mr_text_set_check_inputs(&request, odd_only, NULL, &err), MR_EMPTY_PROMPT);
    mr_arena_destroy(request.arena);
}

static void a_task_needs_its_head(void **state)
{
    (void)state;
    struct mr_input inputs[TEXTS];
    struct mr_request request = make_request(MR_TASK_EMBED, inputs);
    struct mr_error err;
    struct mr_text_heads several = heads;
    several.label_count = 2;
    assert_int_equal(mr_text_set_check(&request, NULL, 2, &err), MR_OK);
    assert_int_equal(mr_text_set_check(&request, NULL, 0, &err), MR_UNSUPPORTED);
    request.pooling.dimensions = 3;
    assert_int_equal(mr_text_set_check(&request, NULL, 2, &err), MR_INVALID_REQUEST);
    request.task = MR_TASK_RERANK;
    assert_int_equal(mr_text_set_check(&request, NULL, 2, &err), MR_UNSUPPORTED);
    assert_int_equal(mr_text_set_check(&request, &several, 2, &err), MR_UNSUPPORTED);
    assert_int_equal(mr_text_set_check(&request, &heads, 2, &err), MR_OK);
    request.task = MR_TASK_CLASSIFY;
    assert_int_equal(mr_text_set_check(&request, &several, 2, &err), MR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_with_an_error_is_passed_over),
        cmocka_unit_test(a_request_fails_only_if_all_its_texts_do),
        cmocka_unit_test(a_task_needs_its_head),
        cmocka_unit_test(vectors_are_cut_and_then_normalized),
        cmocka_unit_test(ranks_are_sorted_and_errors_come_last),
        cmocka_unit_test(classes_have_probabilities_unless_raw_numbers_are_requested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
