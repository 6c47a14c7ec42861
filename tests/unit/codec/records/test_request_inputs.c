/* The fields of requests that have several texts. */
#include "records.h"

#include "codec/limits.h"

#include <stdio.h>

static enum mr_status of(const char *members)
{
    static char json[1 << 16];
    struct mr_request_context context = test_context();
    snprintf(json, sizeof json, "{%s}", members);
    return status_of_both(json, &context);
}

static void input_is_one_text_or_several(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"task\":\"embed\",\"input\":[\"a\",[4,5],\"\"]}"));
    assert_int_equal(got.status, MR_OK);
    const struct mr_inputs *inputs = &got.request->inputs;
    assert_int_equal(inputs->count, 3);
    assert_true(mr_text_is(inputs->list[0].text, "a"));
    assert_null(inputs->list[1].text.bytes);
    assert_int_equal(inputs->list[1].token_count, 2);
    assert_int_equal(inputs->list[2].text.length, 0);
    assert_int_equal(got.request->max_tokens, 0);
    mr_request_destroy(got.request);
    static const char *const one[] = {"\"a\"", "[1,2]", "[[1]]", "[\"a\"]"};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        char json[128];
        snprintf(json, sizeof json, "{\"task\":\"classify\",\"input\":%s}", one[i]);
        got = decode(text_of(json));
        assert_int_equal(got.status, MR_OK);
        assert_int_equal(got.request->inputs.count, 1);
        mr_request_destroy(got.request);
    }
}

static void classify_reads_pairs(void **state)
{
    (void)state;
    struct decoded got =
        decode(text_of("{\"task\":\"classify\",\"use_activation\":false,\"input\":"
                       "[{\"text\":\"a\",\"text_pair\":\"b\"},{\"text\":\"c\"}]}"));
    assert_int_equal(got.status, MR_OK);
    assert_true(got.request->inputs.raw);
    assert_true(mr_text_is(got.request->inputs.list[0].second, "b"));
    assert_null(got.request->inputs.list[1].second.bytes);
    mr_request_destroy(got.request);
    assert_int_equal(of("\"task\":\"classify\",\"input\":[{\"text_pair\":\"b\"}]"),
                     MR_INVALID_REQUEST);
    assert_int_equal(of("\"task\":\"embed\",\"input\":[{\"text\":\"a\",\"text_pair\":\"b\"}]"),
                     MR_INVALID_REQUEST);
}

static void rerank_pairs_the_query_with_each_document(void **state)
{
    (void)state;
    struct decoded got = decode(text_of("{\"task\":\"rerank\",\"query\":\"q\",\"top_n\":2,"
                                        "\"return_documents\":true,"
                                        "\"documents\":[\"a\",{\"text\":\"b\"}]}"));
    assert_int_equal(got.status, MR_OK);
    const struct mr_inputs *inputs = &got.request->inputs;
    assert_int_equal(inputs->count, 2);
    assert_int_equal(inputs->top, 2);
    assert_true(inputs->return_documents);
    assert_true(mr_text_is(inputs->list[1].text, "q"));
    assert_true(mr_text_is(inputs->list[1].second, "b"));
    assert_int_equal(got.request->chat.documents.kind, MR_DATA_NULL);
    mr_request_destroy(got.request);
}

static void fields_that_do_not_fit_the_task_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "\"input\":\"a\"",
        "\"task\":\"score\",\"input\":\"a\",\"continuations\":[\"b\"]",
        "\"task\":\"embed\",\"input\":[]",
        "\"task\":\"embed\",\"input\":5",
        "\"task\":\"embed\",\"input\":[null]",
        "\"task\":\"embed\",\"input\":\"a\",\"prompt\":\"b\"",
        "\"task\":\"embed\",\"input\":\"a\",\"use_activation\":true",
        "\"task\":\"classify\"",
        "\"task\":\"classify\",\"input\":\"a\",\"top_n\":1",
        "\"task\":\"classify\",\"input\":\"a\",\"dimensions\":4",
        "\"task\":\"rerank\"",
        "\"task\":\"rerank\",\"query\":\"q\"",
        "\"task\":\"rerank\",\"documents\":[\"a\"]",
        "\"task\":\"rerank\",\"query\":\"q\",\"documents\":[]",
        "\"task\":\"rerank\",\"query\":\"q\",\"documents\":[{\"title\":\"a\"}]",
        "\"task\":\"rerank\",\"query\":\"q\",\"documents\":[\"a\"],\"top_n\":0",
        "\"task\":\"rerank\",\"query\":\"q\",\"documents\":[\"a\"],\"prompt\":\"x\"",
        "\"prompt\":\"a\",\"query\":\"q\"",
        "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"documents\":[\"a\"]",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (of(wrong[i]) != MR_INVALID_REQUEST) fail_msg("%s was not refused", wrong[i]);
}

static void the_number_of_texts_has_a_limit(void **state)
{
    (void)state;
    static char json[1 << 15];
    for (size_t count = MR_INPUTS_MAX; count <= MR_INPUTS_MAX + 1; count++) {
        int length = snprintf(json, sizeof json, "\"task\":\"embed\",\"input\":[\"\"");
        for (size_t i = 1; i < count; i++)
            length += snprintf(json + length, sizeof json - (size_t)length, ",\"a\"");
        snprintf(json + length, sizeof json - (size_t)length, "]");
        assert_int_equal(of(json), count > MR_INPUTS_MAX ? MR_INVALID_REQUEST : MR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(input_is_one_text_or_several),
        cmocka_unit_test(classify_reads_pairs),
        cmocka_unit_test(rerank_pairs_the_query_with_each_document),
        cmocka_unit_test(fields_that_do_not_fit_the_task_are_refused),
        cmocka_unit_test(the_number_of_texts_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
