#include "records.h"

#include "codec/limits.h"

#include <stdio.h>

/* Decodes {"prompt":"x", <members>} in both encodings. */
static enum mr_status with(const char *members)
{
    static char json[1 << 17];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json, "{\"prompt\":\"x\",%s}", members);
    return status_of_both(json, &context);
}

static void continuations_are_texts_or_token_ids(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"prompt\":\"x\",\"task\":\"score\",\"logprobs\":3,"
                                        "\"continuations\":[\" a\",[4,5],\"b\"]}"));
    assert_int_equal(got.status, MR_OK);
    const struct mr_request *request = got.request;
    assert_int_equal(request->task, MR_TASK_SCORE);
    assert_int_equal(request->continuation_count, 3);
    assert_true(mr_text_is(request->continuations[0].text, " a"));
    assert_int_equal(request->continuations[0].token_count, 0);
    assert_null(request->continuations[1].text.bytes);
    assert_int_equal(request->continuations[1].token_count, 2);
    assert_int_equal(request->continuations[1].token_ids[1], 5);
    assert_int_equal(request->sampling.logprobs, 3);
    assert_int_equal(request->max_tokens, 0);
    mr_request_destroy(got.request);
}

static void task_and_continuations_go_together(void **state)
{
    (void)state;
    assert_int_equal(with("\"task\":\"score\",\"continuations\":[\"a\"]"), MR_OK);
    assert_int_equal(with("\"continuations\":[[1]],\"task\":\"score\",\"max_tokens\":5"), MR_OK);
    assert_int_equal(with("\"task\":\"score\",\"min_tokens\":3,\"continuations\":[[1]]"), MR_OK);
    assert_int_equal(with("\"task\":\"score\""), MR_INVALID_REQUEST);
    assert_int_equal(with("\"continuations\":[\"a\"]"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"continuations\":[\"a\"],\"task\":\"generate\""), MR_INVALID_REQUEST);
}

static void continuations_have_a_form_and_a_limit(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\"a\"", "[]",   "[\"\"]",   "[[]]",
                                        "[5]",   "[{}]", "[[\"a\"]]"};
    char members[1024];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(members, sizeof members, "\"task\":\"score\",\"continuations\":%s", wrong[i]);
        if (with(members) != MR_INVALID_REQUEST) fail_msg("%s was not refused", wrong[i]);
    }
    assert_int_equal(with("\"task\":\"score\",\"continuations\":[[4294967295]]"),
                     MR_INVALID_TOKEN_ID);
    for (size_t count = MR_CONTINUATIONS_MAX; count <= MR_CONTINUATIONS_MAX + 1; count++) {
        int length =
            snprintf(members, sizeof members, "\"task\":\"score\",\"continuations\":[\"a\"");
        for (size_t i = 1; i < count; i++)
            length += snprintf(members + length, sizeof members - (size_t)length, ",\"a\"");
        snprintf(members + length, sizeof members - (size_t)length, "]");
        assert_int_equal(with(members), count > MR_CONTINUATIONS_MAX ? MR_INVALID_REQUEST : MR_OK);
    }
}

static void a_score_has_no_answer_to_ask_for(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\"n\":2", "\"prompt_logprobs\":1", "\"echo\":true",
                                        "\"response_format\":{\"type\":\"json_object\"}"};
    char members[256];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(members, sizeof members, "\"task\":\"score\",\"continuations\":[\"a\"],%s",
                 wrong[i]);
        if (with(members) != MR_INVALID_REQUEST) fail_msg("%s was not refused", wrong[i]);
    }
}

static void a_vector_has_its_fields(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"prompt\":\"x\",\"task\":\"embed\"}"));
    assert_int_equal(got.status, MR_OK);
    assert_int_equal(got.request->task, MR_TASK_EMBED);
    assert_true(!got.request->pooling.mean && got.request->pooling.normalize);
    assert_true(!got.request->embedding_base64 && got.request->max_tokens == 0);
    mr_request_destroy(got.request);
    got = decode(text_of("{\"prompt\":\"x\",\"pooling\":\"mean\",\"normalize\":false,"
                         "\"encoding_format\":\"base64\",\"task\":\"embed\","
                         "\"dimensions\":7}"));
    assert_int_equal(got.status, MR_OK);
    assert_true(got.request->pooling.mean && !got.request->pooling.normalize);
    assert_true(got.request->embedding_base64);
    assert_int_equal(got.request->pooling.dimensions, 7);
    mr_request_destroy(got.request);
    got = decode(text_of("{\"prompt\":\"x\",\"task\":\"embed\",\"pooling\":\"cls\"}"));
    assert_true(got.request->pooling.first && !got.request->pooling.mean);
    mr_request_destroy(got.request);
    static const char *const wrong[] = {
        "\"pooling\":\"max\"",      "\"pooling\":1",     "\"normalize\":1",
        "\"encoding_format\":\"\"", "\"n\":2",           "\"logprobs\":0",
        "\"prompt_logprobs\":0",    "\"echo\":true",     "\"continuations\":[\"a\"]",
        "\"dimensions\":0",         "\"dimensions\":1.5"};
    char members[256];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(members, sizeof members, "\"task\":\"embed\",%s", wrong[i]);
        if (with(members) != MR_INVALID_REQUEST) fail_msg("%s was not refused", wrong[i]);
    }
}

static void fields_of_a_vector_need_its_task(void **state)
{
    (void)state;
    assert_int_equal(with("\"pooling\":\"mean\""), MR_INVALID_REQUEST);
    assert_int_equal(with("\"dimensions\":4"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"normalize\":true"), MR_INVALID_REQUEST);
    assert_int_equal(with("\"encoding_format\":\"float\",\"task\":\"generate\""),
                     MR_INVALID_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continuations_are_texts_or_token_ids),
        cmocka_unit_test(task_and_continuations_go_together),
        cmocka_unit_test(continuations_have_a_form_and_a_limit),
        cmocka_unit_test(a_score_has_no_answer_to_ask_for),
        cmocka_unit_test(a_vector_has_its_fields),
        cmocka_unit_test(fields_of_a_vector_need_its_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
